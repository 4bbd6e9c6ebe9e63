// Answers. Everything here is off the plain admit path, but for a comparison per
// thing that an operator may want.
//
// Who is told what, and when:
//
//	refused    at once: status, body, reason, Retry-After, RateLimit fields
//	admitted   in the response: mark, wait, RateLimit fields if always wanted;
//	           in the request: the mark, if the upstream wants it
//	any        dynamic metadata in the namespace "titrate", for access logs
//
// The cost of a response is settled at most once per stream, and only of requests
// that were admitted: the account is made on admission and gone with the first
// settlement. A retry stays within its stream; to the stream that follows an internal
// redirect the first one leaves its account (redirect.c).

#include "answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "identify.h"

#define LITERAL(text) ((abi_bytes){text, sizeof(text) - 1})
#define SAID(m, field) ((m)->over->field != 0 ? (m)->over->field : (m)->base->field)
#define NAME(m, field) ((m)->over->field.set ? (m)->over->field.text : (m)->base->field.text)

static const abi_bytes space = {"titrate", 7};

void titrate_manner_of(abi_http_filter envoy, const struct titrate_rules* base,
                       struct titrate_manner* manner) {
  const struct titrate_rules* over = titrate_override(envoy);
  manner->base = &base->manners;
  manner->over = over != NULL ? &over->manners : manner->base;
}

void titrate_ask(const struct titrate_manner* m, struct titrate_question* q) {
  q->mode = SAID(m, mode) - 1;
  q->refuse = SAID(m, status);
  q->fields = SAID(m, rate_limit) != TITRATE_NEVER;
  q->always = SAID(m, rate_limit) == TITRATE_ALWAYS;
  q->hash = SAID(m, log) != TITRATE_NEVER && SAID(m, log_client) == TITRATE_LOG_HASH;
  q->why = 0;
  q->shadow = false;
  q->limit_length = q->policy_length = 0;
}

static bool request_header(abi_http_filter envoy, abi_bytes name, abi_bytes* value) {
  return ENVOY(http_get_header)(envoy, ABI_REQUEST_HEADER, name, value, 0, NULL);
}

// --- access logs ---

static void log_text(abi_http_filter envoy, abi_bytes key, abi_bytes value) {
  if (value.length > 0) ENVOY(http_set_dynamic_metadata_string)(envoy, space, key, value);
}

// What a client chose: cut, and without bytes that would break the encoding of a
// log line or of a protobuf string.
static void log_foreign(abi_http_filter envoy, abi_bytes key, abi_bytes value) {
  char clean[256];
  size_t n = value.length < sizeof clean ? value.length : sizeof clean;
  for (size_t i = 0; i < n; i++) {
    char c = value.ptr[i];
    clean[i] = c >= ' ' && c <= '~' ? c : '?';
  }
  log_text(envoy, key, (abi_bytes){clean, n});
}

static void log_client(abi_http_filter envoy, const struct titrate_manner* m,
                       const struct titrate_question* q) {
  char hash[16];
  switch (SAID(m, log_client)) {
  case TITRATE_LOG_NAME:
    log_foreign(envoy, LITERAL("client"), q->client);
    break;
  case TITRATE_LOG_HASH:
    if (q->client.length == 0) return;
    if (q->verdict != TITRATE_REJECT) titrateHash(q->client, hash); // a refusal brings it
    log_text(envoy, LITERAL("client"),
             (abi_bytes){q->verdict == TITRATE_REJECT ? q->hashed : hash, sizeof hash});
  }
}

static bool logs(const struct titrate_tale* t, bool event) {
  int log = SAID(&t->manner, log);
  return log == TITRATE_ALWAYS || (log == TITRATE_EVENTS && event);
}

static void log_outcome(abi_http_filter envoy, const struct titrate_tale* t,
                        struct titrate_question* q, abi_bytes outcome) {
  log_text(envoy, LITERAL("outcome"), outcome);
  if (q->why != 0) {
    if (q->verdict != TITRATE_REJECT) titrateReason(q); // a refusal has it already
    log_text(envoy, LITERAL("reason"), (abi_bytes){q->reason, q->reason_length});
  }
  log_text(envoy, LITERAL("limit"), (abi_bytes){q->limit, q->limit_length});
  log_foreign(envoy, LITERAL("tenant"), q->tenant);
  log_foreign(envoy, LITERAL("pool"), q->pool);
  log_client(envoy, &t->manner, q);
  ENVOY(http_set_dynamic_metadata_number)(envoy, space, LITERAL("wait_ms"), t->wait_ms);
  if (t->marked) ENVOY(http_set_dynamic_metadata_bool)(envoy, space, LITERAL("marked"), true);
}

