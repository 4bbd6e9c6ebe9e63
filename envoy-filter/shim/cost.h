// The costs of a request, as it says them itself and as its response does. A cost that only the response says is
// estimated first. The charge of such a request is kept until its stream ends.
#pragma once

#include "decision.h"

struct titrate_outcome; // response.h

// Fills in the costs with names, and which costs the response will say. given: the request itself
// says its plain cost. Costs that it does not say Go estimates (titrateDecide).
void titrate_price(abi_http_filter envoy, const struct titrate_layers* layers, bool given,
                   struct titrate_question* q);

// Keeps what was charged; NULL if the response says no cost, or there is no memory: then the
// estimates stand.
struct titrate_charge* titrate_charge_new(const struct titrate_question* q);

// The charge outlives its stream, which holds the route and so its rules. It holds them itself from now on.
void titrate_charge_hold(struct titrate_charge* charge);

// Gives a request that is read again the costs that were charged.
void titrate_charge_restore(const struct titrate_charge* charge, struct titrate_question* q);

// The request goes on to the upstream. A redirected one has begun before.
void titrate_charge_start(struct titrate_charge* charge);

// In the hooks of the response and of the stream's end. Each looks for the costs that the rules
// expect there, and corrects the charge by the costs that it finds. Without a charge they do nothing.
// An answer that Envoy makes itself is read like another. end: nothing of the response follows.
void titrate_settle_headers(abi_http_filter envoy, struct titrate_outcome* o, bool end);
void titrate_settle_body(abi_http_filter envoy, struct titrate_outcome* o, bool end);
void titrate_settle_trailers(abi_http_filter envoy, struct titrate_outcome* o);
void titrate_settle_end(abi_http_filter envoy, struct titrate_outcome* o);

// The request was not admitted, or is over.
void titrate_charge_free(struct titrate_outcome* o);
