// JSON (RFC 8259), byte by byte. The reader follows only the containers that a path leads into,
// and counts the brackets of all others. It does not check that a text is valid: of a text that
// is not, it may find numbers or miss them. Of a key that an object has twice the last one counts.

#include "usage.h"

enum { BETWEEN, STRING, ESCAPE, HEX, NUMBER, SKIP, SKIP_STRING, SKIP_ESCAPE, BROKEN };

void titrate_json_begin(struct titrate_usage_reader* r) {
  struct titrate_json* j = &r->json;
  j->state = BETWEEN;
  j->depth = 0;
  j->key_next = false;
  j->value = (uint16_t)((1u << r->format->count) - 1);
}

// --- paths ---

static bool is_index(abi_bytes key, uint32_t index) {
  uint64_t n = 0;
  if (key.ptr == NULL) return true;
  if (key.length == 0 || key.length > 9 || (key.length > 1 && key.ptr[0] == '0')) return false;
  for (size_t i = 0; i < key.length; i++) {
    if (key.ptr[i] < '0' || key.ptr[i] > '9') return false;
    n = n * 10 + (uint64_t)(key.ptr[i] - '0');
  }
  return n == index;
}

// Sets the paths that lead to the value of the present key or element.
static void follow(struct titrate_usage_reader* r) {
  struct titrate_json* j = &r->json;
  uint16_t found = 0;
  for (uint16_t left = j->paths[j->depth]; left != 0; left &= (uint16_t)(left - 1)) {
    int i = __builtin_ctz(left);
    const struct titrate_usage_path* p = &r->format->path[i];
    if (p->length < j->depth) continue;
    abi_bytes key = p->key[j->depth - 1];
    bool same = j->object[j->depth] ? key.ptr != NULL && !j->too_long &&
                                          abi_equal(key, (abi_bytes){j->text, j->length})
                                    : is_index(key, j->index[j->depth]);
    if (same) found |= (uint16_t)(1u << i);
  }
  j->value = found;
}

// The paths to the next value that go on below it.
static uint16_t deeper(const struct titrate_usage_reader* r) {
  uint16_t found = 0;
  for (uint16_t left = r->json.value; left != 0; left &= (uint16_t)(left - 1)) {
    int i = __builtin_ctz(left);
    if (r->format->path[i].length > r->json.depth) found |= (uint16_t)(1u << i);
  }
  return found;
}

static void open(struct titrate_usage_reader* r, bool object) {
  struct titrate_json* j = &r->json;
  uint16_t into = j->depth < TITRATE_USAGE_KEYS ? deeper(r) : 0;
  if (into == 0 || j->key_next) {
    j->skipped = 1;
    j->state = SKIP;
    return;
  }
  if (j->depth == 0 && !r->events) r->whole = false;
  j->depth++;
  j->object[j->depth] = j->key_next = object;
  j->paths[j->depth] = into;
  j->index[j->depth] = 0;
  j->value = 0;
  if (!object) follow(r);
}

static void close(struct titrate_usage_reader* r, bool object) {
  struct titrate_json* j = &r->json;
  if (j->depth == 0 || j->object[j->depth] != object) {
    j->state = BROKEN;
    return;
  }
  j->depth--;
  j->key_next = false;
  j->value = 0;
  if (j->depth > 0) return;
  if (!r->events) r->whole = true;
  titrate_json_begin(r); // another text may follow
}

// --- numbers ---

// Reads a JSON number that is at least 0. Returns false for all others.
static bool number(const char* at, const char* end, double* value) {
  double n = 0;
  int scale = 0, exponent = 0, digits = 0;
  for (; at < end && *at >= '0' && *at <= '9'; at++, digits++) n = n * 10 + (*at - '0');
  if (digits == 0) return false;
  if (at < end && *at == '.')
    for (at++; at < end && *at >= '0' && *at <= '9'; at++, scale--) n = n * 10 + (*at - '0');
  if (at < end && (*at | 0x20) == 'e') {
    bool minus = ++at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    for (; at < end && *at >= '0' && *at <= '9' && exponent < 1000; at++)
      exponent = exponent * 10 + (*at - '0');
    if (minus) exponent = -exponent;
  }
  if (at != end) return false;
  for (scale += exponent; scale > 0 && n < 1e300; scale--) n *= 10;
  for (; scale < 0 && n > 0; scale++) n /= 10;
  *value = n;
  return n < 1e300;
}

// The number is complete: notes it for the paths that end here.
static void end_number(struct titrate_usage_reader* r) {
  struct titrate_json* j = &r->json;
  double n;
  j->state = BETWEEN;
  if (j->too_long || !number(j->text, j->text + j->length, &n)) return;
  for (uint16_t left = j->value; left != 0; left &= (uint16_t)(left - 1)) {
    const struct titrate_usage_path* p = &r->format->path[__builtin_ctz(left)];
    if (p->length != j->depth) continue;
    r->field[p->field] = n;
    r->seen |= 1u << p->field;
  }
}

static void keep(struct titrate_json* j, char c) {
  if (j->length == TITRATE_USAGE_LONGEST)
    j->too_long = true;
  else
    j->text[j->length++] = c;
}

static void begin_text(struct titrate_json* j, int state) {
  j->state = (uint8_t)state;
  j->length = 0;
  j->too_long = false;
  j->high = 0;
}

// --- strings ---

