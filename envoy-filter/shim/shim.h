// What C and Go of this module share. C sees every request and every hook of
// Envoy; Go decides. Go functions are named titrateX, C functions titrate_x.
#pragma once

#include "abi.h"
#include "parse.h"

// --- configuration: built by Go, read by C on every request ---

// Where a value is taken from.
enum titrate_kind {
  TITRATE_HEADER = 0,
  TITRATE_LITERAL = 1,
  TITRATE_ATTRIBUTE = 2, // of Envoy, by its number
  TITRATE_CLUSTER = 3,
  TITRATE_COOKIE = 4,
  TITRATE_QUERY = 5,
  TITRATE_METADATA = 6, // space and text are namespace and key
  TITRATE_FILTER_STATE = 7,
  TITRATE_ADDRESS = 8,
};

struct titrate_source {
  int kind;
  int attribute;
  abi_bytes text, space;
  abi_bytes prefix; // of names of clients (titrate_name_of)
  double number;    // a literal cost
  // Of an address: who says it, and how many of its bits count.
  bool envoys; // as Envoy has determined it, instead of the connection's peer
  int hops;    // > 0: that many entries from the right of X-Forwarded-For
  int v4, v6;
};

// An ordered list; the first source with a value wins. count 0 = not set.
struct titrate_sources {
  size_t count;
  struct titrate_source* list;
};

struct titrate_texts {
  size_t count;
  abi_bytes* list;
};

struct titrate_header_match {
  abi_bytes name, text;
  int how; // enum titrate_how
  bool invert;
};

// All that is set must hold: one of the methods, one of the paths or prefixes,
// each header.
struct titrate_match {
  struct titrate_texts methods, paths, prefixes;
  size_t headers;
  struct titrate_header_match* header;
};

// One of the matches must hold. count 0 = not set.
struct titrate_class {
  size_t count;
  struct titrate_match* list;
};

enum titrate_toggle { TITRATE_UNSET = 0, TITRATE_ON = 1, TITRATE_OFF = 2 };

enum { TITRATE_IDENTITIES = 8, TITRATE_CLASSES = 32 }; // places for names in a process

struct titrate_memory;

// What everybody is told of decisions. 0 is unset: as the filter has it.
enum titrate_body { TITRATE_BODY_AUTO = 1, TITRATE_BODY_JSON, TITRATE_BODY_TEXT, TITRATE_BODY_GRPC };
enum titrate_tell { TITRATE_NEVER = 1, TITRATE_EVENTS, TITRATE_ALWAYS };
enum titrate_log_client { TITRATE_LOG_NONE = 1, TITRATE_LOG_HASH, TITRATE_LOG_NAME };
enum titrate_place { TITRATE_NOWHERE = 1, TITRATE_IN_HEADER, TITRATE_IN_TRAILER, TITRATE_IN_METADATA };

// A header's name; none when it is empty.
struct titrate_name {
  bool set;
  abi_bytes text;
};

struct titrate_manners {
  int mode; // of the engine, plus 1
  uint32_t status;
  int body, rate_limit, log, log_client;
  int mark_upstream; // enum titrate_toggle
  struct titrate_name reason, wait, congestion, peek;
  int cost_from;
  abi_bytes cost_name, cost_space;
};

// One HTTP filter's rules, or an override of them.
struct titrate_rules {
  struct titrate_sources tenant, client, pool, cost;
  struct titrate_sources identities[TITRATE_IDENTITIES]; // by place
  struct titrate_class classes[TITRATE_CLASSES];         // by place
  uint32_t identity_names, class_names;                  // places that it holds
  int enabled;
  struct titrate_memory* memory;
  struct titrate_manners manners;
};

struct titrate_rules* titrate_rules_new(void);
// Zeroed memory that lives as long as the rules.
void* titrate_rules_allocate(struct titrate_rules* rules, size_t size);
void titrate_rules_free(struct titrate_rules* rules);

// What the limits in force ask of requests, a bit for each place.
void titrate_want(uint32_t identities, uint32_t classes);

// --- a decision: filled by C, answered by Go in one call ---

struct titrate_flight; // inflight.h

enum titrate_verdict { TITRATE_ADMIT = 0, TITRATE_WAIT = 1, TITRATE_REJECT = 2 };

struct titrate_question {
  // In: views of Envoy's memory, valid for the call.
  abi_bytes tenant, client, pool;
  double cost;
  bool named;                               // whether the next two are filled in
  abi_bytes identities[TITRATE_IDENTITIES]; // by place
  uint32_t classes;                         // a bit for each place
  uint64_t ticket;                          // titrateEnqueue only
  // Out.
  uint64_t handle; // of a held request
  int verdict;
  int mark;
  struct titrate_flight* flight; // where to count it once it is released, or NULL
  int64_t micros;                // its cost there
  // Out of a rejection, else untouched.
  uint32_t status;
  uint8_t grpc; // grpc-status
  size_t retry_after_length, reason_length, details_length, body_length;
  char retry_after[16]; // whole seconds, decimal
  char reason[24];
  char details[40];
  char body[1024];
  // In: what its filter and route want.
  int mode;        // of the engine
  uint32_t refuse; // with this status
  bool fields;     // RateLimit fields, if it is refused
  bool always;     // and if it is not
  bool hash;       // the client's hash, if it is refused
  // Out.
  uint8_t why; // reason, 0 without one
  bool shadow;
  char pushback[16]; // milliseconds, decimal
  char limit[72];
  char policy[192], rate_limit[192]; // RateLimit-Policy and RateLimit
  size_t pushback_length, limit_length, policy_length, rate_limit_length;
  char hashed[16]; // of a rejection that wants it
  // Where values are written that Envoy has in another form; nobody else's. Last,
  // since it is large and mostly untouched.
  char room[3 + TITRATE_IDENTITIES][TITRATE_LONGEST];
};

// What became of a held request; the ticket is its struct titrate_held.
struct titrate_event {
  uint64_t ticket;
  uint64_t retry_after_ns;
  uint32_t wait_ms;
  uint8_t verdict, reason;
  bool mark, shadow;
};

// Releases a whole tick's requests. From the ticker's thread.
void titrate_release(const struct titrate_event* events, size_t n);

// --- process ---

// How long Envoy's shutdown waits for requests that have waited, ms.
enum { TITRATE_LINGER_MS = 500 };

// Name of the first ABI function that this Envoy lacks, or NULL.
const char* titrate_missing_symbol(void);
// Path of another shared object that carries a Go runtime, or NULL. The result
// is valid until the next call, which must come from the same thread.
const char* titrate_other_go_runtime(void);

// Ends what timer_slack.c began when this object was loaded, on the same thread.
void titrate_slack_back(void);

// Thin calls for Go, which has no function pointers of C.
void titrate_log(int level, const char* text, size_t length);
uint32_t titrate_concurrency(void);
bool titrate_validating(void);
enum titrate_metric { TITRATE_COUNTER = 0, TITRATE_GAUGE = 1, TITRATE_HISTOGRAM = 2 };
bool titrate_define_metric(abi_bootstrap envoy, int kind, abi_bytes name, abi_bytes* labels,
                           size_t n, size_t* id);
void titrate_count(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t delta);
void titrate_set(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t value);
void titrate_observe(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t value,
                     uint64_t times);
