// Who owns a held request.
//
//	queued ──ticker──► releasing ──ticker──► released
//	   └───────worker─────┴────────worker───────┴──► taken or gone
//
// The engine ends each ticket once: by an event to the ticker, or by a cancel
// of the worker, whichever comes first. After a cancel the worker is the only owner.
// Otherwise ticker and worker both use the held request, in any order, and its atomic
// state decides which of them is last and frees it:
//
//  - The ticker moves queued → releasing, posts the event, then moves
//    releasing → released. If either step finds taken or gone, the worker has detached
//    before that step, and the ticker frees.
//  - The worker swaps in taken if the event has woken the stream, gone if the stream has
//    ended. If it finds released, the ticker is done and the worker frees.
//
// So the scheduler is deleted exactly once, and never while the ticker posts to it.
// Envoy drops an event whose stream is gone. Then the slots of the event belong to nobody, and the ticker frees
// them. The slots of a taken event are the stream's.

#include "held.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { QUEUED, RELEASING, RELEASED, TAKEN, GONE };

struct titrate_held {
  atomic_int state;
  abi_scheduler scheduler;
  struct titrate_event event;
};

struct titrate_held* titrate_held_new(abi_http_filter envoy) {
  struct titrate_held* held = calloc(1, sizeof *held);
  if (held == NULL) return NULL;
  held->scheduler = ENVOY(http_filter_scheduler_new)(envoy);
  return held;
}

void titrate_held_free(struct titrate_held* held) {
  ENVOY(http_filter_scheduler_delete)(held->scheduler);
  free(held);
}

struct titrate_event titrate_held_take(struct titrate_held* held) {
  struct titrate_event event = held->event;
  if (atomic_exchange(&held->state, TAKEN) == RELEASED) titrate_held_free(held);
  return event;
}

uint64_t titrate_held_detach(struct titrate_held* held) {
  if (atomic_exchange(&held->state, GONE) != RELEASED) return 0;
  uint64_t slots = held->event.slots;
  titrate_held_free(held);
  return slots;
}

static void release(struct titrate_event* event) {
  struct titrate_held* held = (struct titrate_held*)(uintptr_t)event->ticket;
  int expected = QUEUED;
  if (atomic_compare_exchange_strong(&held->state, &expected, RELEASING)) {
    held->event = *event;
    ENVOY(http_filter_scheduler_commit)(held->scheduler, 0);
    expected = RELEASING;
    if (atomic_compare_exchange_strong(&held->state, &expected, RELEASED)) return;
  }
  event->dropped = expected == GONE;
  titrate_held_free(held);
}

void titrate_release(struct titrate_event* events, size_t n) {
  for (size_t i = 0; i < n; i++) release(&events[i]);
}
