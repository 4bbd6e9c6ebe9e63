#include "access_log.h"

#include <stdio.h>

#include "_cgo_export.h"

static const abi_bytes space = ABI_TEXT("titrate");

static void set_text(abi_http_filter envoy, abi_bytes key, abi_bytes value) {
  if (value.length > 0) ENVOY(http_set_dynamic_metadata_string)(envoy, space, key, value);
}

static void set_tag(abi_span span, abi_bytes key, abi_bytes value) {
  if (span != NULL && value.length > 0) ENVOY(http_span_set_tag)(span, key, value);
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

// Sets a text that a client chose: at most 256 bytes, without those that would break the
// encoding of a log line or of a protobuf string.
static void set_client_text(abi_http_filter envoy, abi_bytes key, abi_bytes value) {
  char clean[256];
  size_t n = value.length < sizeof clean ? value.length : sizeof clean;
  for (size_t i = 0; i < n; i++) {
    char c = value.ptr[i];
    clean[i] = c >= ' ' && c <= '~' ? c : '?';
  }
  set_text(envoy, key, (abi_bytes){clean, n});
}

static void set_client(abi_http_filter envoy, const struct titrate_layers* l,
                       const struct titrate_question* q, const struct titrate_answer* a) {
  char hash[sizeof a->hash];
  switch (TITRATE_OPTION(l, log_client)) {
  case TITRATE_LOG_NAME:
    set_client_text(envoy, ABI_TEXT("client"), q->client);
    break;
  case TITRATE_LOG_HASH:
    if (q->client.length == 0) return;
    bool refused = a->verdict == TITRATE_REJECT; // then the answer has the hash
    if (!refused) titrateHash(q->client, hash);
    set_text(envoy, ABI_TEXT("client"), (abi_bytes){refused ? a->hash : hash, sizeof hash});
  }
}

bool titrate_logs(const struct titrate_layers* l, bool event) {
  int log = TITRATE_OPTION(l, log);
  return log == TITRATE_ALWAYS || (log == TITRATE_EVENTS && event);
}

void titrate_log_outcome(abi_http_filter envoy, const struct titrate_outcome* o,
                         const struct titrate_question* q, const struct titrate_answer* a,
                         abi_bytes name) {
  tag_outcome(envoy, o, a, name);
  set_text(envoy, ABI_TEXT("outcome"), name);
  if (a->reason != 0)
    set_text(envoy, ABI_TEXT("reason"), (abi_bytes){a->reason_name, a->reason_length});
  set_text(envoy, ABI_TEXT("limit"), (abi_bytes){a->limit, a->limit_length});
  set_client_text(envoy, ABI_TEXT("tenant"), q->tenant);
  set_client_text(envoy, ABI_TEXT("pool"), q->pool);
  set_client(envoy, &o->layers, q, a);
  ENVOY(http_set_dynamic_metadata_number)(envoy, space, ABI_TEXT("wait_ms"), o->wait_ms);
  if (o->marked) ENVOY(http_set_dynamic_metadata_bool)(envoy, space, ABI_TEXT("marked"), true);
}
