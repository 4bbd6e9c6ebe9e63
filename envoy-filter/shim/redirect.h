// Internal redirects: one request of a client, two streams of Envoy.
#pragma once

#include "inflight.h"
#include "response.h"

// What a stream that Envoy redirects hands to the next one.
struct titrate_handoff;

// A stream whose request was admitted ends without a response. If Envoy follows a
// redirect, the outcome is kept for the next stream. On its worker, in stream_complete.
void titrate_handoff_put(abi_http_filter envoy, const struct titrate_rules* rules,
                         struct titrate_outcome* o, const struct titrate_inflight* r,
                         uint64_t* slots);
// Removes and returns what was kept for a filter with these rules, or NULL. In the next
// stream's filter_new.
struct titrate_handoff* titrate_handoff_take(const struct titrate_rules* rules);
// Frees what no stream has taken. When all filters of a stream have begun.
void titrate_handoff_clear(void);
// Returns whether the request is the redirected one, to the same tenant and pool. Then it
// was charged already, and goes on with the first stream's outcome and cost.
bool titrate_handoff_apply(abi_http_filter envoy, struct titrate_handoff* h,
                           struct titrate_question* q, struct titrate_outcome* o,
                           struct titrate_inflight* r, uint64_t* slots);
void titrate_handoff_free(struct titrate_handoff* h);
