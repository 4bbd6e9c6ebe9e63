// Whose request it is, and what it costs.
#pragma once

#include "shim.h"

// Fills in whose request it is, by the filter's rules and what its route
// overrides. False if the rules say to leave it alone. On the stream's worker.
bool titrate_identify(abi_http_filter envoy, const struct titrate_rules* base,
                      struct titrate_question* q);

// What the route overrides, or NULL. On the stream's worker.
const struct titrate_rules* titrate_override(abi_http_filter envoy);

// One per-route configuration more (1) or less (-1) is alive.
void titrate_overrides(int change);
