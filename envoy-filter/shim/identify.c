#include "identify.h"

#include <stdatomic.h>

#include "cost.h"
#include "headers.h"

// --- values ---

static bool header(abi_http_filter envoy, abi_bytes name, abi_bytes* value) {
  return titrate_header(envoy, name, 0, NULL, value);
}

// Only so many lines of one header are looked at.
enum { MOST_LINES = 32 };

static size_t lines(abi_http_filter envoy, abi_bytes name) {
  abi_bytes value;
  size_t count = 0;
  if (!titrate_header(envoy, name, 0, &count, &value)) return 0;
  return count < MOST_LINES ? count : MOST_LINES;
}

static bool cookie(abi_http_filter envoy, abi_bytes name, abi_bytes* value) {
  abi_bytes line;
  for (size_t i = 0, n = lines(envoy, ABI_TEXT("cookie")); i < n; i++)
    if (titrate_header(envoy, ABI_TEXT("cookie"), i, NULL, &line) && titrate_cookie(line, name, value))
      return true;
  return false;
}

// Finds the client's address as the trusted proxies wrote it. A request with fewer
// entries than they write has not come through them.
static bool forwarded(abi_http_filter envoy, int hops, abi_bytes* entry) {
  abi_bytes name = ABI_TEXT("x-forwarded-for"), line, last;
  size_t count = 0;
  if (!titrate_header(envoy, name, 0, &count, &last)) return false;
  for (size_t i = count, n = 0; i-- > 0 && n < MOST_LINES; n++)
    if (titrate_header(envoy, name, i, NULL, &line) && titrate_forwarded(line, &hops, entry))
      return true;
  return false;
}

static bool address(abi_http_filter envoy, const struct titrate_source* s, char* room,
                    abi_bytes* value) {
  abi_bytes text;
  if (s->hops > 0 && forwarded(envoy, s->hops, &text) &&
      titrate_address(text, s->v4, s->v6, room, value))
    return true;
  bool known = s->envoys ? ENVOY(http_filter_get_attribute_string)(
                               envoy, ABI_ATTRIBUTE_SOURCE_ADDRESS, &text)
                         : ENVOY(http_get_downstream_direct_remote_address)(envoy, &text);
  return known && titrate_address(text, s->v4, s->v6, room, value);
}

static bool find(abi_http_filter envoy, const struct titrate_source* s, char* room,
                 abi_bytes* value) {
  abi_bytes path;
  switch (s->kind) {
  case TITRATE_HEADER:
    return header(envoy, s->text, value);
  case TITRATE_LITERAL:
    *value = s->text;
    return true;
  case TITRATE_ATTRIBUTE:
    return ENVOY(http_filter_get_attribute_string)(envoy, s->attribute, value);
  case TITRATE_CLUSTER:
    return ENVOY(http_get_cluster_name)(envoy, value);
  case TITRATE_COOKIE:
    return cookie(envoy, s->text, value);
  case TITRATE_QUERY:
    return header(envoy, ABI_TEXT(":path"), &path) && titrate_query(path, s->text, room, value);
  case TITRATE_METADATA:
    return ENVOY(http_get_metadata_string)(envoy, ABI_METADATA_DYNAMIC, s->space, s->text, value);
  case TITRATE_FILTER_STATE:
    return ENVOY(http_get_filter_state_bytes)(envoy, s->text, value);
  case TITRATE_ADDRESS:
    return address(envoy, s, room, value);
  }
  return false;
}

// Returns the first source that has a value, or NULL.
static const struct titrate_source* first(abi_http_filter envoy,
                                          const struct titrate_sources* sources, char* room,
                                          abi_bytes* value) {
  for (size_t i = 0; i < sources->count; i++)
    if (find(envoy, &sources->list[i], room, value) && value->length > 0)
      return &sources->list[i];
  return NULL;
}

// Returns the name of a tenant or a pool.
static abi_bytes text_of(abi_http_filter envoy, const struct titrate_sources* sources,
                         char* room) {
  abi_bytes value;
  return first(envoy, sources, room, &value) != NULL ? value : ABI_TEXT("");
}

// Returns the name of a client, by which limits count.
static abi_bytes client_of(abi_http_filter envoy, const struct titrate_sources* sources,
                           char* room) {
  abi_bytes value;
  const struct titrate_source* s = first(envoy, sources, room, &value);
  return s != NULL ? titrate_name_of(s->prefix, value, room) : ABI_TEXT("");
}

