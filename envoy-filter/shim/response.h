// What a stream keeps of its decision until the response: what is added to the response,
// and what was charged, until the response states the true cost.
#pragma once

#include "decision.h"

// What became of a request. Zero: nothing is to be done. Its worker's thread only.
struct titrate_outcome {
  struct titrate_layers layers;
  struct titrate_charge* charge; // of a cost that the response says (cost.h)
  struct titrate_fields* fields; // RateLimit fields of an admitted response
  uint32_t wait_ms;
  bool waited, marked;
  bool cost_known; // the response has the true cost of the pool's kind,
  int64_t micros;  // in millionths of a unit
};

// Fills in what the decision must know of the stream and of the operator's options.
void titrate_set_options(abi_http_filter envoy, const struct titrate_layers* layers,
                         struct titrate_question* q);

// The request goes on to the upstream: keeps what its response will need, and marks it.
void titrate_record_admission(abi_http_filter envoy, struct titrate_outcome* o,
                              struct titrate_question* q, struct titrate_answer* a);

// In the hook of response headers: adds what the answer has.
void titrate_on_response_headers(abi_http_filter envoy, struct titrate_outcome* o);

// Frees what the outcome has. It may be called again.
void titrate_outcome_free(struct titrate_outcome* o);