// --- refusals ---

static bool contains(abi_bytes text, const char* part, size_t length) {
  for (size_t i = 0; i + length <= text.length; i++)
    if (memcmp(text.ptr + i, part, length) == 0) return true;
  return false;
}

static bool is_grpc(abi_http_filter envoy) {
  abi_bytes type;
  static const char grpc[] = "application/grpc";
  enum { LENGTH = sizeof grpc - 1 };
  return request_header(envoy, LITERAL("content-type"), &type) && type.length >= LENGTH &&
         memcmp(type.ptr, grpc, LENGTH) == 0 &&
         (type.length == LENGTH || type.ptr[LENGTH] == '+' || type.ptr[LENGTH] == ';');
}

// The body that fits the request, where the operator leaves it to that.
static int shape_of(abi_http_filter envoy, const struct titrate_manner* m) {
  int body = SAID(m, body);
  abi_bytes accept;
  if (body != TITRATE_BODY_AUTO) return body;
  if (is_grpc(envoy)) return TITRATE_BODY_GRPC;
  if (request_header(envoy, LITERAL("accept"), &accept) && contains(accept, "text/plain", 10) &&
      !contains(accept, "json", 4))
    return TITRATE_BODY_TEXT;
  return TITRATE_BODY_JSON;
}

// Headers of an answer, as they are added.
struct headers {
  abi_header list[12];
  size_t n;
};

static void add(struct headers* h, abi_bytes name, abi_bytes value) {
  if (name.length == 0 || value.length == 0) return;
  h->list[h->n++] = (abi_header){name.ptr, name.length, value.ptr, value.length};
}

static void add_fields(struct headers* h, const struct titrate_question* q) {
  if (q->policy_length == 0) return;
  add(h, LITERAL("ratelimit-policy"), (abi_bytes){q->policy, q->policy_length});
  add(h, LITERAL("ratelimit"), (abi_bytes){q->rate_limit, q->rate_limit_length});
}

enum { GRPC_PERMISSION_DENIED = 7, GRPC_UNAVAILABLE = 14 };

static const char* what(const struct titrate_question* q) {
  switch (q->grpc) {
  case GRPC_PERMISSION_DENIED:
    return "unknown tenant";
  case GRPC_UNAVAILABLE:
    return "unavailable";
  }
  return "rate limited";
}

static abi_bytes plain(struct titrate_question* q, const char* end) {
  int n = snprintf(q->body, sizeof q->body, "%s: %.*s%s", what(q), (int)q->reason_length, q->reason, end);
  return (abi_bytes){q->body, n > 0 ? (size_t)n : 0};
}

static void send(abi_http_filter envoy, const struct titrate_manner* m, struct titrate_question* q,
                 struct headers* h) {
  abi_bytes body = {q->body, q->body_length};
  uint32_t status = q->status;
  char grpc[4];
  int digits;
  switch (shape_of(envoy, m)) {
  case TITRATE_BODY_JSON:
    add(h, LITERAL("content-type"), LITERAL("application/json"));
    break;
  case TITRATE_BODY_TEXT:
    add(h, LITERAL("content-type"), LITERAL("text/plain"));
    body = plain(q, "\n");
    break;
  default: // trailers only
    status = 200;
    add(h, LITERAL("content-type"), LITERAL("application/grpc"));
    digits = snprintf(grpc, sizeof grpc, "%u", q->grpc);
    add(h, LITERAL("grpc-status"), (abi_bytes){grpc, (size_t)digits});
    add(h, LITERAL("grpc-message"), plain(q, ""));
    add(h, LITERAL("grpc-retry-pushback-ms"), (abi_bytes){q->pushback, q->pushback_length});
    body = LITERAL("");
  }
  ENVOY(http_send_response)(envoy, status, h->list, h->n, body,
                            (abi_bytes){q->details, q->details_length});
}

