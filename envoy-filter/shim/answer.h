// What clients, the upstream and access logs are told of a decision, and what a
// response tells of its cost.
#pragma once

#include "shim.h"

// A stream's manners: what its route overrides, and what its filter says. Both
// are the filter's where nothing is overridden.
struct titrate_manner {
  const struct titrate_manners *over, *base;
};

// What a stream has still to be told or to tell. Zero: nothing. Its worker's
// thread only.
struct titrate_tale {
  struct titrate_manner manner;
  struct titrate_account* account; // its estimate, until the true cost is known
  struct titrate_fields* fields;   // RateLimit fields of an admitted response
  uint32_t wait_ms;
  bool waited, marked;
  bool settled;   // the true cost is known,
  int64_t micros; // in millionths of a unit
};

// What the operator wants for this stream. Before anything else here.
void titrate_manner_of(abi_http_filter envoy, const struct titrate_rules* base,
                       struct titrate_manner* manner);
// What of that the decision itself must know.
void titrate_ask(const struct titrate_manner* manner, struct titrate_question* q);

// Answers directly if the request only asks what is left. True: it does.
bool titrate_peeked(abi_http_filter envoy, const struct titrate_manner* manner,
                    struct titrate_question* q);
// Answers a request that was refused.
void titrate_refuse(abi_http_filter envoy, struct titrate_tale* tale, struct titrate_question* q);
// Whether a request that waited and is admitted has more to tell than its event
// says: then identify it again and call titrate_admitted.
bool titrate_has_more(const struct titrate_tale* tale);
// The request goes on to the upstream.
void titrate_admitted(abi_http_filter envoy, struct titrate_tale* tale, struct titrate_question* q);

// Response headers, then trailers, then the end of the stream: each looks for the
// cost where it may be. The first that finds it settles it.
void titrate_tell(abi_http_filter envoy, struct titrate_tale* tale);
void titrate_tell_trailers(abi_http_filter envoy, struct titrate_tale* tale);
void titrate_tell_end(abi_http_filter envoy, struct titrate_tale* tale);
// Frees what is left; more than once is once.
void titrate_tale_end(struct titrate_tale* tale);
