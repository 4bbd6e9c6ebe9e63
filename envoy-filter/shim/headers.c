// The request's header lines.
//
// Asking Envoy for one header by its name takes 1900 instructions: it makes a
// key of the name, and walks its lists with it. Asking for all of them takes some
// 25 for each, and a name is then found by comparing lengths first. So they are
// fetched once, when a rule asks for the first, for the time of one identify.

#include <string.h>

#include "headers.h"

// Of the request that this thread is at. A pointer and not the lines: a module
// with Go in it must fit its thread-local data into what the loader has spare.
static _Thread_local struct titrate_lines* request;

void titrate_lines_begin(struct titrate_lines* lines) {
  lines->known = false;
  request = lines;
}

static void fetch(abi_http_filter envoy) {
  size_t count = ENVOY(http_get_headers_size)(envoy, ABI_REQUEST_HEADER);
  request->known = true;
  request->count = 0;
  if (count <= TITRATE_MOST_LINES &&
      ENVOY(http_get_headers)(envoy, ABI_REQUEST_HEADER, request->line))
    request->count = count;
}

bool titrate_line(abi_http_filter envoy, abi_bytes name, size_t index, size_t* count,
                  abi_bytes* value) {
  if (!request->known) fetch(envoy);
  if (request->count == 0)
    return ENVOY(http_get_header)(envoy, ABI_REQUEST_HEADER, name, value, index, count);
  size_t found = 0;
  for (size_t i = 0; i < request->count; i++) {
    const abi_header* line = &request->line[i];
    if (line->key_length != name.length || memcmp(line->key, name.ptr, name.length) != 0) continue;
    if (found++ != index) continue;
    *value = (abi_bytes){line->value, line->value_length};
    if (count == NULL) return true;
  }
  if (count != NULL) *count = found;
  return found > index;
}
