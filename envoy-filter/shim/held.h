// A held request: one stream that waits in the engine's queue, shared between
// the stream's worker and the ticker.
#pragma once

#include "shim.h"

// A new hold of the stream, with a scheduler that can wake it. On its worker.
struct titrate_held* titrate_held_new(abi_http_filter envoy);

// Drops a hold that the engine never took. On its worker.
void titrate_held_drop(struct titrate_held* held);

// The worker lets go of a hold whose event may be on its way: whoever is last,
// worker or ticker, frees it.
void titrate_held_leave(struct titrate_held* held);

// The event that woke the stream. In on_scheduled only.
const struct titrate_event* titrate_held_event(const struct titrate_held* held);
