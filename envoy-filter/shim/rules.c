#include <stdatomic.h>
#include <stdlib.h>

#include "_cgo_export.h"
#include "rules.h"

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
  titrateReleaseSlots(rules->identity_slots, rules->class_slots, rules->cost_slots);
  for (struct titrate_memory *m = rules->memory, *next; m != NULL; m = next) {
    next = m->next;
    free(m);
  }
  free(rules);
}

// Overrides alive in this process: without any, no request needs to ask Envoy for one.
static atomic_long overrides;

void titrate_count_overrides(int change) { atomic_fetch_add(&overrides, change); }

struct titrate_layers titrate_layers_of(abi_http_filter envoy, const struct titrate_rules* filter) {
  const struct titrate_rules* route = NULL;
  if (atomic_load_explicit(&overrides, memory_order_relaxed) != 0)
    route = ENVOY(get_most_specific_route_config)(envoy);
  return (struct titrate_layers){route != NULL ? route : filter, filter};
}
