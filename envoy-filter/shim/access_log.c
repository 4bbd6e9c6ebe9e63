// An access log reads dynamic metadata or filter state. Metadata costs Envoy some 14,000
// instructions, since it merges a structure that it makes of each value; filter state, which is
// one text, 1,000.

#include "access_log.h"

#include <stdio.h>

#include "_cgo_export.h"

static const abi_bytes space = ABI_TEXT("titrate");

// LONGEST is the most bytes of a text that a client chose.
enum { LONGEST = 256, MOST_TEXTS = 6, MOST_BYTES = 1280 };

// What is logged of one request: texts with their keys, and two values of other types.
struct entries {
  abi_header list[MOST_TEXTS];
  size_t n;
  uint32_t wait_ms;
  bool marked;
};

static void add(struct entries* e, abi_bytes key, abi_bytes value) {
  if (value.length > 0) e->list[e->n++] = (abi_header){key.ptr, key.length, value.ptr, value.length};
}

static abi_bytes key_of(const abi_header* h) { return (abi_bytes){h->key, h->key_length}; }
static abi_bytes value_of(const abi_header* h) { return (abi_bytes){h->value, h->value_length}; }

// --- texts that a client chose ---

// Returns whether a byte breaks neither the encoding of a log line nor a protobuf string, and
// in filter state not the division of the text into keys and values.
static bool harmless(char c, int to) {
  if (c < ' ' || c > '~') return false;
  return to != TITRATE_LOG_STATE || (c != ' ' && c != '=' && c != '"' && c != '\\');
}

// Returns a copy of the text in room, at most LONGEST bytes.
static abi_bytes clean(abi_bytes text, int to, char* room) {
  size_t n = text.length < LONGEST ? text.length : LONGEST;
  for (size_t i = 0; i < n; i++) room[i] = harmless(text.ptr[i], to) ? text.ptr[i] : '?';
  return (abi_bytes){room, n};
}

// Returns how the log names the client; nothing if it does not.
static abi_bytes client(const struct titrate_layers* l, const struct titrate_question* q,
                        const struct titrate_answer* a, int to, char* room) {
  switch (TITRATE_OPTION(l, log_client)) {
  case TITRATE_LOG_NAME:
    return clean(q->client, to, room);
  case TITRATE_LOG_HASH:
    if (q->client.length == 0) break;
    if (TITRATE_OPTION_KEY(l)->set) {
      titrate_siphash(TITRATE_OPTION_KEY(l), q->client, room);
      return (abi_bytes){room, sizeof a->hash};
    }
    if (a->verdict == TITRATE_REJECT) return (abi_bytes){a->hash, sizeof a->hash};
    titrateHash(q->client, room);
    return (abi_bytes){room, sizeof a->hash};
  }
  return ABI_TEXT("");
}

// --- forms ---

struct writer {
  size_t n;
  char bytes[MOST_BYTES]; // more than all entries have
};

static void put(struct writer* w, abi_bytes text) {
  memcpy(w->bytes + w->n, text.ptr, text.length);
  w->n += text.length;
}

static void put_byte(struct writer* w, int byte) { w->bytes[w->n++] = (char)byte; }

static void set_metadata(abi_http_filter envoy, struct entries* e) {
  if (ENVOY(http_set_dynamic_metadata_string_batch) != NULL)
    ENVOY(http_set_dynamic_metadata_string_batch)(envoy, space, e->list, e->n);
  else
    for (size_t i = 0; i < e->n; i++)
      ENVOY(http_set_dynamic_metadata_string)(envoy, space, key_of(&e->list[i]), value_of(&e->list[i]));
  ENVOY(http_set_dynamic_metadata_number)(envoy, space, ABI_TEXT("wait_ms"), e->wait_ms);
  if (e->marked) ENVOY(http_set_dynamic_metadata_bool)(envoy, space, ABI_TEXT("marked"), true);
}

static void put_pair(struct writer* w, abi_bytes key, abi_bytes value) {
  if (w->n > 0) put_byte(w, ' ');
  put(w, key);
  put_byte(w, '=');
  put(w, value);
}

static void set_filter_state(abi_http_filter envoy, const struct entries* e) {
  struct writer w = {.n = 0};
  char wait[12];
  for (size_t i = 0; i < e->n; i++)
    put_pair(&w, key_of(&e->list[i]), value_of(&e->list[i]));
  if (e->wait_ms > 0)
    put_pair(&w, ABI_TEXT("wait_ms"),
             (abi_bytes){wait, (size_t)snprintf(wait, sizeof wait, "%u", e->wait_ms)});
  if (e->marked) put_pair(&w, ABI_TEXT("marked"), ABI_TEXT("true"));
  ENVOY(http_set_filter_state_bytes)(envoy, space, (abi_bytes){w.bytes, w.n});
}

// --- spans ---

static void set_tag(abi_span span, abi_bytes key, abi_bytes value) {
  if (value.length > 0) ENVOY(http_span_set_tag)(span, key, value);
}

// Sets what the span of the request says of the decision: nothing that a client chose.
static void tag_outcome(abi_http_filter envoy, const struct titrate_outcome* o,
                        const struct titrate_answer* a, abi_bytes name) {
  abi_span span = ENVOY(http_get_active_span)(envoy);
  if (span == NULL) return; // the request is not traced
  char wait[12];
  int digits = snprintf(wait, sizeof wait, "%u", o->wait_ms);
  set_tag(span, ABI_TEXT("titrate.outcome"), name);
  if (a->reason != 0)
    set_tag(span, ABI_TEXT("titrate.reason"), (abi_bytes){a->reason_name, a->reason_length});
  set_tag(span, ABI_TEXT("titrate.limit"), (abi_bytes){a->limit, a->limit_length});
  set_tag(span, ABI_TEXT("titrate.wait_ms"), (abi_bytes){wait, (size_t)digits});
  if (o->marked) set_tag(span, ABI_TEXT("titrate.marked"), ABI_TEXT("true"));
}

// --- requests ---

bool titrate_logs(const struct titrate_layers* l, bool event) {
  int log = TITRATE_OPTION(l, log);
  return log == TITRATE_ALWAYS || (log == TITRATE_EVENTS && event);
}

void titrate_log_outcome(abi_http_filter envoy, const struct titrate_outcome* o,
                         const struct titrate_question* q, const struct titrate_answer* a,
                         abi_bytes name) {
  int to = TITRATE_OPTION(&o->layers, log_to);
  char room[3][LONGEST];
  struct entries e = {.n = 0, .wait_ms = o->wait_ms, .marked = o->marked};
  tag_outcome(envoy, o, a, name);
  add(&e, ABI_TEXT("outcome"), name);
  if (a->reason != 0)
    add(&e, ABI_TEXT("reason"), (abi_bytes){a->reason_name, a->reason_length});
  add(&e, ABI_TEXT("limit"), (abi_bytes){a->limit, a->limit_length});
  add(&e, ABI_TEXT("tenant"), clean(q->tenant, to, room[0]));
  add(&e, ABI_TEXT("pool"), clean(q->pool, to, room[1]));
  add(&e, ABI_TEXT("client"), client(&o->layers, q, a, to, room[2]));
  if (to == TITRATE_LOG_STATE)
    set_filter_state(envoy, &e);
  else
    set_metadata(envoy, &e);
}