void titrate_refuse(abi_http_filter envoy, struct titrate_tale* t, struct titrate_question* q) {
  struct headers h = {.n = 0};
  add(&h, NAME(&t->manner, reason), (abi_bytes){q->reason, q->reason_length});
  add(&h, LITERAL("retry-after"), (abi_bytes){q->retry_after, q->retry_after_length});
  add_fields(&h, q);
  if (logs(t, true)) log_outcome(envoy, t, q, LITERAL("rejected"));
  send(envoy, &t->manner, q, &h);
}

bool titrate_peeked(abi_http_filter envoy, const struct titrate_manner* m,
                    struct titrate_question* q) {
  abi_bytes name = NAME(m, peek), value;
  if (name.length == 0 || !request_header(envoy, name, &value)) return false;
  q->fields = q->always = true;
  titratePeek(q);
  struct titrate_tale tale = {.manner = *m};
  struct headers h = {.n = 0};
  if (q->verdict == TITRATE_REJECT) {
    titrate_refuse(envoy, &tale, q);
    return true;
  }
  if (logs(&tale, true)) log_outcome(envoy, &tale, q, LITERAL("peeked"));
  add(&h, LITERAL("content-type"), LITERAL("application/json"));
  add_fields(&h, q);
  ENVOY(http_send_response)(envoy, 200, h.list, h.n, (abi_bytes){q->body, q->body_length},
                            LITERAL("titrate_peek"));
  return true;
}

// --- admissions ---

// What was charged to whom. Envoy's router may change the request's headers before
// the response comes, so it is kept.
struct titrate_account {
  abi_bytes tenant, client, pool, identities[TITRATE_IDENTITIES];
  double cost;
  int mode;
  bool named;
  uint32_t classes;
  char text[];
};

static abi_bytes kept(abi_bytes text, char** at) {
  memcpy(*at, text.ptr, text.length);
  *at += text.length;
  return (abi_bytes){*at - text.length, text.length};
}

static struct titrate_account* account_new(const struct titrate_question* q) {
  size_t room = q->tenant.length + q->client.length + q->pool.length;
  for (size_t i = 0; q->named && i < TITRATE_IDENTITIES; i++) room += q->identities[i].length;
  struct titrate_account* a = calloc(1, sizeof *a + room);
  if (a == NULL) return NULL; // the estimate stands
  char* at = a->text;
  a->tenant = kept(q->tenant, &at);
  a->client = kept(q->client, &at);
  a->pool = kept(q->pool, &at);
  for (size_t i = 0; q->named && i < TITRATE_IDENTITIES; i++)
    a->identities[i] = kept(q->identities[i], &at);
  a->cost = q->cost;
  a->mode = q->mode;
  a->named = q->named;
  a->classes = q->named ? q->classes : 0;
  return a;
}

struct titrate_fields {
  size_t policy_length, rate_limit_length;
  char policy[192], rate_limit[192];
};

static struct titrate_fields* fields_new(const struct titrate_question* q) {
  struct titrate_fields* f = malloc(sizeof *f);
  if (f == NULL) return NULL;
  f->policy_length = q->policy_length;
  f->rate_limit_length = q->rate_limit_length;
  memcpy(f->policy, q->policy, sizeof f->policy);
  memcpy(f->rate_limit, q->rate_limit, sizeof f->rate_limit);
  return f;
}

bool titrate_has_more(const struct titrate_tale* t) {
  return logs(t, true) || SAID(&t->manner, cost_from) != TITRATE_NOWHERE ||
         SAID(&t->manner, rate_limit) == TITRATE_ALWAYS;
}

// Marks the request, or takes away a mark that the client made up.
static void mark_upstream(abi_http_filter envoy, const struct titrate_tale* t) {
  abi_bytes name = NAME(&t->manner, congestion), mark = {NULL, 0};
  if (SAID(&t->manner, mark_upstream) != TITRATE_ON || name.length == 0) return;
  if (t->marked) mark = LITERAL("1");
  ENVOY(http_set_header)(envoy, ABI_REQUEST_HEADER, name, mark);
}

