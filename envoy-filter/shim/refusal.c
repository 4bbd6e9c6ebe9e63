#include "refusal.h"

#include <stdio.h>

#include "_cgo_export.h"
#include "access_log.h"

static bool request_header(abi_http_filter envoy, abi_bytes name, abi_bytes* value) {
  return titrate_header(envoy, name, 0, NULL, value);
}

// --- the form of a refusal ---

static bool contains(abi_bytes text, abi_bytes part) {
  for (size_t i = 0; i + part.length <= text.length; i++)
    if (memcmp(text.ptr + i, part.ptr, part.length) == 0) return true;
  return false;
}

static bool is_grpc(abi_http_filter envoy) {
  abi_bytes type, grpc = ABI_TEXT("application/grpc");
  if (!request_header(envoy, ABI_TEXT("content-type"), &type) || type.length < grpc.length ||
      memcmp(type.ptr, grpc.ptr, grpc.length) != 0)
    return false;
  return type.length == grpc.length || type.ptr[grpc.length] == '+' || type.ptr[grpc.length] == ';';
}

// Returns the form of the body; if the operator leaves that to the request, the form that
// the request accepts.
static int body_form(abi_http_filter envoy, const struct titrate_layers* l) {
  int body = TITRATE_OPTION(l, body);
  abi_bytes accept;
  if (body != TITRATE_BODY_AUTO) return body;
  if (is_grpc(envoy)) return TITRATE_BODY_GRPC;
  if (request_header(envoy, ABI_TEXT("accept"), &accept) &&
      contains(accept, ABI_TEXT("text/plain")) && !contains(accept, ABI_TEXT("json")))
    return TITRATE_BODY_TEXT;
  return TITRATE_BODY_JSON;
}

// --- sending ---

// The headers of a response.
struct response_headers {
  abi_header list[12];
  size_t n;
};

static void add(struct response_headers* h, abi_bytes name, abi_bytes value) {
  if (name.length == 0 || value.length == 0) return;
  h->list[h->n++] = (abi_header){name.ptr, name.length, value.ptr, value.length};
}

static void add_fields(struct response_headers* h, const struct titrate_answer* a) {
  add(h, ABI_TEXT("ratelimit-policy"), (abi_bytes){a->policy, a->policy_length});
  add(h, ABI_TEXT("ratelimit"), (abi_bytes){a->rate_limit, a->rate_limit_length});
}

// Writes a number that fits.
static abi_bytes decimal(char* to, size_t size, int number) {
  return (abi_bytes){to, (size_t)snprintf(to, size, "%d", number)};
}

// Writes summary and reason as a line, and returns its length.
static int write_message(const struct titrate_answer* a, char* to, size_t size) {
  return snprintf(to, size, "%.*s: %.*s\n", (int)a->summary_length, a->summary,
                  (int)a->reason_length, a->reason_name);
}

static void send(abi_http_filter envoy, const struct titrate_layers* l,
                 const struct titrate_answer* a, struct response_headers* h) {
  abi_bytes body = {a->body, a->body_length};
  uint32_t status = a->status;
  char code[4], pushback[12], message[sizeof a->summary + sizeof a->reason_name + 4];
  int length;
  switch (body_form(envoy, l)) {
  case TITRATE_BODY_JSON:
    add(h, ABI_TEXT("content-type"), ABI_TEXT("application/json"));
    break;
  case TITRATE_BODY_TEXT:
    length = write_message(a, message, sizeof message);
    add(h, ABI_TEXT("content-type"), ABI_TEXT("text/plain"));
    body = (abi_bytes){message, (size_t)length};
    break;
  case TITRATE_BODY_NONE:
    body = ABI_TEXT("");
    break;
  default: // gRPC: trailers only
    status = 200;
    length = write_message(a, message, sizeof message);
    add(h, ABI_TEXT("content-type"), ABI_TEXT("application/grpc"));
    add(h, ABI_TEXT("grpc-status"), decimal(code, sizeof code, a->grpc));
    add(h, ABI_TEXT("grpc-message"), (abi_bytes){message, (size_t)length - 1}); // without the newline
    if (a->pushback != 0)
      add(h, ABI_TEXT("grpc-retry-pushback-ms"), decimal(pushback, sizeof pushback, a->pushback));
    body = ABI_TEXT("");
  }
  ENVOY(http_send_response)(envoy, status, h->list, h->n, body,
                            (abi_bytes){a->details, a->details_length});
}

void titrate_send_refusal(abi_http_filter envoy, const struct titrate_outcome* o,
                          const struct titrate_question* q, const struct titrate_answer* a) {
  struct response_headers h = {.n = 0};
  add(&h, TITRATE_OPTION_NAME(&o->layers, reason), (abi_bytes){a->reason_name, a->reason_length});
  if (a->grpc == 8) // RESOURCE_EXHAUSTED: by a limit or a share
    add(&h, TITRATE_OPTION_NAME(&o->layers, limited), ABI_TEXT("true"));
  add(&h, ABI_TEXT("retry-after"), (abi_bytes){a->retry_after, a->retry_after_length});
  add(&h, TITRATE_OPTION_NAME(&o->layers, request_id), q->request);
  add_fields(&h, a);
  if (titrate_logs(&o->layers, true)) titrate_log_outcome(envoy, o, q, a, ABI_TEXT("rejected"));
  send(envoy, &o->layers, a, &h);
}

bool titrate_handle_peek(abi_http_filter envoy, const struct titrate_layers* layers,
                         struct titrate_question* q, struct titrate_answer* a) {
  abi_bytes name = TITRATE_OPTION_NAME(layers, peek), value;
  if (name.length == 0 || !request_header(envoy, name, &value)) return false;
  q->fields = q->always = true;
  titratePeek(q, a);
  struct titrate_outcome o = {.layers = *layers};
  if (a->verdict == TITRATE_REJECT) {
    titrate_send_refusal(envoy, &o, q, a);
    return true;
  }
  struct response_headers h = {.n = 0};
  if (titrate_logs(layers, true)) titrate_log_outcome(envoy, &o, q, a, ABI_TEXT("peeked"));
  add(&h, ABI_TEXT("content-type"), ABI_TEXT("application/json"));
  add_fields(&h, a);
  ENVOY(http_send_response)(envoy, 200, h.list, h.n, (abi_bytes){a->body, a->body_length},
                            ABI_TEXT("titrate_peek"));
  return true;
}
