// Admitted requests and their responses.
//
// What an admitted request carries, and where:
//
//	request    the mark, if the upstream wants it
//	response   mark, wait, and the RateLimit fields if they are always wanted
//
// On the plain admit path each thing that an operator may want costs one comparison.

#include "response.h"

#include <stdio.h>
#include <stdlib.h>

#include "_cgo_export.h"
#include "access_log.h"
#include "cost.h"

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
  // A redirected request has the charge of its first stream. One from the queue has that of its
  // arrival.
  if (o->charge == NULL) o->charge = titrate_charge_new(q);
  titrate_charge_start(o->charge);
  if (titrate_logs(&o->layers, a->shadow || o->waited || o->marked))
    titrate_log_outcome(envoy, o, q, a, a->shadow ? ABI_TEXT("shadow") : ABI_TEXT("admitted"));
  mark_upstream(envoy, o); // last: texts of q may be views of the header that it sets
}

// --- responses ---

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
}

void titrate_outcome_free(struct titrate_outcome* o) {
  titrate_charge_free(o);
  free(o->fields);
  o->fields = NULL;
}
