// Rules: where tenant, client, pool and cost of a request come from, and what it
// is known by. Go fills them in; their memory is the rules' own.

#include <stdlib.h>

#include "_cgo_export.h"

struct titrate_memory {
  struct titrate_memory* next;
  max_align_t bytes[];
};

struct titrate_rules* titrate_rules_new(void) { return calloc(1, sizeof(struct titrate_rules)); }

void* titrate_rules_allocate(struct titrate_rules* rules, size_t size) {
  struct titrate_memory* m = calloc(1, sizeof *m + size);
  if (m == NULL) abort(); // out of memory while loading a configuration
  m->next = rules->memory;
  rules->memory = m;
  return m->bytes;
}

void titrate_rules_free(struct titrate_rules* rules) {
  if (rules == NULL) return;
  titrateForget(rules->identity_names, rules->class_names);
  for (struct titrate_memory *m = rules->memory, *next; m != NULL; m = next) {
    next = m->next;
    free(m);
  }
  free(rules);
}
