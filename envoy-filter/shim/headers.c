// Asking Envoy for one header by its name takes 1900 instructions: Envoy makes a key of
// the name, and walks its lists with it. Asking for all headers takes some 25 instructions
// for each, and a name is then found by comparing lengths first. So all are fetched when
// a rule needs the first one.

#include "headers.h"

// The lines of this thread's request. Only a pointer is thread-local: a module with Go in
// it must fit its thread-local data into the little that the loader has left.
static _Thread_local struct titrate_headers* request;

void titrate_headers_begin(struct titrate_headers* headers) {
  headers->fetched = false;
  headers->count = 0;
  request = headers;
}

static void fetch(abi_http_filter envoy) {
  size_t count = ENVOY(http_get_headers_size)(envoy, ABI_REQUEST_HEADER);
  request->fetched = true;
  request->count = 0;
  if (count <= TITRATE_MOST_HEADERS &&
      ENVOY(http_get_headers)(envoy, ABI_REQUEST_HEADER, request->line))
    request->count = count;
}

bool titrate_header(abi_http_filter envoy, abi_bytes name, size_t index, size_t* count,
                    abi_bytes* value) {
  if (!request->fetched) fetch(envoy);
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