bool titrate_cost_of(abi_http_filter envoy, const struct titrate_sources* sources, double* cost) {
  for (size_t i = 0; i < sources->count; i++) {
    const struct titrate_source* s = &sources->list[i];
    abi_bytes value;
    if (s->kind == TITRATE_LITERAL) {
      *cost = s->number;
      return true;
    }
    if (header(envoy, s->text, &value) && titrate_cost(value, cost)) return true;
  }
  *cost = 1;
  return false;
}

// --- classes ---

static bool one_of(const struct titrate_texts* texts, int how, abi_bytes text) {
  for (size_t i = 0; i < texts->count; i++)
    if (titrate_compare(how, text, texts->list[i])) return true;
  return false;
}

static bool has_header(abi_http_filter envoy, const struct titrate_header_match* m) {
  abi_bytes value;
  for (size_t i = 0, n = lines(envoy, m->name); i < n; i++)
    if (titrate_header(envoy, m->name, i, NULL, &value) && titrate_compare(m->how, value, m->text))
      return true;
  return false;
}

static bool holds(abi_http_filter envoy, const struct titrate_match* m) {
  abi_bytes text;
  if (m->methods.count > 0 && !(header(envoy, ABI_TEXT(":method"), &text) &&
                                one_of(&m->methods, TITRATE_EXACT, text)))
    return false;
  if (m->paths.count + m->prefixes.count > 0) {
    if (!header(envoy, ABI_TEXT(":path"), &text)) return false;
    text = titrate_path_only(text);
    if (!one_of(&m->paths, TITRATE_EXACT, text) && !one_of(&m->prefixes, TITRATE_PREFIX, text))
      return false;
  }
  for (size_t i = 0; i < m->headers; i++)
    if (has_header(envoy, &m->header[i]) == m->header[i].invert) return false;
  return true;
}

static bool in_class(abi_http_filter envoy, const struct titrate_class* c) {
  for (size_t i = 0; i < c->count; i++)
    if (holds(envoy, &c->list[i])) return true;
  return false;
}

// --- the request ---

// What limits need: classes in the upper half, identities in the lower.
static _Atomic uint64_t wanted;

void titrate_want(uint32_t identities, uint32_t classes) {
  atomic_store_explicit(&wanted, (uint64_t)classes << 32 | identities, memory_order_release);
}

static const struct titrate_sources* pick(const struct titrate_sources* route,
                                          const struct titrate_sources* filter) {
  return route->count > 0 ? route : filter;
}

// Fills in the identities and classes that limits in force need, and no others.
static void name(abi_http_filter envoy, const struct titrate_layers* l, uint64_t want,
                 struct titrate_question* q, struct titrate_scratch* scratch) {
  q->identities = q->identity;
  for (size_t i = 0; i < TITRATE_IDENTITIES; i++) {
    q->identity[i] = (abi_bytes){"", 0};
    if ((want >> i & 1) == 0) continue;
    char* room = scratch->room[3 + i];
    q->identity[i] =
        client_of(envoy, pick(&l->route->identities[i], &l->filter->identities[i]), room);
  }
  for (uint32_t left = want >> 32; left != 0; left &= left - 1) {
    int i = __builtin_ctz(left);
    const struct titrate_class* c = &l->route->classes[i];
    if (in_class(envoy, c->count > 0 ? c : &l->filter->classes[i])) q->classes |= 1u << i;
  }
}

void titrate_read_request_id(struct titrate_question* q) {
  header(q->envoy, ABI_TEXT("x-request-id"), &q->request);
}

bool titrate_identify(abi_http_filter envoy, const struct titrate_layers* l,
                      struct titrate_question* q, struct titrate_scratch* scratch) {
  titrate_headers_begin(&scratch->headers);
  q->headers = &scratch->headers;
  q->request = (abi_bytes){NULL, 0};
  int enabled = l->route->enabled != TITRATE_UNSET ? l->route->enabled : l->filter->enabled;
  if (enabled == TITRATE_OFF) return false;
  q->tenant = text_of(envoy, pick(&l->route->tenant, &l->filter->tenant), scratch->room[0]);
  q->client = client_of(envoy, pick(&l->route->client, &l->filter->client), scratch->room[1]);
  q->pool = text_of(envoy, pick(&l->route->pool, &l->filter->pool), scratch->room[2]);
  bool given = titrate_cost_of(envoy, pick(&l->route->cost, &l->filter->cost), &q->cost);
  q->prices = 0;
  q->costs = NULL;
  if (l->route->priced || l->filter->priced) titrate_price(envoy, l, given, q);
  uint64_t want = atomic_load_explicit(&wanted, memory_order_acquire);
  q->identities = NULL;
  q->classes = 0;
  if (want != 0) name(envoy, l, want, q, scratch);
  return true;
}
