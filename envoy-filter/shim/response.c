// Admitted requests and their responses.
//
// What an admitted request carries, and where:
//
//	request    the mark, if the upstream wants it
//	response   mark, wait, and the RateLimit fields if they are always wanted
//
// A charge is corrected at most once per stream, and only for admitted requests: the
// charge is kept on admission and freed by the correction. A retry belongs to its stream.
// A stream that is redirected passes its charge on to the next one (redirect.c).
//
// On the plain admit path each thing that an operator may want costs one comparison.

#include "response.h"

#include <stdio.h>
#include <stdlib.h>

#include "_cgo_export.h"
#include "access_log.h"

void titrate_set_options(abi_http_filter envoy, const struct titrate_layers* l,
                         struct titrate_question* q) {
  q->envoy = envoy;
  q->mode = (uint8_t)(TITRATE_OPTION(l, mode) - 1);
  q->status = TITRATE_OPTION(l, status);
  q->json = TITRATE_OPTION(l, body) == TITRATE_BODY_AUTO || TITRATE_OPTION(l, body) == TITRATE_BODY_JSON;
  q->fields = TITRATE_OPTION(l, rate_limit) != TITRATE_NEVER;
  q->always = TITRATE_OPTION(l, rate_limit) == TITRATE_ALWAYS;
  q->policy = TITRATE_OPTION(l, rate_limit_policy) == TITRATE_ON;
  q->hash = TITRATE_OPTION(l, log) != TITRATE_NEVER &&
            TITRATE_OPTION(l, log_client) == TITRATE_LOG_HASH && !TITRATE_OPTION_KEY(l)->set;
}

// --- admissions ---

// What was charged, with texts of its own: Envoy's router may change the request's headers
// before the response comes.
struct titrate_charge {
  struct titrate_question question;
  char text[];
};

static void copy_text(abi_bytes* text, char** to) {
  memcpy(*to, text->ptr, text->length);
  text->ptr = *to;
  *to += text->length;
}

static struct titrate_charge* charge_new(const struct titrate_question* q) {
  size_t identities = q->identities != NULL ? TITRATE_IDENTITIES : 0;
  size_t size = q->tenant.length + q->client.length + q->pool.length;
  for (size_t i = 0; i < identities; i++) size += q->identity[i].length;
  struct titrate_charge* c = malloc(sizeof *c + size);
  if (c == NULL) return NULL; // the estimate stands
  c->question = *q;
  char* to = c->text;
  copy_text(&c->question.tenant, &to);
  copy_text(&c->question.client, &to);
  copy_text(&c->question.pool, &to);
  for (size_t i = 0; i < identities; i++) copy_text(&c->question.identity[i], &to);
  if (identities > 0) c->question.identities = c->question.identity;
  return c;
}

struct titrate_fields {
  size_t policy_length, rate_limit_length;
  char policy[TITRATE_FIELD_SIZE], rate_limit[TITRATE_FIELD_SIZE];
};

static struct titrate_fields* fields_new(const struct titrate_answer* a) {
  struct titrate_fields* f = malloc(sizeof *f);
  if (f == NULL) return NULL;
  f->policy_length = a->policy_length;
  f->rate_limit_length = a->rate_limit_length;
  memcpy(f->policy, a->policy, a->policy_length);
  memcpy(f->rate_limit, a->rate_limit, a->rate_limit_length);
  return f;
}

// Sets the mark on the request, or removes a mark that the client has set.
static void mark_upstream(abi_http_filter envoy, const struct titrate_outcome* o) {
  abi_bytes name = TITRATE_OPTION_NAME(&o->layers, congestion), mark = {NULL, 0};
  if (TITRATE_OPTION(&o->layers, mark_upstream) != TITRATE_ON || name.length == 0) return;
  if (o->marked) mark = ABI_TEXT("1");
  ENVOY(http_set_header)(envoy, ABI_REQUEST_HEADER, name, mark);
}

