// A decision: C asks a question, Go writes the answer, both into memory of C.
#pragma once

#include "rules.h"

// What C has read of a request, and what its operator wants of the answer. Texts are
// views of Envoy's memory or of the scratch, valid for the call. Go only reads it.
struct titrate_question {
  abi_bytes tenant, client, pool;
  double cost;
  bool named;                               // whether the next two are filled in
  abi_bytes identities[TITRATE_IDENTITIES]; // by slot
  uint32_t classes;                         // a bit for each slot
  int mode;                                 // of the engine
  uint32_t status;                          // of a refusal
  bool fields;                              // RateLimit fields, if it is refused
  bool always;                              // and if it is not
  bool hash;                                // the client's hash, if it is refused
  abi_http_filter envoy;                    // whose stream it is
  abi_bytes request;                        // x-request-id; see titrate_read_request_id
};

// Fills in the ID that Envoy gave the request, "" if it has none. For what is not simply
// admitted: plain requests do not pay for it.
void titrate_read_request_id(struct titrate_question* q);

// Memory of C for values that Envoy has in another form: decoded, joined, written. One
// room for each of tenant, client and pool, then for each identity.
struct titrate_scratch {
  char room[3 + TITRATE_IDENTITIES][TITRATE_LONGEST];
};

enum titrate_verdict { TITRATE_ADMIT = 0, TITRATE_WAIT = 1, TITRATE_REJECT = 2 };

struct titrate_flight; // inflight.h

enum { TITRATE_FIELD_SIZE = 192 }; // of a RateLimit field, bytes

// What Go has decided. It need not be initialized.
struct titrate_answer {
  // Always written.
  int verdict;
  uint8_t reason; // 0: none
  bool mark, shadow;
  struct titrate_flight* flight; // where the request counts once it is released, or NULL
  int64_t micros;                // its cost there; if flight is set
  size_t limit_length, policy_length, rate_limit_length;
  // Written if there is a reason.
  size_t reason_length;
  // Written for a refusal; the body for a peek, too.
  uint32_t status;
  uint8_t grpc; // grpc-status
  size_t summary_length, details_length, retry_after_length, pushback_length, body_length;
  // The texts are last: most requests have none.
  char limit[72];
  char policy[TITRATE_FIELD_SIZE];     // RateLimit-Policy
  char rate_limit[TITRATE_FIELD_SIZE]; // RateLimit
  char summary[16];                    // in a few words
  char reason_name[24];
  char details[40];                    // of the response code
  char retry_after[16];                // whole seconds, decimal
  char pushback[16];                   // milliseconds, decimal
  char hash[16];                       // of the client, if it was asked for
  char body[1280];                     // JSON
};

// The answer to a request of which nothing more is to be said.
#define TITRATE_PLAIN_ADMISSION ((struct titrate_answer){.verdict = TITRATE_ADMIT})

// What became of a held request; the ticket is its struct titrate_held.
struct titrate_event {
  uint64_t ticket;
  uint64_t retry_after_ns;
  uint32_t wait_ms;
  uint8_t verdict, reason;
  bool mark, shadow;
  size_t held_by_length;
  char held_by[72]; // the limit that it waited for, or "tenant-share"
};
