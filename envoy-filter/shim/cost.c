// A charge is corrected at most once per stream and cost, and only for admitted requests. A retry
// belongs to its stream. A stream that is redirected passes its charge on to the next one
// (redirect.c).

#include "cost.h"

#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "_cgo_export.h"
#include "identify.h"
#include "inflight.h"
#include "response.h"

// --- prices ---

static void add_price(struct titrate_question* q, const struct titrate_response_cost* r, int slot,
                      bool given) {
  if (r->from <= TITRATE_COST_NOWHERE || q->prices == TITRATE_PRICES) return;
  q->price[q->prices++] = (struct titrate_price){.response = r, .slot = slot, .learn = !given};
}

static void name_costs(abi_http_filter envoy, const struct titrate_named_costs* costs,
                       struct titrate_question* q) {
  memset(q->named, 0, sizeof q->named);
  q->costs = q->named;
  for (size_t i = 0; i < costs->count; i++) {
    const struct titrate_named_cost* c = &costs->list[i];
    bool given = titrate_cost_of(envoy, &c->request, &q->named[c->slot]);
    if (!given) q->named[c->slot] = 0;
    add_price(q, &c->response, c->slot, given);
  }
}

// Whether an estimate of the request is one of its route.
static bool depends_on_route(const struct titrate_question* q) {
  for (size_t i = 0; i < q->prices; i++)
    if (q->price[i].learn && q->price[i].response->from != TITRATE_COST_DURATION &&
        q->price[i].response->least < q->price[i].response->most)
      return true;
  return false;
}

void titrate_price(abi_http_filter envoy, const struct titrate_layers* l, bool given,
                   struct titrate_question* q) {
  const struct titrate_rules *route = l->route, *filter = l->filter;
  const struct titrate_named_costs* named = route->costs.set ? &route->costs : &filter->costs;
  bool overridden = route->answers.cost.from != 0;
  add_price(q, overridden ? &route->answers.cost : &filter->answers.cost, -1, given);
  if (named->count > 0) name_costs(envoy, named, q);
  q->rules = route;
  q->usage = route->usage.count > 0 ? &route->usage : &filter->usage;
  q->route = ABI_TEXT("");
  if (depends_on_route(q) &&
      !ENVOY(http_filter_get_attribute_string)(envoy, ABI_ATTRIBUTE_ROUTE_NAME, &q->route))
    q->route = ABI_TEXT("");
}

// --- charges ---

// What was charged, with texts of its own: Envoy's router may change the request's headers
// before the response comes.
struct titrate_charge {
  struct titrate_question question;
  const struct titrate_rules* held; // of the question, once the charge holds them; else NULL
  uint32_t pending; // costs that the response has not said yet, as bits
  uint64_t started; // when the upstream got the request, monotonic nanoseconds; 0: it has not
  bool counts_bytes;                   // of the body: they are a cost
  bool failed;                         // the upstream's status is 400 or more
  uint64_t bytes;                      // of the body
  struct titrate_usage_reader* reader; // of the body; NULL: it is not read
  char text[];
};

static void copy_text(abi_bytes* text, char** to) {
  memcpy(*to, text->ptr, text->length);
  text->ptr = *to;
  *to += text->length;
}

struct titrate_charge* titrate_charge_new(const struct titrate_question* q) {
  if (q->prices == 0) return NULL;
  size_t identities = q->identities != NULL ? TITRATE_IDENTITIES : 0;
  size_t size = q->tenant.length + q->client.length + q->pool.length + q->route.length;
  for (size_t i = 0; i < identities; i++) size += q->identity[i].length;
  struct titrate_charge* c = calloc(1, sizeof *c + size);
  if (c == NULL) return NULL;
  c->question = *q;
  c->pending = (1u << q->prices) - 1;
  for (size_t i = 0; i < q->prices; i++)
    c->counts_bytes = c->counts_bytes || q->price[i].response->from == TITRATE_COST_KILOBYTES;
  char* to = c->text;
  copy_text(&c->question.tenant, &to);
  copy_text(&c->question.client, &to);
  copy_text(&c->question.pool, &to);
  copy_text(&c->question.route, &to);
  for (size_t i = 0; i < identities; i++) copy_text(&c->question.identity[i], &to);
  if (identities > 0) c->question.identities = c->question.identity;
  if (q->costs != NULL) c->question.costs = c->question.named;
  return c;
}

void titrate_charge_hold(struct titrate_charge* c) {
  if (c == NULL || c->held != NULL) return;
  c->held = c->question.rules;
  titrate_rules_hold(c->held);
}

