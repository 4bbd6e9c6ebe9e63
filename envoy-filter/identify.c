// What a request is: the rules of its filter and route, applied to what Envoy
// knows of it.

#include "identify.h"

#include <stdatomic.h>

static bool header(abi_http_filter envoy, abi_bytes name, abi_bytes* value) {
  return ENVOY(http_get_header)(envoy, ABI_REQUEST_HEADER, name, value, 0, NULL) &&
         value->length > 0;
}

static bool find(abi_http_filter envoy, const struct titrate_source* s, abi_bytes* value) {
  switch (s->kind) {
  case TITRATE_HEADER:
    return header(envoy, s->text, value);
  case TITRATE_LITERAL:
    *value = s->text;
    return true;
  default:
    return ENVOY(http_filter_get_attribute_string)(envoy, ABI_ATTRIBUTE_ROUTE_NAME, value) &&
           value->length > 0;
  }
}

static abi_bytes text_of(abi_http_filter envoy, const struct titrate_sources* sources) {
  abi_bytes value;
  for (size_t i = 0; i < sources->count; i++)
    if (find(envoy, &sources->list[i], &value)) return value;
  return (abi_bytes){"", 0};
}

// A decimal number above 0, without regard to the locale's point.
static bool parse_cost(abi_bytes text, double* cost) {
  double value = 0, place = 1;
  bool point = false, digit = false;
  if (text.length > 24) return false;
  for (size_t i = 0; i < text.length; i++) {
    char c = text.ptr[i];
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      digit = true;
      if (point)
        value += (c - '0') * (place /= 10);
      else
        value = value * 10 + (c - '0');
    } else {
      return false;
    }
  }
  *cost = value;
  return digit && value > 0;
}

static double cost_of(abi_http_filter envoy, const struct titrate_sources* sources) {
  for (size_t i = 0; i < sources->count; i++) {
    const struct titrate_source* s = &sources->list[i];
    abi_bytes value;
    double cost;
    if (s->kind == TITRATE_LITERAL) return s->number;
    if (header(envoy, s->text, &value) && parse_cost(value, &cost)) return cost;
  }
  return 1;
}

// Overrides alive in this process: without any, no request needs to look.
static atomic_long overrides;

void titrate_overrides(int change) { atomic_fetch_add(&overrides, change); }

static const struct titrate_rules* override_of(abi_http_filter envoy) {
  if (atomic_load_explicit(&overrides, memory_order_relaxed) == 0) return NULL;
  return ENVOY(get_most_specific_route_config)(envoy);
}

static const struct titrate_sources* pick(const struct titrate_sources* over,
                                          const struct titrate_sources* base) {
  return over->count > 0 ? over : base;
}

bool titrate_identify(abi_http_filter envoy, const struct titrate_rules* base,
                      struct titrate_question* q) {
  const struct titrate_rules* over = override_of(envoy);
  if (over == NULL) over = base;
  int enabled = over->enabled != TITRATE_UNSET ? over->enabled : base->enabled;
  if (enabled == TITRATE_OFF) return false;
  q->tenant = text_of(envoy, pick(&over->tenant, &base->tenant));
  q->client = text_of(envoy, pick(&over->client, &base->client));
  q->pool = text_of(envoy, pick(&over->pool, &base->pool));
  q->cost = cost_of(envoy, pick(&over->cost, &base->cost));
  q->ticket = q->handle = 0;
  q->verdict = TITRATE_ADMIT;
  q->mark = 0;
  return true;
}
