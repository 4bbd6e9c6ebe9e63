// Event streams, line by line (WHATWG HTML, 9.2.6), and the sums of what was found.

#include "usage.h"

enum { FIELD, AFTER_NAME, DATA, OTHER };

enum { BOM_READ = 3 };

// The lines by which language models end a stream.
static const char* const last_lines[] = {
    "data: [DONE]", "data:[DONE]", "event: message_stop", "event:message_stop",
    "event: response.completed", "event: response.incomplete", "event: response.failed",
};
enum { LAST_LINES = sizeof last_lines / sizeof *last_lines, ALL_LAST_LINES = (1 << LAST_LINES) - 1 };

void titrate_usage_begin(struct titrate_usage_reader* r, const struct titrate_usage_format* format,
                         bool events) {
  memset(r, 0, sizeof *r);
  r->format = format;
  r->events = events;
  r->last = ALL_LAST_LINES;
  titrate_json_begin(r);
}

// Passes over a byte order mark, with which a body may begin.
static const char* pass_mark(struct titrate_usage_reader* r, const char* at, const char* end) {
  static const char mark[BOM_READ] = {'\xef', '\xbb', '\xbf'};
  while (at < end && r->marked < BOM_READ) {
    if (*at != mark[r->marked]) {
      if (r->marked > 0) { // it was another character
        r->line = OTHER;
        r->last = 0;
      }
      r->marked = BOM_READ;
      break;
    }
    r->marked++;
    at++;
  }
  return at;
}

// --- event streams ---

// Notes bytes of a line, which may be one by which a stream ends.
static void match_last(struct titrate_usage_reader* r, const char* at, const char* end) {
  for (; at < end && r->last != 0; at++, r->column++)
    for (int i = 0; i < LAST_LINES; i++)
      if ((r->last >> i & 1) != 0 && (last_lines[i][r->column] != *at || *at == 0))
        r->last &= (uint8_t) ~(1u << i);
}

// Whether the line is one of them.
static bool is_last(const struct titrate_usage_reader* r) {
  for (int i = 0; i < LAST_LINES; i++)
    if ((r->last >> i & 1) != 0 && last_lines[i][r->column] == 0) return true;
  return false;
}

// An empty line ends an event.
static void end_line(struct titrate_usage_reader* r, bool empty) {
  if (!empty) {
    if (r->line == DATA || r->line == AFTER_NAME) titrate_json_read(r, "\n", "\n" + 1);
    r->last_event = r->last_event || is_last(r);
  } else {
    if (r->has_data) r->data_events++;
    r->has_data = false;
    r->whole = r->whole || r->last_event;
    titrate_json_begin(r);
  }
  r->line = FIELD;
  r->matched = r->column = 0;
  r->last = ALL_LAST_LINES;
}

// Takes a byte of a line before its data.
static void read_name(struct titrate_usage_reader* r, char c) {
  static const char name[] = "data";
  if (r->line == AFTER_NAME) {
    r->line = DATA;
    if (c == ' ') return;
    titrate_json_read(r, &c, &c + 1);
    return;
  }
  if (r->matched < 4 && c == name[r->matched]) {
    r->matched++;
  } else if (r->matched == 4 && c == ':') {
    r->line = AFTER_NAME;
    r->has_data = true;
  } else {
    r->line = OTHER;
  }
}

static bool ends_line(char c) { return c == '\n' || c == '\r'; }

// Reads up to the end of a line, or of the chunk.
static const char* read_line(struct titrate_usage_reader* r, const char* at, const char* end) {
  const char* from = at;
  if (r->line == FIELD || r->line == AFTER_NAME) {
    if (!ends_line(*at)) {
      match_last(r, at, at + 1);
      read_name(r, *at++);
    }
    return at;
  }
  at = titrate_either(at, end, '\n', '\r');
  match_last(r, from, at);
  if (r->line == DATA) titrate_json_read(r, from, at);
  return at;
}

static void read_events(struct titrate_usage_reader* r, const char* at, const char* end) {
  while (at < end) {
    if (!ends_line(*at)) {
      r->carriage = false;
      at = read_line(r, at, end);
      continue;
    }
    bool second = r->carriage && *at == '\n'; // the first byte has ended the line
    if (!second) end_line(r, r->line == FIELD && r->matched == 0);
    r->carriage = *at++ == '\r';
  }
}

void titrate_usage_read(struct titrate_usage_reader* r, abi_bytes chunk) {
  if (chunk.length == 0) return;
  const char* end = chunk.ptr + chunk.length;
  const char* at = pass_mark(r, chunk.ptr, end);
  if (r->events)
    read_events(r, at, end);
  else
    titrate_json_read(r, at, end);
}

bool titrate_usage_whole(const struct titrate_usage_reader* r) { return r->whole; }

// --- sums ---

bool titrate_usage_get(const struct titrate_usage_reader* r, int counts, double* tokens) {
  double sum = 0, input, output;
  uint32_t added = 0;
  for (size_t i = 0; i < r->format->count; i++) {
    const struct titrate_usage_path* p = &r->format->path[i];
    uint32_t bit = 1u << p->field;
    if (p->counts != counts || (r->seen & ~added & bit) == 0) continue;
    added |= bit;
    sum += r->field[p->field];
  }
  *tokens = sum;
  if (added != 0 || counts != TITRATE_USAGE_TOTAL) return added != 0;
  bool has_input = titrate_usage_get(r, TITRATE_USAGE_INPUT, &input);
  bool has_output = titrate_usage_get(r, TITRATE_USAGE_OUTPUT, &output);
  *tokens = (has_input ? input : 0) + (has_output ? output : 0);
  return has_input || has_output;
}

static bool has_path(const struct titrate_usage_format* f, int counts) {
  for (size_t i = 0; i < f->count; i++)
    if (f->path[i].counts == counts) return true;
  return false;
}

bool titrate_usage_final(const struct titrate_usage_reader* r, int counts, double* tokens) {
  double other;
  if (titrate_usage_get(r, counts, tokens)) return true;
  if (counts == TITRATE_USAGE_TOTAL || !has_path(r->format, counts)) return false;
  return titrate_usage_get(
      r, counts == TITRATE_USAGE_INPUT ? TITRATE_USAGE_OUTPUT : TITRATE_USAGE_INPUT, &other);
}