void titrate_admitted(abi_http_filter envoy, struct titrate_tale* t, struct titrate_question* q) {
  if (q->policy_length > 0) t->fields = fields_new(q);
  // A redirected request has the account of its first stream.
  if (SAID(&t->manner, cost_from) != TITRATE_NOWHERE && t->account == NULL)
    t->account = account_new(q);
  if (logs(t, q->shadow || t->waited || t->marked))
    log_outcome(envoy, t, q, q->shadow ? LITERAL("shadow") : LITERAL("admitted"));
  mark_upstream(envoy, t); // last: the views of q may be of the header that it sets
}

// --- responses ---

// A text that tells nothing, or no cost, leaves the account for what comes later:
// a trailer after the header.
static void settle(struct titrate_tale* t, bool written, abi_bytes text, double number) {
  struct titrate_account* a = t->account;
  struct titrate_question q;
  q.tenant = a->tenant;
  q.client = a->client;
  q.pool = a->pool;
  q.cost = a->cost;
  q.mode = a->mode;
  q.named = a->named;
  q.classes = a->classes;
  memcpy(q.identities, a->identities, sizeof q.identities);
  titrateSettle(&q, written, text, number);
  if (q.micros < 0) return;
  t->settled = true;
  t->micros = q.micros;
  t->account = NULL;
  free(a);
}

// Who says where the cost is: route or filter.
static const struct titrate_manners* source(const struct titrate_tale* t) {
  return t->manner.over->cost_from != 0 ? t->manner.over : t->manner.base;
}

static void settle_from(abi_http_filter envoy, struct titrate_tale* t, int type) {
  abi_bytes value;
  if (ENVOY(http_get_header)(envoy, type, source(t)->cost_name, &value, 0, NULL))
    settle(t, true, value, 0);
}

static void response_number(abi_http_filter envoy, abi_bytes name, uint32_t number) {
  char text[12];
  if (name.length == 0) return;
  int n = snprintf(text, sizeof text, "%u", number);
  ENVOY(http_set_header)(envoy, ABI_RESPONSE_HEADER, name, (abi_bytes){text, (size_t)n});
}

static void response_fields(abi_http_filter envoy, const struct titrate_fields* f) {
  ENVOY(http_set_header)(envoy, ABI_RESPONSE_HEADER, LITERAL("ratelimit-policy"),
                         (abi_bytes){f->policy, f->policy_length});
  ENVOY(http_set_header)(envoy, ABI_RESPONSE_HEADER, LITERAL("ratelimit"),
                         (abi_bytes){f->rate_limit, f->rate_limit_length});
}

void titrate_tell(abi_http_filter envoy, struct titrate_tale* t) {
  if (t->marked) response_number(envoy, NAME(&t->manner, congestion), 1);
  if (t->waited) response_number(envoy, NAME(&t->manner, wait), t->wait_ms);
  if (t->fields != NULL) response_fields(envoy, t->fields);
  if (t->account == NULL) return;
  // An answer of trailers only, as gRPC has, comes as headers.
  int from = SAID(&t->manner, cost_from);
  if (from == TITRATE_IN_HEADER || from == TITRATE_IN_TRAILER)
    settle_from(envoy, t, ABI_RESPONSE_HEADER);
}

void titrate_tell_trailers(abi_http_filter envoy, struct titrate_tale* t) {
  if (t->account != NULL && SAID(&t->manner, cost_from) == TITRATE_IN_TRAILER)
    settle_from(envoy, t, ABI_RESPONSE_TRAILER);
}

void titrate_tell_end(abi_http_filter envoy, struct titrate_tale* t) {
  if (t->account == NULL || SAID(&t->manner, cost_from) != TITRATE_IN_METADATA) return;
  const struct titrate_manners* m = source(t);
  double number;
  abi_bytes text;
  if (ENVOY(http_get_metadata_number)(envoy, 0, m->cost_space, m->cost_name, &number))
    settle(t, false, LITERAL(""), number);
  else if (ENVOY(http_get_metadata_string)(envoy, 0, m->cost_space, m->cost_name, &text))
    settle(t, true, text, 0);
}

void titrate_tale_end(struct titrate_tale* t) {
  free(t->account);
  free(t->fields);
  t->account = NULL;
  t->fields = NULL;
}
