// Envoy's scheduler, in which the worker is as fast as can be: it acts before the call that wakes it returns.

#include "scheduler.h"

static enum worker worker;
static struct titrate_held* held;
static struct titrate_event taken;
static int scheduler, deleted;

abi_scheduler ENVOY(http_filter_scheduler_new)(abi_http_filter envoy) {
  (void)envoy;
  return &scheduler;
}

void ENVOY(http_filter_scheduler_delete)(abi_scheduler s) {
  (void)s;
  deleted++;
}

static void act(void) {
  if (worker == WORKER_TAKES || worker == WORKER_TAKES_LATER)
    taken = titrate_held_take(held);
  else
    taken.slots = titrate_held_detach(held);
}

void ENVOY(http_filter_scheduler_commit)(abi_scheduler s, uint64_t id) {
  (void)s, (void)id;
  if (worker == WORKER_TAKES || worker == WORKER_ENDS) act();
}

struct outcome release(enum worker w) {
  worker = w;
  deleted = 0;
  taken = (struct titrate_event){0};
  held = titrate_held_new(NULL);
  struct titrate_event event = {.ticket = (uint64_t)(uintptr_t)held, .slots = 7};
  if (w == WORKER_ENDED) act();
  titrate_release(&event, 1);
  if (w == WORKER_TAKES_LATER || w == WORKER_ENDS_LATER) act();
  return (struct outcome){.dropped = event.dropped, .slots = taken.slots, .deleted = deleted};
}
