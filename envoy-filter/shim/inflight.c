// Requests at the upstream. Each ends in one of three ways:
//
//	completed    the upstream has answered; its residence counts
//	turned away  the upstream was too busy, unreachable or too late: 429, 502, 503 or
//	             504, from the upstream or from Envoy in its place
//	neither      the client went away, or Envoy answered for another reason
//
// The residence ends with the stream, not with the headers, as the count in flight does:
// otherwise a long body would look like a backlog. A retry or a hedge belongs to its
// request. What follows an internal redirect is another request, and the first one ends
// as neither. A response that states the true cost completes with that cost; until then
// the request is in flight with its estimate.
//
// A response that may last as long as its client likes is no work in a queue. So an
// upgrade (WebSocket), a CONNECT, an event stream and gRPC complete with their headers.
// The difference to their true cost is added at their end.

#include "inflight.h"

#include <stdlib.h>
#include <strings.h>
#include <time.h>

enum { LINE = 64 };

struct titrate_flight* titrate_flight_new(void) {
  // In a cache line of their own, since workers write to it all the time.
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

void titrate_inflight_start(struct titrate_inflight* r) {
  if (r->flight == NULL) return;
  r->counted = true;
  r->started = now();
  add(&r->flight->in_flight, r->micros);
}

void titrate_inflight_local_reply(struct titrate_inflight* r, uint32_t status) {
  r->local = true;
  // A 429 of Envoy itself is another limiter's: it says nothing of the upstream.
  r->turned_away = status != 429 && turns_away(status);
}

// Bounds what one request may add to the residence.
#define LONGEST_RESIDENCE 2305843009213693952.0 // 2^61

static void complete(struct titrate_inflight* r) {
  struct titrate_flight* flight = r->flight;
  if (!r->cost_known) r->cost = r->micros;
  double residence = (double)r->cost * (double)(now() - r->started) / 1000;
  r->counted = false;
  r->completed = true;
  add(&flight->in_flight, -r->micros);
  add(&flight->booked, r->micros);
  add(&flight->completed, r->cost);
  add(&flight->residence, (int64_t)(residence < LONGEST_RESIDENCE ? residence : LONGEST_RESIDENCE));
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

// Returns whether a response may last as long as its client likes.
static bool is_stream(abi_http_filter envoy, uint32_t status) {
  if (status == 101) return true;
  abi_bytes type = header(envoy, ABI_RESPONSE_HEADER, "content-type");
  return begins(type, "text/event-stream") || begins(type, "application/grpc") ||
         begins(header(envoy, ABI_REQUEST_HEADER, ":method"), "CONNECT");
}

uint32_t titrate_status(abi_http_filter envoy) {
  abi_bytes value = header(envoy, ABI_RESPONSE_HEADER, ":status");
  uint32_t status = 0;
  for (size_t i = 0; i < value.length && i < 3; i++)
    status = status * 10 + (uint32_t)(value.ptr[i] - '0');
  return status;
}

void titrate_inflight_response(struct titrate_inflight* r, abi_http_filter envoy) {
  if (!r->counted || r->local) return;
  r->answered = true;
  uint32_t status = titrate_status(envoy);
  r->turned_away = turns_away(status);
  if (status < 300 && is_stream(envoy, status)) complete(r);
}

void titrate_inflight_set_cost(struct titrate_inflight* r, int64_t micros) {
  if (r->completed) add(&r->flight->completed, micros - r->cost);
  r->cost_known = true;
  r->cost = micros;
}

void titrate_inflight_end(struct titrate_inflight* r) {
  if (!r->counted) return;
  if (r->answered && !r->turned_away) {
    complete(r);
    return;
  }
  r->counted = false;
  add(&r->flight->in_flight, -r->micros);
  if (r->turned_away) add(&r->flight->turned, r->micros);
}
