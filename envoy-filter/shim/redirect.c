// How Envoy follows a redirect (1.40, ConnectionManagerImpl::ActiveStream::
// recreateStream), in one call on the stream's worker:
//
//	router           response_code_details := internal_redirect
//	stream_complete  of the first stream, which has had no response headers
//	filter_new       of the second stream
//	request_headers  of the second, perhaps later: a filter before this one may wait
//
// stream_complete puts the outcome into a list of the thread, together with the rules of
// its filter. The next filter_new with these rules on the thread takes it. So each of
// several Titrate filters in a chain finds its own. If the second route has this filter
// disabled, the stream that takes the outcome is another request. Such a request does not
// use it. Only a redirected request has both Envoy's x-envoy-original-url, which a client
// could write too, and the same connection. The next request of the thread frees what no
// stream has taken; its slots are free after a second in any case.
//
// The second stream passes without a decision if tenant and pool are the same. Another
// pool has not been asked yet: it decides, and then both are charged. What was charged is
// what the client asked for: costs, classes and keys of the second route do not count.

#include "redirect.h"

#include <stdlib.h>

#include "_cgo_export.h"
#include "cost.h"
#include "identify.h"

struct titrate_handoff {
  struct titrate_handoff* next;
  const struct titrate_rules* rules; // of the filter; compared, never read
  uint64_t connection;
  struct titrate_outcome outcome;
  struct titrate_flight* flight;
  int64_t micros;
  uint64_t slots;
  double cost;
  abi_bytes tenant, pool; // in text
  char text[];
};

static _Thread_local struct titrate_handoff* handoffs;

static bool redirected(abi_http_filter envoy) {
  abi_bytes details;
  return ENVOY(http_filter_get_attribute_string)(envoy, ABI_ATTRIBUTE_RESPONSE_CODE_DETAILS,
                                                 &details) &&
         abi_equal(details, ABI_TEXT("internal_redirect"));
}

static uint64_t connection(abi_http_filter envoy) {
  uint64_t id = 0;
  return ENVOY(http_filter_get_attribute_int)(envoy, ABI_ATTRIBUTE_CONNECTION_ID, &id) ? id : 0;
}

static struct titrate_handoff* handoff_new(const struct titrate_question* q) {
  struct titrate_handoff* h = calloc(1, sizeof *h + q->tenant.length + q->pool.length);
  if (h == NULL) return NULL; // then the second stream is charged, too
  h->tenant = (abi_bytes){h->text, q->tenant.length};
  h->pool = (abi_bytes){h->text + q->tenant.length, q->pool.length};
  memcpy(h->text, q->tenant.ptr, q->tenant.length);
  memcpy(h->text + q->tenant.length, q->pool.ptr, q->pool.length);
  return h;
}

// Moves an outcome; from has then nothing to free.
static struct titrate_outcome moved(struct titrate_outcome* from) {
  struct titrate_outcome o = *from;
  from->charge = NULL;
  from->fields = NULL;
  return o;
}

void titrate_handoff_put(abi_http_filter envoy, const struct titrate_rules* rules,
                         struct titrate_outcome* o, const struct titrate_inflight* r,
                         uint64_t* slots) {
  struct titrate_question q;
  struct titrate_scratch scratch;
  if (!redirected(envoy)) return;
  struct titrate_layers layers = titrate_layers_of(envoy, rules);
  if (!titrate_identify(envoy, &layers, &q, &scratch)) return;
  titrate_handoff_free(titrate_handoff_take(rules)); // of an earlier stream, not taken
  struct titrate_handoff* h = handoff_new(&q);
  if (h == NULL) return;
  h->rules = rules;
  h->connection = connection(envoy);
  h->cost = q.cost;
  h->flight = r->flight;
  h->micros = r->micros;
  h->slots = *slots;
  if (*slots != 0) titrateLendSlots(*slots);
  *slots = 0;
  h->outcome = moved(o);
  titrate_charge_hold(h->outcome.charge);
  h->next = handoffs;
  handoffs = h;
}

struct titrate_handoff* titrate_handoff_take(const struct titrate_rules* rules) {
  for (struct titrate_handoff** at = &handoffs; *at != NULL; at = &(*at)->next) {
    struct titrate_handoff* h = *at;
    if (h->rules != rules) continue;
    *at = h->next;
    if (h->slots == 0 || titrateKeepSlots(h->slots)) return h;
    h->slots = 0; // on their way for too long; the second stream decides
    titrate_handoff_free(h);
    return NULL;
  }
  return NULL;
}

void titrate_handoff_clear(void) {
  while (handoffs != NULL) {
    struct titrate_handoff* h = handoffs;
    handoffs = h->next;
    titrate_handoff_free(h);
  }
}

bool titrate_handoff_apply(abi_http_filter envoy, struct titrate_handoff* h,
                           struct titrate_question* q, struct titrate_outcome* o,
                           struct titrate_inflight* r, uint64_t* slots) {
  abi_bytes url;
  if (!ENVOY(http_get_header)(envoy, ABI_REQUEST_HEADER, ABI_TEXT("x-envoy-original-url"), &url, 0,
                              NULL) ||
      connection(envoy) != h->connection || !abi_equal(q->tenant, h->tenant) ||
      !abi_equal(q->pool, h->pool))
    return false;
  struct titrate_layers layers = o->layers;
  *o = moved(&h->outcome);
  o->layers = layers;
  q->cost = h->cost;
  r->flight = h->flight;
  r->micros = h->micros;
  *slots = h->slots;
  h->slots = 0;
  return true;
}

void titrate_handoff_free(struct titrate_handoff* h) {
  if (h == NULL) return;
  if (h->slots != 0) titrateFreeSlots(h->slots);
  titrate_outcome_free(&h->outcome);
  free(h);
}
