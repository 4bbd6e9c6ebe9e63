// The request's header lines, fetched from Envoy once.
#pragma once

#include "abi.h"

// Of a request with more lines, Envoy is asked for each by its name.
enum { TITRATE_MOST_HEADERS = 64 };

struct titrate_headers {
  bool fetched;
  size_t count; // 0: ask Envoy for each by its name
  abi_header line[TITRATE_MOST_HEADERS];
};

// Begins with a request. headers is memory for its lines, which titrate_header uses on
// this thread until the next call; it must live as long.
void titrate_headers_begin(struct titrate_headers* headers);

// Finds the line with the given index among those of a header, whose name is in lower
// case. Sets *count to their number, unless count is NULL. Returns false if there is no
// such line. The value is Envoy's, valid during the hook.
bool titrate_header(abi_http_filter envoy, abi_bytes name, size_t index, size_t* count,
                    abi_bytes* value);