// Appends a character to the key, in UTF-8. A half of a surrogate pair alone is no character: the
// key is then none of a path.
static void keep_code(struct titrate_json* j, uint32_t code) {
  if (code >= 0xd800 && code < 0xdc00) {
    if (j->high != 0) j->too_long = true;
    j->high = code;
    return;
  }
  bool low = code >= 0xdc00 && code < 0xe000;
  if (low != (j->high != 0)) j->too_long = true;
  if (low && j->high != 0) code = 0x10000 + ((j->high - 0xd800) << 10) + (code - 0xdc00);
  j->high = 0;
  if (code < 0x80) {
    keep(j, (char)code);
    return;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  keep(j, (char)((0xf00u >> (more + 1) & 0xff) | code >> 6 * more));
  while (more-- > 0) keep(j, (char)(0x80 | (code >> 6 * more & 0x3f)));
}

static void keep_byte(struct titrate_json* j, char c) {
  if (j->high != 0) j->too_long = true;
  j->high = 0;
  keep(j, c);
}

static void escaped(struct titrate_json* j, char c) {
  static const char names[] = "bfnrt\"\\/", values[] = "\b\f\n\r\t\"\\/";
  j->state = STRING;
  if (c == 'u') {
    j->state = HEX;
    j->hex = 0;
    j->code = 0;
    return;
  }
  const char* at = c != 0 ? strchr(names, c) : NULL;
  if (at != NULL)
    keep_byte(j, values[at - names]);
  else
    j->too_long = true;
}

static void hex_digit(struct titrate_json* j, char c) {
  char lower = (char)(c | 0x20);
  int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  if (digit < 0) j->too_long = true;
  j->code = j->code << 4 | (uint32_t)(digit & 15);
  if (++j->hex < 4) return;
  j->state = STRING;
  keep_code(j, j->code);
}

static void end_key(struct titrate_usage_reader* r) {
  struct titrate_json* j = &r->json;
  j->state = BETWEEN;
  if (j->high != 0) j->too_long = true;
  follow(r);
}

// Reads what of a key is in the chunk.
static const char* read_key(struct titrate_usage_reader* r, const char* at, const char* end) {
  struct titrate_json* j = &r->json;
  for (; at < end; at++) {
    if (j->state == ESCAPE)
      escaped(j, *at);
    else if (j->state == HEX)
      hex_digit(j, *at);
    else if (*at == '\\')
      j->state = ESCAPE;
    else if (*at != '"')
      keep_byte(j, *at);
    else {
      end_key(r);
      return at + 1;
    }
  }
  return end;
}

// Passes over a string; then is the state after it.
static const char* pass_string(struct titrate_json* j, const char* at, const char* end, int then) {
  if (j->state == SKIP_ESCAPE || j->state == ESCAPE) {
    j->state = then == SKIP ? SKIP_STRING : STRING;
    return at + 1;
  }
  at = titrate_either(at, end, '"', '\\');
  if (at == end) return end;
  if (*at == '"')
    j->state = (uint8_t)then;
  else
    j->state = then == SKIP ? SKIP_ESCAPE : ESCAPE;
  return at + 1;
}

// --- texts ---

// Passes over containers that no path leads into.
static const char* skip(struct titrate_json* j, const char* at, const char* end) {
  for (; at < end; at++) {
    char c = *at;
    if (c == '"') {
      j->state = SKIP_STRING;
      return at + 1;
    }
    char bracket = (char)(c | 0x20); // [ { and ] } differ by this bit
    if (bracket == '{') j->skipped++;
    if (bracket == '}' && --j->skipped == 0) {
      j->state = BETWEEN;
      return at + 1;
    }
  }
  return end;
}

static void comma(struct titrate_usage_reader* r) {
  struct titrate_json* j = &r->json;
  if (j->depth == 0) return;
  j->value = 0;
  if (j->object[j->depth]) {
    j->key_next = true;
    return;
  }
  j->index[j->depth]++;
  follow(r);
}

// Takes a byte outside of strings and numbers. Other bytes are white space, colons, and literals.
static void between(struct titrate_usage_reader* r, char c) {
  struct titrate_json* j = &r->json;
  switch (c) {
  case '{':
  case '[':
    open(r, c == '{');
    return;
  case '}':
  case ']':
    close(r, c == '}');
    return;
  case ',':
    comma(r);
    return;
  case '"':
    begin_text(j, STRING);
    j->in_key = j->key_next;
    j->key_next = false;
    return;
  }
  if (c >= '0' && c <= '9' && j->value != 0) {
    begin_text(j, NUMBER);
    keep(j, c);
  } else if (c == '-') {
    j->value = 0; // no usage
  }
}

static bool in_number(char c) {
  return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || (c | 0x20) == 'e';
}

void titrate_json_read(struct titrate_usage_reader* r, const char* at, const char* end) {
  struct titrate_json* j = &r->json;
  while (at < end) {
    switch (j->state) {
    case SKIP:
      at = skip(j, at, end);
      break;
    case SKIP_STRING:
    case SKIP_ESCAPE:
      at = pass_string(j, at, end, SKIP);
      break;
    case STRING:
    case ESCAPE:
    case HEX:
      at = j->in_key ? read_key(r, at, end) : pass_string(j, at, end, BETWEEN);
      break;
    case NUMBER:
      if (in_number(*at))
        keep(j, *at++);
      else
        end_number(r);
      break;
    case BROKEN:
      return;
    default:
      between(r, *at++);
    }
  }
}