void titrate_charge_restore(const struct titrate_charge* c, struct titrate_question* q) {
  if (c == NULL) return;
  q->cost = c->question.cost;
  memcpy(q->named, c->question.named, sizeof q->named);
  q->costs = c->question.costs != NULL ? q->named : NULL;
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void titrate_charge_start(struct titrate_charge* c) {
  if (c != NULL && c->started == 0) c->started = now();
}

void titrate_charge_free(struct titrate_outcome* o) {
  struct titrate_charge* c = o->charge;
  o->charge = NULL;
  if (c == NULL) return;
  titrate_rules_release(c->held);
  free(c->reader);
  free(c);
}

// --- settlements ---

// Corrects the charge by a cost of the response: the text if it is written, else the number. If
// that is none, the cost stays pending: a trailer may have it after a header that had not.
static void settle(struct titrate_outcome* o, size_t i, bool written, abi_bytes text,
                   double number, bool learn) {
  struct titrate_charge* c = o->charge;
  bool of_pool = false;
  int64_t micros = titrateCorrectCharge(&c->question, i, written, text, number, learn, &of_pool);
  if (micros < 0) return;
  c->pending &= ~(1u << i);
  if (!of_pool) return;
  o->cost_known = true;
  o->micros = micros;
}

static void settle_text(struct titrate_outcome* o, size_t i, abi_bytes text) {
  settle(o, i, true, text, 0, true);
}

static void settle_number(struct titrate_outcome* o, size_t i, double number, bool learn) {
  settle(o, i, false, ABI_TEXT(""), number, learn);
}

static const struct titrate_response_cost* expected(const struct titrate_outcome* o, size_t i) {
  return o->charge->question.price[i].response;
}

// The first cost at i or after it that is pending; the number of costs if there is none.
static size_t pending(const struct titrate_outcome* o, size_t i) {
  size_t n = o->charge == NULL ? 0 : o->charge->question.prices;
  while (i < n && (o->charge->pending >> i & 1) == 0) i++;
  return i;
}

#define EACH_PENDING(o, i)                                                                         \
  for (size_t i = pending(o, 0); (o)->charge != NULL && i < (o)->charge->question.prices;          \
       i = pending(o, i + 1))

static void settle_header(abi_http_filter envoy, struct titrate_outcome* o, size_t i, int type) {
  abi_bytes value;
  if (ENVOY(http_get_header)(envoy, type, expected(o, i)->name, &value, 0, NULL))
    settle_text(o, i, value);
}

static void settle_metadata(abi_http_filter envoy, struct titrate_outcome* o, size_t i) {
  const struct titrate_response_cost* r = expected(o, i);
  abi_bytes text;
  double number;
  if (ENVOY(http_get_metadata_number)(envoy, ABI_METADATA_DYNAMIC, r->space, r->name, &number))
    settle_number(o, i, number, true);
  else if (ENVOY(http_get_metadata_string)(envoy, ABI_METADATA_DYNAMIC, r->space, r->name, &text))
    settle_text(o, i, text);
}

// --- bodies ---

static bool awaits_usage(const struct titrate_outcome* o) {
  EACH_PENDING(o, i)
    if (expected(o, i)->from == TITRATE_COST_USAGE) return true;
  return false;
}

static abi_bytes response_header(abi_http_filter envoy, abi_bytes name) {
  abi_bytes value;
  bool has = ENVOY(http_get_header)(envoy, ABI_RESPONSE_HEADER, name, &value, 0, NULL);
  return has ? value : ABI_TEXT("");
}

static bool begins(abi_bytes value, const char* with) {
  size_t n = strlen(with);
  return value.length >= n && strncasecmp(value.ptr, with, n) == 0;
}

// Whether a line of content-encoding names an encoding. A response may have several.
static bool is_encoded(abi_http_filter envoy) {
  abi_bytes encoding;
  size_t count = 1;
  for (size_t i = 0; i < count; i++) {
    if (!ENVOY(http_get_header)(envoy, ABI_RESPONSE_HEADER, ABI_TEXT("content-encoding"), &encoding,
                                i, &count))
      return false;
    if (encoding.length > 0 && !(encoding.length == 8 && begins(encoding, "identity"))) return true;
  }
  return false;
}

static void begin_reading(abi_http_filter envoy, struct titrate_charge* c) {
  c->reader = malloc(sizeof *c->reader);
  if (c->reader == NULL) return;
  bool events = begins(response_header(envoy, ABI_TEXT("content-type")), "text/event-stream");
  titrate_usage_begin(c->reader, c->question.usage, events);
}

// At least what was seen was used: a token for each event, if the events do not say more.
static void settle_seen(struct titrate_outcome* o, size_t i) {
  struct titrate_charge* c = o->charge;
  const struct titrate_price* p = &c->question.price[i];
  if (c->reader == NULL) return; // nothing was
  double tokens, events = (double)c->reader->data_events;
  if (!titrate_usage_get(c->reader, p->response->usage, &tokens)) tokens = 0;
  if (p->response->usage != TITRATE_USAGE_INPUT && tokens < events) tokens = events;
  double estimate = p->slot < 0 ? c->question.cost : c->question.named[p->slot];
  if (tokens > estimate) settle_number(o, i, tokens, false);
}

// Nothing more of the body is read: settles what it has said of the usage. unsaid: what becomes of
// an answer that has not said all; enum titrate_usage_outcome.
static void end_reading(struct titrate_outcome* o, int unsaid) {
  if (!awaits_usage(o)) return;
  struct titrate_charge* c = o->charge;
  int outcome = TITRATE_USAGE_READ;
  if (unsaid == TITRATE_USAGE_CUT && c->reader != NULL && titrate_usage_whole(c->reader))
    unsaid = TITRATE_USAGE_MISSING; // nothing more would have come
  EACH_PENDING(o, i) {
    double tokens;
    if (expected(o, i)->from != TITRATE_COST_USAGE) continue;
    bool said = c->reader != NULL && titrate_usage_final(c->reader, expected(o, i)->usage, &tokens);
    if (unsaid != TITRATE_USAGE_CUT && (said || c->failed)) {
      settle_number(o, i, said ? tokens : 0, said); // what has failed without usage costs nothing
    } else {
      outcome = unsaid;
      settle_seen(o, i);
    }
    c->pending &= ~(1u << i);
  }
  titrateCountUsage(outcome);
  free(c->reader);
  c->reader = NULL;
}

static void read_chunk(struct titrate_charge* c, abi_bytes chunk) {
  c->bytes += chunk.length;
  if (c->reader != NULL) titrate_usage_read(c->reader, chunk);
}

enum { MOST_CHUNKS = 32 }; // that need no memory of their own

void titrate_settle_body(abi_http_filter envoy, struct titrate_outcome* o, bool end) {
  struct titrate_charge* c = o->charge;
  if (c == NULL || (c->reader == NULL && !c->counts_bytes)) return;
  size_t n = ENVOY(http_get_body_chunks_size)(envoy, ABI_RECEIVED_RESPONSE_BODY);
  abi_bytes few[MOST_CHUNKS], *chunks = n <= MOST_CHUNKS ? few : malloc(n * sizeof *chunks);
  if (n > 0 && chunks != NULL &&
      ENVOY(http_get_body_chunks)(envoy, ABI_RECEIVED_RESPONSE_BODY, chunks))
    for (size_t i = 0; i < n; i++) read_chunk(c, chunks[i]);
  if (chunks != few) free(chunks);
  if (end) end_reading(o, TITRATE_USAGE_MISSING);
}

// --- hooks ---

void titrate_settle_headers(abi_http_filter envoy, struct titrate_outcome* o, bool end) {
  if (o->charge == NULL) return;
  EACH_PENDING(o, i) {
    // A response of trailers only, as gRPC has, comes as headers.
    int from = expected(o, i)->from;
    if (from == TITRATE_COST_HEADER || from == TITRATE_COST_TRAILER)
      settle_header(envoy, o, i, ABI_RESPONSE_HEADER);
  }
  if (!awaits_usage(o)) return;
  o->charge->failed = titrate_status(envoy) >= 400;
  if (is_encoded(envoy)) {
    end_reading(o, TITRATE_USAGE_ENCODED);
    return;
  }
  begin_reading(envoy, o->charge);
  if (end) end_reading(o, TITRATE_USAGE_MISSING);
}

void titrate_settle_trailers(abi_http_filter envoy, struct titrate_outcome* o) {
  EACH_PENDING(o, i)
    if (expected(o, i)->from == TITRATE_COST_TRAILER)
      settle_header(envoy, o, i, ABI_RESPONSE_TRAILER);
  end_reading(o, TITRATE_USAGE_MISSING);
}

void titrate_settle_end(abi_http_filter envoy, struct titrate_outcome* o) {
  if (o->charge == NULL) return;
  end_reading(o, TITRATE_USAGE_CUT);
  EACH_PENDING(o, i) {
    int from = expected(o, i)->from;
    if (from == TITRATE_COST_METADATA) settle_metadata(envoy, o, i);
    if (from == TITRATE_COST_KILOBYTES) settle_number(o, i, (double)o->charge->bytes * 1e-3, true);
    if (from == TITRATE_COST_DURATION && o->charge->started != 0)
      settle_number(o, i, (double)(now() - o->charge->started) * 1e-9, true);
  }
}
