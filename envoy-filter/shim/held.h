// A held request: one stream that waits in the engine's queue. The stream's worker and
// the ticker share it.
#pragma once

#include "decision.h"

// Makes a held request of a stream, with a scheduler that can wake it. On its worker.
struct titrate_held* titrate_held_new(abi_http_filter envoy);

// Frees a held request of which the ticker knows nothing. On its worker.
void titrate_held_free(struct titrate_held* held);

// Returns the event that woke the stream, whose slots are the stream's now. In on_scheduled only; the
// held request is not used any more.
struct titrate_event titrate_held_take(struct titrate_held* held);

// The stream ends, but the ticker may be about to release the held request. The later of the two frees
// it. Returns the slots of the event if the ticker has posted it: it has not reached the stream, and the
// worker frees them.
uint64_t titrate_held_detach(struct titrate_held* held);

// Releases the requests of one tick, and notes which events no stream will see. On the ticker's thread.
void titrate_release(struct titrate_event* events, size_t n);
