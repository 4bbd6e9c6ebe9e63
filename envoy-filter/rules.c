// Rules: where tenant, client, pool and cost of a request come from.

#include <stdlib.h>
#include <string.h>

#include "shim.h"

struct titrate_rules* titrate_rules_new(void) { return calloc(1, sizeof(struct titrate_rules)); }

static void sources_free(struct titrate_sources* s) {
  for (size_t i = 0; i < s->count; i++) free((void*)s->list[i].text.ptr);
  free(s->list);
}

void titrate_rules_free(struct titrate_rules* rules) {
  if (rules == NULL) return;
  sources_free(&rules->tenant);
  sources_free(&rules->client);
  sources_free(&rules->pool);
  sources_free(&rules->cost);
  free(rules);
}

void titrate_sources_add(struct titrate_sources* s, int kind, const char* text, size_t length,
                         double number) {
  struct titrate_source* grown = realloc(s->list, (s->count + 1) * sizeof *grown);
  char* copy = malloc(length + 1);
  if (grown == NULL || copy == NULL) abort(); // out of memory while loading a configuration
  memcpy(copy, text, length);
  copy[length] = 0;
  s->list = grown;
  s->list[s->count++] = (struct titrate_source){
      .kind = kind, .text = {.ptr = copy, .length = length}, .number = number};
}
