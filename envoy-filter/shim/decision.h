// A decision: C asks a question, Go writes the answer, both into memory of C.
#pragma once

#include "headers.h"
#include "rules.h"

enum { TITRATE_NAMED_PRICES = 4, TITRATE_PRICES = 1 + TITRATE_NAMED_PRICES };

// A cost that the response says.
struct titrate_price {
  const struct titrate_response_cost* response;
  int slot;   // of its name; −1: the plain cost
  bool learn; // the request does not say it: it is estimated, and the estimate learns from it
};

// What C has read of a request, and what its operator wants of the answer. Texts are
// views of Envoy's memory or of the scratch, valid for the call. Go only reads it.
struct titrate_question {
  // The engine's request: Go reads these fields where they are (constants.go).
  abi_bytes tenant, client, pool;
  double cost;
  const abi_bytes* identities; // by slot; NULL: no limit needs identities or classes
  const double* costs;         // with names, by slot; 0: it has none. NULL: no costs have names
  uint32_t classes;            // a bit for each slot
  uint8_t mode;                // of the engine
  // The rest.
  abi_bytes identity[TITRATE_IDENTITIES]; // what identities points to
  uint32_t status;                        // of a refusal
  bool json;                                // whether a refusal may need the JSON body
  bool fields;                              // RateLimit fields, if it is refused
  bool always;                              // and if it is not
  bool policy;                              // RateLimit-Policy among them
  bool hash;                                // the client's SHA-256, if it is refused
  abi_http_filter envoy;                    // whose stream it is
  const struct titrate_headers* headers;    // those of the request
  abi_bytes request;                        // x-request-id; Go reads it where it is needed
  double named[TITRATE_COSTS];              // what costs points to
  uint32_t prices;                          // how many
  struct titrate_price price[TITRATE_PRICES];
  // Set if there are prices.
  const struct titrate_rules* rules;         // of the route: what prices and usage point into, or its filter's
  abi_bytes route;                           // its name, if an estimate depends on it
  const struct titrate_usage_format* usage;  // of the response; NULL: none is set
};

// Asks Envoy for the request's ID, "" if it has none.
void titrate_read_request_id(struct titrate_question* q);

// Memory of C for the request's header lines, and for values that Envoy has in another form:
// decoded, joined, written. One room for each of tenant, client and pool, then for each identity.
struct titrate_scratch {
  struct titrate_headers headers;
  char room[3 + TITRATE_IDENTITIES][TITRATE_LONGEST];
};

enum titrate_verdict { TITRATE_ADMIT = 0, TITRATE_WAIT = 1, TITRATE_REJECT = 2 };

struct titrate_flight; // inflight.h

enum { TITRATE_FIELD_SIZE = 192 }; // of a RateLimit field, bytes

// What Go has decided.
struct titrate_answer {
  // Always written.
  int verdict;
  uint8_t reason; // 0: none
  bool mark, shadow;
  // Where the request counts once it is released, or NULL. C sets it to NULL before Go writes it
  // (titrate_answer_begin).
  struct titrate_flight* flight;
  int64_t micros;                // its cost there; if flight is set
  uint64_t slots;                // of concurrency limits, to be freed at the end of the stream; 0: none
  size_t limit_length, policy_length, rate_limit_length;
  // Written if there is a reason.
  size_t reason_length;
  // Written for a refusal; the body for a peek, too.
  uint32_t status;
  uint8_t grpc; // grpc-status
  int32_t pushback; // grpc-retry-pushback-ms; 0: none
  size_t summary_length, details_length, retry_after_length, body_length;
  // The texts are last: most requests have none.
  char limit[72];
  char policy[TITRATE_FIELD_SIZE];     // RateLimit-Policy
  char rate_limit[TITRATE_FIELD_SIZE]; // RateLimit
  char summary[16];                    // in a few words
  char reason_name[24];
  char details[40];                    // of the response code
  char retry_after[16];                // whole seconds, decimal
  char hash[16];                       // of the client, if it was asked for
  char body[1280];                     // JSON
};

// Go's collector reads what was in a pointer before a pointer is written there; it must not be what
// the stack had.
static inline void titrate_answer_begin(struct titrate_answer* a) { a->flight = NULL; }

// The answer to a request of which nothing more is to be said.
#define TITRATE_PLAIN_ADMISSION ((struct titrate_answer){.verdict = TITRATE_ADMIT})

// What became of a held request; the ticket is its struct titrate_held.
struct titrate_event {
  uint64_t ticket;
  uint64_t retry_after_ns;
  uint32_t wait_ms;
  uint8_t verdict, reason;
  bool mark, shadow;
  bool dropped;   // written by titrate_release: no stream will see the event
  uint64_t slots; // as in struct titrate_answer
  size_t held_by_length;
  char held_by[72]; // the limit that it waited for, or "tenant-share"
};
