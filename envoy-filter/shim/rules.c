#include <stdatomic.h>
#include <stdlib.h>

#include "_cgo_export.h"
#include "rules.h"

struct titrate_memory {
  struct titrate_memory* next;
  max_align_t bytes[];
};

struct titrate_rules* titrate_rules_new(void) {
  struct titrate_rules* rules = calloc(1, sizeof *rules);
  if (rules == NULL) abort(); // out of memory while loading a configuration
  rules->held = 1;
  return rules;
}

void* titrate_rules_allocate(struct titrate_rules* rules, size_t size) {
  struct titrate_memory* m = calloc(1, sizeof *m + size);
  if (m == NULL) abort(); // out of memory while loading a configuration
  m->next = rules->memory;
  rules->memory = m;
  return m->bytes;
}

void titrate_rules_hold(const struct titrate_rules* rules) {
  __atomic_fetch_add(&((struct titrate_rules*)rules)->held, 1, __ATOMIC_RELAXED);
}

void titrate_rules_release(const struct titrate_rules* held) {
  struct titrate_rules* rules = (struct titrate_rules*)held;
  if (rules == NULL || __atomic_sub_fetch(&rules->held, 1, __ATOMIC_ACQ_REL) != 0) return;
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
