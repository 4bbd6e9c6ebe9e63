// The rules of an HTTP filter or of a route: where tenant, client, pool and cost of a
// request come from, and what its operator wants of answers. Go builds them from the
// settings; C reads them on every request.
#pragma once

#include "abi.h"
#include "parse.h"
#include "siphash.h"
#include "usage.h"

// Where a value is taken from. 0 is none.
enum titrate_kind {
  TITRATE_HEADER = 1,
  TITRATE_LITERAL,
  TITRATE_ATTRIBUTE, // of Envoy, by its number
  TITRATE_CLUSTER,
  TITRATE_COOKIE,
  TITRATE_QUERY,
  TITRATE_METADATA, // space and text are namespace and key
  TITRATE_FILTER_STATE,
  TITRATE_ADDRESS,
};

struct titrate_source {
  int kind;
  int attribute;
  abi_bytes text, space;
  abi_bytes prefix; // of names of clients (titrate_name_of)
  double number;    // a literal cost
  // Of an address.
  bool envoys; // as Envoy has determined it, instead of the connection's peer
  int hops;    // > 0: that many entries from the right of X-Forwarded-For
  int v4, v6;  // how many of its bits count
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

enum { TITRATE_IDENTITIES = 8, TITRATE_CLASSES = 32, TITRATE_COSTS = 8 }; // slots of a process

// The choices of titrate_answer_options; 0 is unset.
enum titrate_body { TITRATE_BODY_AUTO = 1, TITRATE_BODY_JSON, TITRATE_BODY_TEXT, TITRATE_BODY_GRPC, TITRATE_BODY_NONE };
enum titrate_when { TITRATE_NEVER = 1, TITRATE_EVENTS, TITRATE_ALWAYS };
enum titrate_log_to { TITRATE_LOG_METADATA = 1, TITRATE_LOG_STATE };
enum titrate_log_client { TITRATE_LOG_NONE = 1, TITRATE_LOG_HASH, TITRATE_LOG_NAME };
enum titrate_cost_source {
  TITRATE_COST_NOWHERE = 1, TITRATE_COST_HEADER, TITRATE_COST_TRAILER, TITRATE_COST_METADATA,
  TITRATE_COST_DURATION,
  TITRATE_COST_USAGE, TITRATE_COST_KILOBYTES };

// A header's name; none when it is empty.
struct titrate_name {
  bool set;
  abi_bytes text;
};

// Where a response has the true cost, and how a cost is estimated that the request does not say.
struct titrate_response_cost {
  int from; // enum titrate_cost_source; 0: unset
  int usage; // enum titrate_usage
  abi_bytes name, space;
  double first, least, most; // the estimate before any is learned, and its bounds
  int percentile;            // of recent costs; 0: their mean
};

// A cost with a name.
struct titrate_named_cost {
  int slot;
  struct titrate_sources request;
  struct titrate_response_cost response;
};

// The costs with names of a filter, or of a route that replaces them all.
struct titrate_named_costs {
  bool set;
  size_t count;
  struct titrate_named_cost* list;
};

// What clients, upstreams and access logs get of decisions.
struct titrate_answer_options {
  int mode; // of the engine, plus 1
  uint32_t status;
  int body, rate_limit, log, log_to, log_client;
  struct titrate_key log_key; // of hashes of clients; SHA-256 without
  int mark_upstream, rate_limit_policy; // enum titrate_toggle
  struct titrate_name reason, request_id, limited, wait, congestion, peek;
  struct titrate_response_cost cost;
};

struct titrate_memory;

// One HTTP filter's rules, or a route's override.
struct titrate_rules {
  struct titrate_sources tenant, client, pool, cost;
  struct titrate_sources identities[TITRATE_IDENTITIES]; // by slot
  struct titrate_class classes[TITRATE_CLASSES];         // by slot
  struct titrate_named_costs costs;
  struct titrate_usage_format usage;                     // of answers of language models; count 0: not set
  uint32_t identity_slots, class_slots, cost_slots;      // that it has acquired, as bits
  int enabled;                                           // enum titrate_toggle
  bool priced;                                           // costs have names, or responses say them
  struct titrate_memory* memory;
  struct titrate_answer_options answers;
  uint32_t held; // by configurations of Envoy, and by charges that outlive them
};

struct titrate_rules* titrate_rules_new(void);
// Zeroed memory that lives as long as the rules.
void* titrate_rules_allocate(struct titrate_rules* rules, size_t size);
// Rules begin held once, by their configuration. The last release frees them. On any thread.
void titrate_rules_hold(const struct titrate_rules* rules);
void titrate_rules_release(const struct titrate_rules* rules);

// The rules of a request: those of its route, where they say something, before those of
// the filter. Both are the filter's where the route overrides nothing.
struct titrate_layers {
  const struct titrate_rules *route, *filter;
};

// Finds the rules of a request. On its worker.
struct titrate_layers titrate_layers_of(abi_http_filter envoy, const struct titrate_rules* filter);

// An answer option, the key or the name of a header among them.
#define TITRATE_OPTION(layers, field)                                                              \
  ((layers)->route->answers.field != 0 ? (layers)->route->answers.field                            \
                                       : (layers)->filter->answers.field)
#define TITRATE_OPTION_KEY(layers)                                                                 \
  ((layers)->route->answers.log_key.set ? &(layers)->route->answers.log_key                        \
                                        : &(layers)->filter->answers.log_key)
#define TITRATE_OPTION_NAME(layers, field)                                                         \
  ((layers)->route->answers.field.set ? (layers)->route->answers.field.text                        \
                                      : (layers)->filter->answers.field.text)

// One per-route configuration more (1) or less (-1) is alive.
void titrate_count_overrides(int change);

// What the limits in force need of requests, a bit for each slot.
void titrate_want(uint32_t identities, uint32_t classes);