void titrate_record_admission(abi_http_filter envoy, struct titrate_outcome* o,
                              struct titrate_question* q, struct titrate_answer* a) {
  if (a->rate_limit_length > 0) o->fields = fields_new(a);
  // A redirected request has the charge of its first stream.
  if (TITRATE_OPTION(&o->layers, cost_from) != TITRATE_COST_NOWHERE && o->charge == NULL)
    o->charge = charge_new(q);
  if (titrate_logs(&o->layers, a->shadow || o->waited || o->marked))
    titrate_log_outcome(envoy, o, q, a, a->shadow ? ABI_TEXT("shadow") : ABI_TEXT("admitted"));
  mark_upstream(envoy, o); // last: texts of q may be views of the header that it sets
}

// --- responses ---

// If the response has no cost here, or none that is one, the charge is kept: a trailer
// may have it after a header that had not.
static void correct_charge(struct titrate_outcome* o, bool written, abi_bytes text, double number) {
  int64_t micros = titrateCorrectCharge(&o->charge->question, written, text, number);
  if (micros < 0) return;
  o->cost_known = true;
  o->micros = micros;
  free(o->charge);
  o->charge = NULL;
}

// Returns the options of whichever says where the cost is: route or filter.
static const struct titrate_answer_options* cost_options(const struct titrate_outcome* o) {
  const struct titrate_layers* l = &o->layers;
  return l->route->answers.cost_from != 0 ? &l->route->answers : &l->filter->answers;
}

static void read_cost(abi_http_filter envoy, struct titrate_outcome* o, int type) {
  abi_bytes value;
  if (ENVOY(http_get_header)(envoy, type, cost_options(o)->cost_name, &value, 0, NULL))
    correct_charge(o, true, value, 0);
}

static void add_number(abi_http_filter envoy, abi_bytes name, uint32_t number) {
  char text[12];
  if (name.length == 0) return;
  int n = snprintf(text, sizeof text, "%u", number);
  ENVOY(http_set_header)(envoy, ABI_RESPONSE_HEADER, name, (abi_bytes){text, (size_t)n});
}

static void add_fields(abi_http_filter envoy, const struct titrate_fields* f) {
  if (f->policy_length > 0)
    ENVOY(http_set_header)(envoy, ABI_RESPONSE_HEADER, ABI_TEXT("ratelimit-policy"),
                           (abi_bytes){f->policy, f->policy_length});
  ENVOY(http_set_header)(envoy, ABI_RESPONSE_HEADER, ABI_TEXT("ratelimit"),
                         (abi_bytes){f->rate_limit, f->rate_limit_length});
}

void titrate_on_response_headers(abi_http_filter envoy, struct titrate_outcome* o) {
  if (o->marked) add_number(envoy, TITRATE_OPTION_NAME(&o->layers, congestion), 1);
  if (o->waited) add_number(envoy, TITRATE_OPTION_NAME(&o->layers, wait), o->wait_ms);
  if (o->fields != NULL) add_fields(envoy, o->fields);
  if (o->charge == NULL) return;
  // A response of trailers only, as gRPC has, comes as headers.
  int from = TITRATE_OPTION(&o->layers, cost_from);
  if (from == TITRATE_COST_HEADER || from == TITRATE_COST_TRAILER)
    read_cost(envoy, o, ABI_RESPONSE_HEADER);
}

void titrate_on_response_trailers(abi_http_filter envoy, struct titrate_outcome* o) {
  if (o->charge != NULL && TITRATE_OPTION(&o->layers, cost_from) == TITRATE_COST_TRAILER)
    read_cost(envoy, o, ABI_RESPONSE_TRAILER);
}

void titrate_on_stream_end(abi_http_filter envoy, struct titrate_outcome* o) {
  if (o->charge == NULL || TITRATE_OPTION(&o->layers, cost_from) != TITRATE_COST_METADATA) return;
  abi_bytes space = cost_options(o)->cost_space, key = cost_options(o)->cost_name, text;
  double number;
  if (ENVOY(http_get_metadata_number)(envoy, ABI_METADATA_DYNAMIC, space, key, &number))
    correct_charge(o, false, ABI_TEXT(""), number);
  else if (ENVOY(http_get_metadata_string)(envoy, ABI_METADATA_DYNAMIC, space, key, &text))
    correct_charge(o, true, text, 0);
}

void titrate_outcome_free(struct titrate_outcome* o) {
  free(o->charge);
  free(o->fields);
  o->charge = NULL;
  o->fields = NULL;
}
