// The HTTP filter's hooks. A request that is admitted at once crosses into Go once.

#include <stdlib.h>

#include "_cgo_export.h"
#include "cost.h"
#include "held.h"
#include "identify.h"
#include "redirect.h"
#include "refusal.h"

// What the filter knows of one stream. Its worker's thread only.
struct stream {
  const struct titrate_rules* rules; // of the filter
  struct titrate_held* held;         // while its request waits
  uint64_t handle;                   // of held, for the cancel
  struct titrate_outcome outcome;    // for its response
  struct titrate_inflight inflight;  // at the upstream, for an adaptive pool
  uint64_t slots;                    // of concurrency limits; 0: none
  struct titrate_handoff* handoff;   // of the stream that was redirected to this one
  bool passed, answered;             // the request went on; a response has come
};

// Frees the request's slots. It may be called again.
static void free_slots(struct stream* s) {
  uint64_t slots = s->slots;
  s->slots = 0;
  if (slots != 0) titrateFreeSlots(slots);
}

// --- requests ---

// Queues the request. The engine decides it again, and may decide otherwise by now.
static void hold(abi_http_filter envoy, struct stream* s, struct titrate_question* q,
                 struct titrate_answer* a) {
  struct titrate_held* held = titrate_held_new(envoy);
  uint64_t handle = titrateEnqueue(q, (uint64_t)(uintptr_t)held, a);
  if (a->verdict == TITRATE_WAIT) {
    s->held = held;
    s->handle = handle;
    s->outcome.charge = titrate_charge_new(q); // with the estimates of now
  } else if (handle != 0) { // the engine failed, and may still end the ticket
    uint64_t slots = titrate_held_detach(held); // the event has come already
    if (slots != 0) titrateFreeSlots(slots);
  } else if (held != NULL) {
    titrate_held_free(held);
  }
}

// The request goes on to the upstream.
static void pass(abi_http_filter envoy, struct stream* s, struct titrate_question* q,
                 struct titrate_answer* a) {
  s->passed = true;
  titrate_record_admission(envoy, &s->outcome, q, a);
  titrate_inflight_start(&s->inflight);
}

// Lets the request pass if another stream was charged for it, before a redirect.
static bool pass_redirected(abi_http_filter envoy, struct stream* s, struct titrate_question* q) {
  struct titrate_handoff* h = s->handoff;
  if (h == NULL) return false;
  s->handoff = NULL;
  bool charged = titrate_handoff_apply(envoy, h, q, &s->outcome, &s->inflight, &s->slots);
  if (charged) pass(envoy, s, q, &TITRATE_PLAIN_ADMISSION);
  titrate_handoff_free(h);
  return charged;
}

int envoy_dynamic_module_on_http_filter_request_headers(abi_http_filter envoy, const void* stream,
                                                        bool end) {
  (void)end;
  struct stream* s = (struct stream*)stream;
  struct titrate_question q;
  struct titrate_answer a;
  struct titrate_scratch scratch;
  titrate_answer_begin(&a);
  titrate_handoff_clear();
  s->outcome.layers = titrate_layers_of(envoy, s->rules);
  if (!titrate_identify(envoy, &s->outcome.layers, &q, &scratch)) return ABI_HEADERS_CONTINUE;
  titrate_set_options(envoy, &s->outcome.layers, &q);
  if (pass_redirected(envoy, s, &q)) return ABI_HEADERS_CONTINUE;
  if (titrate_handle_peek(envoy, &s->outcome.layers, &q, &a)) return ABI_HEADERS_STOP;
  titrateDecide(&q, &a);
  if (a.verdict == TITRATE_WAIT) hold(envoy, s, &q, &a);
  s->inflight.flight = a.flight;
  s->inflight.micros = a.micros;
  s->slots = a.slots;
  switch (a.verdict) {
  case TITRATE_WAIT:
    return ABI_HEADERS_STOP_ALL_AND_WATERMARK;
  case TITRATE_REJECT:
    titrate_send_refusal(envoy, &s->outcome, &q, &a);
    return ABI_HEADERS_STOP;
  }
  s->outcome.marked = a.mark;
  pass(envoy, s, &q, &a);
  return ABI_HEADERS_CONTINUE;
}

// --- requests that have waited ---

// Reads the request again, and writes the answer that belongs to the event.
static void answer_event(abi_http_filter envoy, struct stream* s, struct titrate_event* event,
                         struct titrate_question* q, struct titrate_scratch* scratch,
                         struct titrate_answer* a) {
  struct titrate_layers now = titrate_layers_of(envoy, s->rules);
  if (!titrate_identify(envoy, &now, q, scratch)) { // its route has changed meanwhile
    q->tenant = q->client = q->pool = ABI_TEXT("");
    q->cost = 1;
    q->identities = NULL;
    q->costs = NULL;
    q->classes = q->prices = 0;
  }
  titrate_charge_restore(s->outcome.charge, q);
  titrate_set_options(envoy, &s->outcome.layers, q);
  titrateAnswerEvent(q, event, a);
}

