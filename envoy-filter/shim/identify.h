// Reads from Envoy whose request it is, and what it costs.
#pragma once

#include "decision.h"

// Fills in tenant, client, pool, cost, identities and classes by the rules. Returns false
// if the rules say that the request is not to be limited. On the stream's worker.
bool titrate_identify(abi_http_filter envoy, const struct titrate_layers* layers,
                      struct titrate_question* q, struct titrate_scratch* scratch);

// Sets the cost to that of the first source that has one, or to 1. Returns whether one has.
bool titrate_cost_of(abi_http_filter envoy, const struct titrate_sources* sources, double* cost);
