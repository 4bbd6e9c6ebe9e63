// What of a flow is at the upstream, of pools whose capacity is found from it.
// The block is the engine's limiter.Flight in C's memory: Go makes one for each
// flow that is in use, a decision returns its address, and the rest happens here, so that no
// answer crosses into Go. A request to any other pool has no block and costs one
// comparison.
#pragma once

#include "shim.h"

// Millionths of a cost unit; residence in millionths · microseconds.
struct titrate_flight {
  int64_t in_flight, completed, residence, turned, booked;
};

// A zeroed block that is never freed: the engine uses it again for another flow.
struct titrate_flight* titrate_flight_new(void);

// One request between its release and its end. Zero: not counted. Its worker's
// thread only.
struct titrate_trip {
  struct titrate_flight* flight; // NULL: not counted
  int64_t micros;                // what it costs
  uint64_t departed;             // monotonic nanoseconds
  int64_t settled;               // what it has cost in truth, if it is weighed
  bool aloft, landed, local, answered, turned, weighed;
};

// The decision on the request says where to count it; flight may be NULL.
void titrate_book(struct titrate_trip* trip, const struct titrate_question* q);
// The request is released.
void titrate_depart(struct titrate_trip* trip);
// Envoy itself answers, with what may be the upstream's fault.
void titrate_answered_locally(struct titrate_trip* trip, uint32_t status);
// The answer's headers have come.
void titrate_answered(struct titrate_trip* trip, abi_http_filter envoy);
// The answer has told the true cost: what it lands with, also if it has landed.
void titrate_weigh(struct titrate_trip* trip, int64_t micros);
// The stream has ended. More than once is once.
void titrate_arrive(struct titrate_trip* trip);
