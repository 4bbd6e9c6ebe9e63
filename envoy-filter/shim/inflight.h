// Counts what is at the upstream, for flows to pools whose capacity is adaptive. The
// counters are the engine's limiter.Flight in C's memory: Go makes one for each flow in
// use, and a decision returns its address. C counts, so that no response crosses into Go.
// A request to another pool has no counters and costs one comparison.
#pragma once

#include "decision.h"

// Millionths of a cost unit; residence in millionths · microseconds.
struct titrate_flight {
  int64_t in_flight, completed, residence, turned, booked;
};

// Makes zeroed counters. They are never freed: the engine uses them again for other flows.
struct titrate_flight* titrate_flight_new(void);

// One request between its release and the end of its stream. Zero: not counted. Its
// worker's thread only.
struct titrate_inflight {
  struct titrate_flight* flight; // NULL: not counted
  int64_t micros;                // its estimated cost
  uint64_t started;              // monotonic nanoseconds
  int64_t cost;                  // the true cost, once it is known or the request has ended
  bool counted;                  // it is in in_flight
  bool completed;                // it is in completed
  bool local;                    // Envoy has answered, not the upstream
  bool answered;                 // response headers have come
  bool turned_away;              // by an upstream that is too busy, or by its absence
  bool cost_known;               // the response has the true cost
};

// The status of the response whose headers have come.
uint32_t titrate_status(abi_http_filter envoy);

// The request is released.
void titrate_inflight_start(struct titrate_inflight* r);
// Envoy itself answers; that may be the upstream's fault.
void titrate_inflight_local_reply(struct titrate_inflight* r, uint32_t status);
// The response's headers have come.
void titrate_inflight_response(struct titrate_inflight* r, abi_http_filter envoy);
// The response has stated the true cost; the request may have completed before.
void titrate_inflight_set_cost(struct titrate_inflight* r, int64_t micros);
// The stream has ended. It may be called again.
void titrate_inflight_end(struct titrate_inflight* r);
