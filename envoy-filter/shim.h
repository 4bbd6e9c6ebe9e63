// What C and Go of this module share. C sees every request and every hook of
// Envoy; Go decides. Go functions are named titrateX, C functions titrate_x.
#pragma once

#include "abi.h"

// --- configuration: built by Go, read by C on every request ---

enum titrate_kind { TITRATE_HEADER = 0, TITRATE_LITERAL = 1, TITRATE_ROUTE = 2 };

struct titrate_source {
  int kind;
  abi_bytes text;
  double number;
};

// An ordered list; the first source with a value wins. count 0 = not set.
struct titrate_sources {
  size_t count;
  struct titrate_source* list;
};

enum titrate_toggle { TITRATE_UNSET = 0, TITRATE_ON = 1, TITRATE_OFF = 2 };

// One HTTP filter's rules, or an override of them.
struct titrate_rules {
  struct titrate_sources tenant, client, pool, cost;
  int enabled;
};

struct titrate_rules* titrate_rules_new(void);
void titrate_rules_free(struct titrate_rules* rules);
void titrate_sources_add(struct titrate_sources* sources, int kind, const char* text,
                         size_t length, double number);

// --- a decision: filled by C, answered by Go in one call ---

struct titrate_flight; // flight.h

enum titrate_verdict { TITRATE_ADMIT = 0, TITRATE_WAIT = 1, TITRATE_REJECT = 2 };

struct titrate_question {
  // In: views of Envoy's memory, valid for the call.
  abi_bytes tenant, client, pool;
  double cost;
  uint64_t ticket; // titrateEnqueue only
  // Out.
  uint64_t handle; // of a held request
  int verdict;
  int mark;
  struct titrate_flight* flight; // where to count it once it is released, or NULL
  int64_t micros;                // its cost there
  // Out of a rejection, else untouched.
  uint32_t status;
  size_t retry_after_length, reason_length, details_length, body_length;
  char retry_after[16]; // whole seconds, decimal
  char reason[24];
  char details[40];
  char body[1024];
};

// What became of a held request; the ticket is its struct titrate_held.
struct titrate_event {
  uint64_t ticket;
  uint64_t retry_after_ns;
  uint32_t wait_ms;
  uint8_t verdict, mark, reason;
};

// Releases a whole tick's requests. From the ticker's thread.
void titrate_release(const struct titrate_event* events, size_t n);

// --- process ---

// Name of the first ABI function that this Envoy lacks, or NULL.
const char* titrate_missing_symbol(void);
// Path of another shared object that carries a Go runtime, or NULL. The result
// is valid until the next call, which must come from the same thread.
const char* titrate_other_go_runtime(void);

// Thin calls for Go, which has no function pointers of C.
void titrate_log(int level, const char* text, size_t length);
uint32_t titrate_concurrency(void);
bool titrate_validating(void);
bool titrate_define_metric(abi_bootstrap envoy, bool gauge, abi_bytes name, abi_bytes* labels,
                           size_t n, size_t* id);
void titrate_count(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t delta);
void titrate_set(abi_bootstrap envoy, size_t id, uint64_t value);
