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

#include "flight.h"

#include <stdlib.h>
#include <string.h>
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

void titrate_answered(struct titrate_trip* trip, abi_http_filter envoy) {
  if (!trip->aloft || trip->local) return;
  abi_bytes name = {":status", 7}, value;
  trip->answered = true;
  if (!ENVOY(http_get_header)(envoy, ABI_RESPONSE_HEADER, name, &value, 0, NULL)) return;
  uint32_t status = 0;
  for (size_t i = 0; i < value.length && i < 3; i++)
    status = status * 10 + (uint32_t)(value.ptr[i] - '0');
  trip->turned = turns_away(status);
}

// What one request may add to the residence.
#define LONGEST_STAY 2305843009213693952.0 // 2^61

void titrate_weigh(struct titrate_trip* trip, int64_t micros) {
  trip->weighed = true;
  trip->settled = micros;
}

void titrate_arrive(struct titrate_trip* trip) {
  struct titrate_flight* flight = trip->flight;
  if (!trip->aloft) return;
  trip->aloft = false;
  add(&flight->in_flight, -trip->micros);
  if (trip->turned) {
    add(&flight->turned, trip->micros);
  } else if (trip->answered) {
    int64_t micros = trip->weighed ? trip->settled : trip->micros;
    double stay = (double)micros * (double)(now() - trip->departed) / 1000;
    add(&flight->booked, trip->micros);
    add(&flight->completed, micros);
    add(&flight->residence, (int64_t)(stay < LONGEST_STAY ? stay : LONGEST_STAY));
  }
}