void envoy_dynamic_module_on_http_filter_scheduled(abi_http_filter envoy, const void* stream,
                                                   uint64_t event_id) {
  (void)event_id;
  struct stream* s = (struct stream*)stream;
  if (s->held == NULL) return; // the stream was abandoned before the event came
  struct titrate_event event = titrate_held_take(s->held);
  s->held = NULL;
  s->slots = event.slots;
  // Envoy has sent a response meanwhile (the request took too long to arrive, say). A second
  // one would reset the stream, and nothing goes to the upstream.
  if (s->answered) {
    titrate_charge_free(&s->outcome);
    return;
  }
  s->outcome.waited = true;
  s->outcome.wait_ms = event.wait_ms;
  struct titrate_question q;
  struct titrate_answer a;
  struct titrate_scratch scratch;
  titrate_answer_begin(&a);
  answer_event(envoy, s, &event, &q, &scratch, &a);
  if (event.verdict != TITRATE_ADMIT) {
    titrate_charge_free(&s->outcome);
    titrate_send_refusal(envoy, &s->outcome, &q, &a);
    return;
  }
  s->outcome.marked = event.mark;
  pass(envoy, s, &q, &a);
  ENVOY(http_filter_continue_decoding)(envoy);
}

// --- responses ---

int envoy_dynamic_module_on_http_filter_response_headers(abi_http_filter envoy, const void* stream,
                                                         bool end) {
  struct stream* s = (struct stream*)stream;
  s->answered = true;
  titrate_inflight_response(&s->inflight, envoy);
  titrate_on_response_headers(envoy, &s->outcome);
  titrate_settle_headers(envoy, &s->outcome, end);
  return ABI_HEADERS_CONTINUE;
}

int envoy_dynamic_module_on_http_filter_response_body(abi_http_filter envoy, const void* stream,
                                                      bool end) {
  struct stream* s = (struct stream*)stream;
  if (s->outcome.charge != NULL) titrate_settle_body(envoy, &s->outcome, end);
  return ABI_DATA_CONTINUE;
}

int envoy_dynamic_module_on_http_filter_response_trailers(abi_http_filter envoy,
                                                          const void* stream) {
  titrate_settle_trailers(envoy, &((struct stream*)stream)->outcome);
  return ABI_TRAILERS_CONTINUE;
}

// 0: the reply goes out as it is.
int envoy_dynamic_module_on_http_filter_local_reply(abi_http_filter envoy, const void* stream,
                                                    uint32_t status, abi_bytes details,
                                                    bool reset_imminent) {
  (void)envoy, (void)details, (void)reset_imminent;
  titrate_inflight_local_reply(&((struct stream*)stream)->inflight, status);
  return 0;
}

// --- life of streams and configurations ---

const void* envoy_dynamic_module_on_http_filter_new(const void* config, abi_http_filter envoy) {
  (void)envoy;
  struct stream* s = calloc(1, sizeof *s);
  struct titrate_handoff* handoff = titrate_handoff_take(config);
  if (s == NULL) {
    titrate_handoff_free(handoff);
    return NULL;
  }
  s->rules = config;
  s->handoff = handoff;
  return s;
}

// The stream is over while its request waits: takes the request out of the queue, or
// leaves it to the event that is already on its way.
static void abandon(struct stream* s) {
  if (s->held == NULL) return;
  titrate_charge_free(&s->outcome);
  if (titrateCancel(s->handle))
    titrate_held_free(s->held);
  else
    s->slots = titrate_held_detach(s->held);
  s->held = NULL;
}

void envoy_dynamic_module_on_http_filter_stream_complete(abi_http_filter envoy,
                                                         const void* stream) {
  struct stream* s = (struct stream*)stream;
  abandon(s);
  if (s->passed && !s->answered)
    titrate_handoff_put(envoy, s->rules, &s->outcome, &s->inflight, &s->slots);
  free_slots(s);
  titrate_settle_end(envoy, &s->outcome);
  if (s->outcome.cost_known) titrate_inflight_set_cost(&s->inflight, s->outcome.micros);
  titrate_inflight_end(&s->inflight);
}

void envoy_dynamic_module_on_http_filter_destroy(const void* stream) {
  struct stream* s = (struct stream*)stream;
  abandon(s);
  free_slots(s);
  titrate_inflight_end(&s->inflight);
  titrate_outcome_free(&s->outcome);
  titrate_handoff_free(s->handoff);
  free(s);
}

const void* envoy_dynamic_module_on_http_filter_config_new(void* envoy, abi_bytes name,
                                                           abi_bytes config) {
  (void)envoy;
  return titrateFilterConfig(name, config, false);
}

void envoy_dynamic_module_on_http_filter_config_destroy(const void* config) {
  titrate_rules_release(config);
}

const void* envoy_dynamic_module_on_http_filter_per_route_config_new(abi_bytes name,
                                                                     abi_bytes config) {
  const void* rules = titrateFilterConfig(name, config, true);
  if (rules != NULL) titrate_count_overrides(1);
  return rules;
}

void envoy_dynamic_module_on_http_filter_per_route_config_destroy(const void* config) {
  titrate_count_overrides(-1);
  titrate_rules_release(config);
}
