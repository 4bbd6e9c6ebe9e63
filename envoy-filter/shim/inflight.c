// Trips of requests to the upstream and back. A stream ends in one of three ways:
//
//	landed   the upstream has answered: completed, with its stay
//	turned   too busy, unreachable or too late: 429, 502, 503, 504, from the
//	         upstream or from Envoy in its place
//	left     anything else: the client went away, or Envoy answered by itself
//
// The stay ends with the stream, not with the headers, as what is in flight does:
// else a long body would look like a backlog. A retry or a hedge is part of its
// request's stay; what follows an internal redirect is another trip, and the first
// one has left. Where the answer tells the true cost, it lands with that; until then
// it is in flight by its estimate.
//
// An answer that may last as long as its client likes is no work that waits: an
// upgrade (WebSocket), a CONNECT, an event stream and gRPC land with their headers.
// What they turn out to cost at their end is added then.

#include "inflight.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { LINE = 64 };

struct titrate_flight* titrate_flight_new(void) {
  // A cache line of its own: workers add to neighbours all the time.
  struct titrate_flight* flight = aligned_alloc(LINE, LINE);
  if (flight == NULL) abort(); // out of memory
  memset(flight, 0, LINE);
  return flight;
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void add(int64_t* to, int64_t delta) { __atomic_fetch_add(to, delta, __ATOMIC_RELAXED); }

static bool turns_away(uint32_t status) {
  return status == 429 || (status >= 502 && status <= 504);
}

void titrate_book(struct titrate_trip* trip, const struct titrate_question* q) {
  trip->flight = q->flight;
  trip->micros = q->micros;
}

void titrate_depart(struct titrate_trip* trip) {
  if (trip->flight == NULL) return;
  trip->aloft = true;
  trip->departed = now();
  add(&trip->flight->in_flight, trip->micros);
}

void titrate_answered_locally(struct titrate_trip* trip, uint32_t status) {
  trip->local = true;
  // A 429 of Envoy's own is another limiter's: it says nothing of the upstream.
  trip->turned = status != 429 && turns_away(status);
}

// What one request may add to the residence.
#define LONGEST_STAY 2305843009213693952.0 // 2^61

static void land(struct titrate_trip* trip) {
  struct titrate_flight* flight = trip->flight;
  if (!trip->weighed) trip->settled = trip->micros;
  double stay = (double)trip->settled * (double)(now() - trip->departed) / 1000;
  trip->aloft = false;
  trip->landed = true;
  add(&flight->in_flight, -trip->micros);
  add(&flight->booked, trip->micros);
  add(&flight->completed, trip->settled);
  add(&flight->residence, (int64_t)(stay < LONGEST_STAY ? stay : LONGEST_STAY));
}

static abi_bytes header(abi_http_filter envoy, enum abi_header_type of, const char* key) {
  abi_bytes name = {(char*)key, strlen(key)}, value = {NULL, 0};
  if (!ENVOY(http_get_header)(envoy, of, name, &value, 0, NULL)) value.length = 0;
  return value;
}

static bool begins(abi_bytes value, const char* with) {
  size_t n = strlen(with);
  return value.length >= n && strncasecmp(value.ptr, with, n) == 0;
}

// Answers that last as long as their clients like.
static bool streams(abi_http_filter envoy, uint32_t status) {
  if (status == 101) return true;
  abi_bytes type = header(envoy, ABI_RESPONSE_HEADER, "content-type");
  return begins(type, "text/event-stream") || begins(type, "application/grpc") ||
         begins(header(envoy, ABI_REQUEST_HEADER, ":method"), "CONNECT");
}

void titrate_answered(struct titrate_trip* trip, abi_http_filter envoy) {
  if (!trip->aloft || trip->local) return;
  abi_bytes value = header(envoy, ABI_RESPONSE_HEADER, ":status");
  trip->answered = true;
  uint32_t status = 0;
  for (size_t i = 0; i < value.length && i < 3; i++)
    status = status * 10 + (uint32_t)(value.ptr[i] - '0');
  trip->turned = turns_away(status);
  if (status < 300 && streams(envoy, status)) land(trip);
}

void titrate_weigh(struct titrate_trip* trip, int64_t micros) {
  if (trip->landed) add(&trip->flight->completed, micros - trip->settled);
  trip->weighed = true;
  trip->settled = micros;
}

void titrate_arrive(struct titrate_trip* trip) {
  if (!trip->aloft) return;
  if (trip->answered && !trip->turned) {
    land(trip);
    return;
  }
  trip->aloft = false;
  add(&trip->flight->in_flight, -trip->micros);
  if (trip->turned) add(&trip->flight->turned, trip->micros);
}
