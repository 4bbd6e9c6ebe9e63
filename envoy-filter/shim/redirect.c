// How Envoy follows a redirect (1.40, ConnectionManagerImpl::ActiveStream::
// recreateStream), all in one breath on the stream's worker:
//
//	router           response_code_details := internal_redirect
//	stream_complete  of the first stream, with no response headers before it
//	filter_new       of the second stream
//	request_headers  of the second, perhaps later: a filter before ours may wait
//
// So what stream_complete leaves in a list of the thread, with the configuration of
// its filter, is taken by the next filter_new of that configuration on the thread:
// several Titrate filters of one chain leave and find each its own. If that belongs
// to somebody else, since the second route has this filter disabled, it is not taken
// up: only a redirected request has Envoy's x-envoy-original-url, and only it comes
// by the same connection. Both are needed; a client can write the header. What nobody
// has taken is freed with the next request of the thread.
//
// The second stream goes on without a decision if it is of the same tenant and
// pool. Another pool has not been asked yet; it decides, and then both charge. What
// was charged is what the client asked for: costs, classes and keys of the second
// route do not count.

#include "redirect.h"

#include <stdlib.h>
#include <string.h>

#include "identify.h"

#define LITERAL(text) ((abi_bytes){text, sizeof(text) - 1})

struct titrate_legacy {
  struct titrate_legacy* next;
  const struct titrate_rules* rules; // of whose filter; compared, never read
  uint64_t connection;
  struct titrate_tale tale;
  struct titrate_flight* flight;
  int64_t micros;
  double cost;
  abi_bytes tenant, pool; // in text
  char text[];
};

static _Thread_local struct titrate_legacy* left;

static bool same(abi_bytes a, abi_bytes b) {
  return a.length == b.length && memcmp(a.ptr, b.ptr, a.length) == 0;
}

static bool redirected(abi_http_filter envoy) {
  abi_bytes details;
  return ENVOY(http_filter_get_attribute_string)(envoy, ABI_ATTRIBUTE_RESPONSE_CODE_DETAILS,
                                                 &details) &&
         same(details, LITERAL("internal_redirect"));
}

static uint64_t connection(abi_http_filter envoy) {
  uint64_t id = 0;
  return ENVOY(http_filter_get_attribute_int)(envoy, ABI_ATTRIBUTE_CONNECTION_ID, &id) ? id : 0;
}

static struct titrate_legacy* legacy_new(const struct titrate_question* q) {
  struct titrate_legacy* l = calloc(1, sizeof *l + q->tenant.length + q->pool.length);
  if (l == NULL) return NULL; // then the second stream is charged, too
  l->tenant = (abi_bytes){l->text, q->tenant.length};
  l->pool = (abi_bytes){l->text + q->tenant.length, q->pool.length};
  memcpy(l->text, q->tenant.ptr, q->tenant.length);
  memcpy(l->text + q->tenant.length, q->pool.ptr, q->pool.length);
  return l;
}

void titrate_bequeath(abi_http_filter envoy, const struct titrate_rules* rules,
                      struct titrate_tale* tale, const struct titrate_trip* trip) {
  struct titrate_question q;
  if (!redirected(envoy) || !titrate_identify(envoy, rules, &q)) return;
  titrate_legacy_free(titrate_inherit(rules)); // of a stream before, which nobody took
  struct titrate_legacy* l = legacy_new(&q);
  if (l == NULL) return;
  l->rules = rules;
  l->connection = connection(envoy);
  l->cost = q.cost;
  l->flight = trip->flight;
  l->micros = trip->micros;
  l->tale = *tale;
  tale->account = NULL;
  tale->fields = NULL;
  l->next = left;
  left = l;
}

struct titrate_legacy* titrate_inherit(const struct titrate_rules* rules) {
  for (struct titrate_legacy** at = &left; *at != NULL; at = &(*at)->next) {
    struct titrate_legacy* l = *at;
    if (l->rules != rules) continue;
    *at = l->next;
    return l;
  }
  return NULL;
}

void titrate_disinherit(void) {
  while (left != NULL) {
    struct titrate_legacy* l = left;
    left = l->next;
    titrate_legacy_free(l);
  }
}

bool titrate_follows(abi_http_filter envoy, struct titrate_legacy* l,
                     struct titrate_question* q, struct titrate_tale* tale,
                     struct titrate_trip* trip) {
  abi_bytes url;
  if (!ENVOY(http_get_header)(envoy, ABI_REQUEST_HEADER, LITERAL("x-envoy-original-url"), &url, 0,
                              NULL) ||
      connection(envoy) != l->connection || !same(q->tenant, l->tenant) || !same(q->pool, l->pool))
    return false;
  struct titrate_manner manner = tale->manner;
  *tale = l->tale;
  tale->manner = manner;
  l->tale.account = NULL;
  l->tale.fields = NULL;
  q->cost = l->cost;
  trip->flight = l->flight;
  trip->micros = l->micros;
  return true;
}

void titrate_legacy_free(struct titrate_legacy* l) {
  if (l == NULL) return;
  titrate_tale_end(&l->tale);
  free(l);
}
