// The request's header lines, fetched from Envoy once per identify.
#pragma once

#include "shim.h"

// A request with more lines is asked for each by name.
enum { TITRATE_MOST_LINES = 64 };

struct titrate_lines {
  bool known;
  size_t count; // 0: to be asked for by name
  abi_header line[TITRATE_MOST_LINES];
};

// Begins with a request; lines is room for it, until the next begin of this
// thread.
void titrate_lines_begin(struct titrate_lines* lines);

// Finds the line of a header with the given index among those of its name, which
// is in lower case, and counts them, unless count is NULL. False if there is no
// such line. The value is Envoy's, for the hook's duration.
bool titrate_line(abi_http_filter envoy, abi_bytes name, size_t index, size_t* count,
                  abi_bytes* value);
