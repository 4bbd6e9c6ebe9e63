// Responses that Titrate sends itself: refusals, and answers to peeks.
#pragma once

#include "response.h"

// Answers a request that was refused.
void titrate_send_refusal(abi_http_filter envoy, const struct titrate_outcome* o,
                          const struct titrate_question* q, const struct titrate_answer* a);

// Answers a peek: a request that only asks what is left. Returns false for all others.
bool titrate_handle_peek(abi_http_filter envoy, const struct titrate_layers* layers,
                         struct titrate_question* q, struct titrate_answer* a);
