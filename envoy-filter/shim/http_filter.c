// The HTTP filter's hooks. One crossing into Go per request on the admit path;
// hooks that Titrate has no use for end here.

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "answer.h"
#include "inflight.h"
#include "held.h"
#include "identify.h"
#include "redirect.h"

// What the filter knows of one stream. Its worker's thread only.
struct stream {
  const struct titrate_rules* rules;
  struct titrate_held* held; // while it waits
  uint64_t handle;           // of held, for the cancel
  struct titrate_trip trip;  // to the upstream, of an adaptive pool
  struct titrate_tale tale;  // what is to be told
  struct titrate_legacy* legacy; // of the stream that was redirected to this one
  bool passed, answered;         // the request went on; a response has come
};

#define LITERAL(text) ((abi_bytes){text, sizeof(text) - 1})

// --- what becomes of it ---

// Puts the request into the queue; the engine may have changed its mind.
static void hold(abi_http_filter envoy, struct stream* s, struct titrate_question* q) {
  struct titrate_held* held = titrate_held_new(envoy);
  q->ticket = (uint64_t)(uintptr_t)held;
  titrateEnqueue(q);
  if (q->verdict == TITRATE_WAIT) {
    s->held = held;
    s->handle = q->handle;
  } else if (q->handle != 0) { // the engine failed and may still end the ticket
    titrate_held_leave(held);
  } else if (held != NULL) {
    titrate_held_drop(held);
  }
}

// The request goes on to the upstream.
static void pass(abi_http_filter envoy, struct stream* s, struct titrate_question* q) {
  s->passed = true;
  titrate_admitted(envoy, &s->tale, q);
  titrate_depart(&s->trip);
}

// Whether the request was decided as another stream, and goes on as this one.
static bool follows(abi_http_filter envoy, struct stream* s, struct titrate_question* q) {
  struct titrate_legacy* l = s->legacy;
  s->legacy = NULL;
  bool is = titrate_follows(envoy, l, q, &s->tale, &s->trip);
  if (is) pass(envoy, s, q);
  titrate_legacy_free(l);
  return is;
}

int envoy_dynamic_module_on_http_filter_request_headers(abi_http_filter envoy, const void* stream,
                                                        bool end) {
  (void)end;
  struct stream* s = (struct stream*)stream;
  struct titrate_question q;
  titrate_disinherit();
  if (!titrate_identify(envoy, s->rules, &q)) return ABI_HEADERS_CONTINUE;
  titrate_manner_of(envoy, s->rules, &s->tale.manner);
  titrate_ask(&s->tale.manner, &q);
  if (s->legacy != NULL && follows(envoy, s, &q)) return ABI_HEADERS_CONTINUE;
  if (titrate_peeked(envoy, &s->tale.manner, &q)) return ABI_HEADERS_STOP;
  titrateDecide(&q);
  if (q.verdict == TITRATE_WAIT) hold(envoy, s, &q);
  titrate_book(&s->trip, &q);
  switch (q.verdict) {
  case TITRATE_WAIT:
    return ABI_HEADERS_STOP_ALL_AND_WATERMARK;
  case TITRATE_REJECT:
    titrate_refuse(envoy, &s->tale, &q);
    return ABI_HEADERS_STOP;
  }
  s->tale.marked = q.mark;
  pass(envoy, s, &q);
  return ABI_HEADERS_CONTINUE;
}

// Asks again for what is told of a request that has waited.
static void recall(abi_http_filter envoy, struct stream* s, const struct titrate_event* event,
                   struct titrate_question* q) {
  if (!titrate_identify(envoy, s->rules, q)) { // its route has changed meanwhile
    q->tenant = q->client = q->pool = LITERAL("");
    q->cost = 1;
    q->named = false;
  }
  titrate_ask(&s->tale.manner, q);
  titrateAnswer(q, (struct titrate_event*)event);
}

void envoy_dynamic_module_on_http_filter_scheduled(abi_http_filter envoy, const void* stream,
                                                   uint64_t event_id) {
  (void)event_id;
  struct stream* s = (struct stream*)stream;
  if (s->held == NULL) return; // it left before the event came
  struct titrate_event event = *titrate_held_event(s->held);
  titrate_held_leave(s->held);
  s->held = NULL;
  // Envoy has answered meanwhile (it was too slow to arrive, say) and is still at it:
  // a second answer would reset the stream, and nothing goes to the upstream.
  if (s->answered) return;
  s->tale.waited = true;
  s->tale.wait_ms = event.wait_ms;
  struct titrate_question q; // nothing is known yet; the room for values needs no zeroes
  memset(&q, 0, offsetof(struct titrate_question, room));
  if (event.verdict != TITRATE_ADMIT) {
    recall(envoy, s, &event, &q);
    titrate_refuse(envoy, &s->tale, &q);
    return;
  }
  s->tale.marked = event.mark;
  if (titrate_has_more(&s->tale)) recall(envoy, s, &event, &q);
  pass(envoy, s, &q);
  ENVOY(http_filter_continue_decoding)(envoy);
}

int envoy_dynamic_module_on_http_filter_response_headers(abi_http_filter envoy, const void* stream,
                                                         bool end) {
  (void)end;
  struct stream* s = (struct stream*)stream;
  s->answered = true;
  titrate_answered(&s->trip, envoy);
  titrate_tell(envoy, &s->tale);
  return ABI_HEADERS_CONTINUE;
}

int envoy_dynamic_module_on_http_filter_response_trailers(abi_http_filter envoy,
                                                          const void* stream) {
  titrate_tell_trailers(envoy, &((struct stream*)stream)->tale);
  return ABI_TRAILERS_CONTINUE;
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
  struct titrate_legacy* legacy = titrate_inherit(config);
  if (s == NULL) {
    titrate_legacy_free(legacy);
    return NULL;
  }
  s->rules = config;
  s->legacy = legacy;
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
  struct stream* s = (struct stream*)stream;
  abandon(s);
  if (s->passed && !s->answered) titrate_bequeath(envoy, s->rules, &s->tale, &s->trip);
  titrate_tell_end(envoy, &s->tale);
  if (s->tale.settled) titrate_weigh(&s->trip, s->tale.micros);
  titrate_arrive(&s->trip);
}

void envoy_dynamic_module_on_http_filter_destroy(const void* stream) {
  struct stream* s = (struct stream*)stream;
  abandon(s);
  titrate_arrive(&s->trip);
  titrate_tale_end(&s->tale);
  titrate_legacy_free(s->legacy);
  free(s);
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
