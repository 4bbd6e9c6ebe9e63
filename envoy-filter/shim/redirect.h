// Internal redirects: one request of a client, two streams of Envoy.
#pragma once

#include "answer.h"
#include "inflight.h"

// What a redirected stream leaves to the one that follows it.
struct titrate_legacy;

// A stream that was admitted ends without an answer. If that is because Envoy
// follows a redirect, what it has still to tell is left to its successor. On its
// worker, in stream_complete.
void titrate_bequeath(abi_http_filter envoy, const struct titrate_rules* rules,
                      struct titrate_tale* tale, const struct titrate_trip* trip);
// What was left for a stream that begins by a filter of these rules, or NULL. In its
// filter_new.
struct titrate_legacy* titrate_inherit(const struct titrate_rules* rules);
// Frees what was left and not taken. Once all filters of a stream have begun.
void titrate_disinherit(void);
// Whether the request is the redirected one, to the same tenant and pool: it was
// charged already, and tale and trip go on where the first stream left them.
bool titrate_follows(abi_http_filter envoy, struct titrate_legacy* legacy,
                     struct titrate_question* q, struct titrate_tale* tale,
                     struct titrate_trip* trip);
void titrate_legacy_free(struct titrate_legacy* legacy);
