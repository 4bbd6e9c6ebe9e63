// The HTTP filter's hooks. One crossing into Go per request on the admit path;
// hooks that Titrate has no use for end here.

#include <stdlib.h>

#include "_cgo_export.h"
#include "flight.h"
#include "held.h"
#include "identify.h"

// What the filter knows of one stream. Its worker's thread only.
struct stream {
  const struct titrate_rules* rules;
  struct titrate_held* held; // while it waits
  uint64_t handle;           // of held, for the cancel
  uint32_t wait_ms;
  bool waited, marked;
  struct titrate_trip trip; // to the upstream, of an adaptive pool
};

#define LITERAL(text) ((abi_bytes){text, sizeof(text) - 1})

// --- what becomes of it ---

static int reject(abi_http_filter envoy, struct titrate_question* q) {
  abi_header headers[] = {
      {"content-type", 12, "application/json", 16},
      {"x-titrate-reason", 16, q->reason, q->reason_length},
      {"retry-after", 11, q->retry_after, q->retry_after_length},
  };
  ENVOY(http_send_response)(envoy, q->status, headers, sizeof headers / sizeof *headers,
                            (abi_bytes){q->body, q->body_length},
                            (abi_bytes){q->details, q->details_length});
  return ABI_HEADERS_STOP;
}

// Puts the request into the queue; the engine may have changed its mind.
static void hold(abi_http_filter envoy, struct stream* s, struct titrate_question* q) {
  struct titrate_held* held = titrate_held_new(envoy);
  q->ticket = (uint64_t)(uintptr_t)held;
  titrateEnqueue(q);
  if (q->verdict == TITRATE_WAIT) {
    s->held = held;
    s->handle = q->handle;
  } else if (held != NULL) {
    titrate_held_drop(held);
  }
}

int envoy_dynamic_module_on_http_filter_request_headers(abi_http_filter envoy, const void* stream,
                                                        bool end) {
  (void)end;
  struct stream* s = (struct stream*)stream;
  struct titrate_question q;
  if (!titrate_identify(envoy, s->rules, &q)) return ABI_HEADERS_CONTINUE;
  titrateDecide(&q);
  if (q.verdict == TITRATE_WAIT) hold(envoy, s, &q);
  titrate_book(&s->trip, &q);
  switch (q.verdict) {
  case TITRATE_WAIT:
    return ABI_HEADERS_STOP_ALL_AND_WATERMARK;
  case TITRATE_REJECT:
    return reject(envoy, &q);
  }
  s->marked = q.mark;
  titrate_depart(&s->trip);
  return ABI_HEADERS_CONTINUE;
}

void envoy_dynamic_module_on_http_filter_scheduled(abi_http_filter envoy, const void* stream,
                                                   uint64_t event_id) {
  (void)event_id;
  struct stream* s = (struct stream*)stream;
  if (s->held == NULL) return; // it left before the event came
  struct titrate_event event = *titrate_held_event(s->held);
  titrate_held_leave(s->held);
  s->held = NULL;
  s->waited = true;
  s->wait_ms = event.wait_ms;
  if (event.verdict == TITRATE_ADMIT) {
    s->marked = event.mark;
    titrate_depart(&s->trip);
    ENVOY(http_filter_continue_decoding)(envoy);
    return;
  }
  struct titrate_question q;
  if (!titrate_identify(envoy, s->rules, &q)) q.tenant = LITERAL("");
  titrateAnswer(&q, (struct titrate_event*)&event);
  reject(envoy, &q);
}

static void append_number(abi_http_filter envoy, abi_bytes name, uint32_t number) {
  char text[12];
  size_t at = sizeof text;
  do text[--at] = '0' + number % 10;
  while ((number /= 10) > 0);
  ENVOY(http_set_header)(envoy, ABI_RESPONSE_HEADER, name,
                         (abi_bytes){text + at, sizeof text - at});
}

int envoy_dynamic_module_on_http_filter_response_headers(abi_http_filter envoy, const void* stream,
                                                         bool end) {
  (void)end;
  struct stream* s = (struct stream*)stream;
  titrate_answered(&s->trip, envoy);
  if (s->marked) append_number(envoy, LITERAL("x-titrate-congestion"), 1);
  if (s->waited) append_number(envoy, LITERAL("x-titrate-wait-ms"), s->wait_ms);
  return ABI_HEADERS_CONTINUE;
}

// 0: the reply goes out as it is.
int envoy_dynamic_module_on_http_filter_local_reply(abi_http_filter envoy, const void* stream,
                                                    uint32_t status, abi_bytes details,
                                                    bool reset_imminent) {
  (void)envoy, (void)details, (void)reset_imminent;
  titrate_answered_locally(&((struct stream*)stream)->trip, status);
  return 0;
}

// --- life of streams and configurations ---

const void* envoy_dynamic_module_on_http_filter_new(const void* config, abi_http_filter envoy) {
  (void)envoy;
  struct stream* s = calloc(1, sizeof *s);
  if (s != NULL) s->rules = config;
  return s;
}

// The stream is over while its request waits: take it out of the queue, or
// leave it to the event that is already on its way.
static void abandon(struct stream* s) {
  if (s->held == NULL) return;
  if (titrateCancel(s->handle))
    titrate_held_drop(s->held);
  else
    titrate_held_leave(s->held);
  s->held = NULL;
}

void envoy_dynamic_module_on_http_filter_stream_complete(abi_http_filter envoy,
                                                         const void* stream) {
  (void)envoy;
  abandon((struct stream*)stream);
  titrate_arrive(&((struct stream*)stream)->trip);
}

void envoy_dynamic_module_on_http_filter_destroy(const void* stream) {
  abandon((struct stream*)stream);
  titrate_arrive(&((struct stream*)stream)->trip);
  free((void*)stream);
}

const void* envoy_dynamic_module_on_http_filter_config_new(void* envoy, abi_bytes name,
                                                           abi_bytes config) {
  (void)envoy;
  return titrateFilterConfig(name, config, 0);
}

void envoy_dynamic_module_on_http_filter_config_destroy(const void* config) {
  titrate_rules_free((struct titrate_rules*)config);
}

const void* envoy_dynamic_module_on_http_filter_per_route_config_new(abi_bytes name,
                                                                     abi_bytes config) {
  const void* rules = titrateFilterConfig(name, config, 1);
  if (rules != NULL) titrate_overrides(1);
  return rules;
}

void envoy_dynamic_module_on_http_filter_per_route_config_destroy(const void* config) {
  titrate_overrides(-1);
  titrate_rules_free((struct titrate_rules*)config);
}
