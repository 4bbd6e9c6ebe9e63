// Reads the usage of a language model from the body of its answer: numbers at known places in
// JSON, or in the JSON of the events of an event stream. The body comes in chunks, cut anywhere.
// Nothing of it is kept but a key or a number that a chunk has cut in two, so the memory is
// constant. The functions call nothing of Envoy and allocate nothing. They assume nothing of the
// bytes and read none outside the given view. Package parsetest tests them.
#pragma once

#include "abi.h"

enum {
  TITRATE_USAGE_KEYS = 8,      // of a path
  TITRATE_USAGE_PATHS = 16,    // of a format
  TITRATE_USAGE_FIELDS = 8,    // of a format
  TITRATE_USAGE_LONGEST = 128, // bytes of a key; a longer one is none of a path
};

// What became of an answer whose usage was to be read: it was; its encoding cannot be read; the
// answer ended without usage; the stream ended before the answer did.
enum titrate_usage_outcome {
  TITRATE_USAGE_READ = 0, TITRATE_USAGE_ENCODED, TITRATE_USAGE_MISSING, TITRATE_USAGE_CUT,
};

// What a number counts.
enum titrate_usage { TITRATE_USAGE_INPUT = 1, TITRATE_USAGE_OUTPUT, TITRATE_USAGE_TOTAL };

// The way from the outermost value to a number: keys of objects, or indices of arrays in decimal.
// A key without a pointer is any element of an array. Paths of one field are several places of
// one number; the numbers of the fields that count the same add up.
struct titrate_usage_path {
  uint8_t field, counts; // enum titrate_usage
  uint8_t length;
  abi_bytes key[TITRATE_USAGE_KEYS];
};

struct titrate_usage_format {
  size_t count;
  struct titrate_usage_path* path;
};

// Where the reader is in a JSON text. Containers that no path leads into are skipped, so few are
// known.
struct titrate_json {
  uint8_t state;
  uint8_t depth;                             // of the known containers
  bool object[TITRATE_USAGE_KEYS + 1];       // by depth: else it is an array
  uint16_t paths[TITRATE_USAGE_KEYS + 1];    // by depth: the paths into it, as bits
  uint32_t index[TITRATE_USAGE_KEYS + 1];    // by depth: of the present element of an array
  uint16_t value;                            // paths that lead to the next value
  bool key_next, in_key, too_long;
  uint8_t hex;                               // digits of \u that have been read
  uint32_t code, high;                       // that they make; the first half of a surrogate pair
  uint64_t skipped;                          // open containers below the known ones
  uint8_t length;                            // of text
  char text[TITRATE_USAGE_LONGEST];          // of the present key or number
};

struct titrate_usage_reader {
  const struct titrate_usage_format* format;
  bool events;             // the body is an event stream
  uint8_t marked;          // bytes of a byte order mark that have been read; BOM_READ: no more may come
  uint8_t line, matched;   // where in a line; bytes of "data" that have been read
  bool carriage, has_data; // the last byte was a carriage return; the event has data
  uint8_t last, column;    // lines of a last event that the line may be, as bits; its bytes so far
  bool last_event;         // the event is the last one
  bool whole;              // the body has said all: its JSON text or its last event is complete
  uint64_t data_events;    // events with data
  uint32_t seen;           // fields that have a number, as bits
  double field[TITRATE_USAGE_FIELDS];
  struct titrate_json json;
};

// Begins with a body. The format must live as long as the reader.
void titrate_usage_begin(struct titrate_usage_reader* r, const struct titrate_usage_format* format,
                         bool events);

// Reads the next bytes of the body.
void titrate_usage_read(struct titrate_usage_reader* r, abi_bytes chunk);

// Finds what has been counted so far; of several numbers of a field the last counts. A total that
// the body does not say is the sum of input and output. Returns false if nothing was found.
bool titrate_usage_get(const struct titrate_usage_reader* r, int counts, double* tokens);

// Whether the body has said all of its usage, though it may go on: its JSON text is complete, or the
// event by which a language model ends its stream.
bool titrate_usage_whole(const struct titrate_usage_reader* r);

// As titrate_usage_get at the end of a complete body. Of input and output, a number that it does not say is 0 if
// it says the other one.
bool titrate_usage_final(const struct titrate_usage_reader* r, int counts, double* tokens);

// Returns the first of two bytes, or end. It searches in small blocks, so that many of one byte
// before the first of the other cost no more than their number.
static inline const char* titrate_either(const char* at, const char* end, char a, char b) {
  enum { BLOCK = 64 };
  while (at < end) {
    size_t n = end - at < BLOCK ? (size_t)(end - at) : BLOCK;
    const char* first = memchr(at, a, n);
    const char* second = memchr(at, b, first != NULL ? (size_t)(first - at) : n);
    if (second != NULL) return second;
    if (first != NULL) return first;
    at += n;
  }
  return end;
}

// For usage_json.c and usage.c: begins with a JSON text, and reads its next bytes.
void titrate_json_begin(struct titrate_usage_reader* r);
void titrate_json_read(struct titrate_usage_reader* r, const char* at, const char* end);
