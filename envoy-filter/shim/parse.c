#define _GNU_SOURCE // memmem
#include "parse.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

// Returns text up to the first byte c; *rest is what follows that byte. Without such a
// byte it returns all of text, and *rest is empty with a NULL pointer.
static abi_bytes cut(abi_bytes text, char c, abi_bytes* rest) {
  const char* at = text.length > 0 ? memchr(text.ptr, c, text.length) : NULL;
  if (at == NULL) {
    *rest = (abi_bytes){NULL, 0};
    return text;
  }
  size_t length = (size_t)(at - text.ptr);
  *rest = (abi_bytes){at + 1, text.length - length - 1};
  return (abi_bytes){text.ptr, length};
}

static abi_bytes trim(abi_bytes t) {
  while (t.length > 0 && (t.ptr[0] == ' ' || t.ptr[0] == '\t')) t.ptr++, t.length--;
  while (t.length > 0 && (t.ptr[t.length - 1] == ' ' || t.ptr[t.length - 1] == '\t')) t.length--;
  return t;
}

bool titrate_cookie(abi_bytes header, abi_bytes name, abi_bytes* value) {
  while (header.ptr != NULL) {
    abi_bytes after, pair = cut(header, ';', &header);
    if (!abi_equal(trim(cut(pair, '=', &after)), name) || after.ptr == NULL) continue;
    after = trim(after);
    if (after.length >= 2 && after.ptr[0] == '"' && after.ptr[after.length - 1] == '"')
      after.ptr++, after.length -= 2;
    *value = after;
    return true;
  }
  return false;
}

// --- digests ---

// FNV-1a. A hash that resists attacks is not needed: a client that wants the digest of
// another one could as well send that client's value.
struct digest {
  uint64_t hash;
};

enum { DIGEST_LENGTH = 5 + 16 };

static void digest_add(struct digest* d, unsigned char c) {
  d->hash = (d->hash ^ c) * 0x100000001b3u;
}

static abi_bytes digest_text(const struct digest* d, char* room) {
  static const char hex[] = "0123456789abcdef";
  memcpy(room, "long:", 5);
  uint64_t h = d->hash;
  h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
  h ^= h >> 32;
  for (int i = 0; i < 16; i++) room[5 + i] = hex[h >> (60 - 4 * i) & 15];
  return (abi_bytes){room, DIGEST_LENGTH};
}

static const struct digest DIGEST = {0xcbf29ce484222325u};

static abi_bytes digest_of(abi_bytes value, char* room) {
  struct digest d = DIGEST;
  for (size_t i = 0; i < value.length; i++) digest_add(&d, (unsigned char)value.ptr[i]);
  return digest_text(&d, room);
}

abi_bytes titrate_bounded(abi_bytes value, char* room) {
  return value.length <= TITRATE_LONGEST ? value : digest_of(value, room);
}

// --- names ---

// The words that prefixes begin with, up to a dot or their colon: "plain" and those of
// package settings (parsetest compares them).
static const abi_bytes WORDS[] = {
    ABI_TEXT("header"),       ABI_TEXT("cookie"), ABI_TEXT("query"),          ABI_TEXT("metadata"),
    ABI_TEXT("filter_state"), ABI_TEXT("mtls"),   ABI_TEXT("source_address"), ABI_TEXT("route"),
    ABI_TEXT("virtual_host"), ABI_TEXT("cluster"), ABI_TEXT("literal"),       ABI_TEXT("plain"),
};

static bool has_prefix(abi_bytes value) {
  abi_bytes rest, more, word = cut(cut(value, ':', &rest), '.', &more);
  if (rest.ptr == NULL) return false;
  for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
    if (abi_equal(word, WORDS[i])) return true;
  return false;
}

abi_bytes titrate_name_of(abi_bytes prefix, abi_bytes value, char* room) {
  char digest[DIGEST_LENGTH];
  if (prefix.length == 0) {
    if (!has_prefix(value)) return titrate_bounded(value, room);
    prefix = ABI_TEXT("plain:");
  }
  if (prefix.length + value.length > TITRATE_LONGEST) value = digest_of(value, digest);
  memmove(room + prefix.length, value.ptr, value.length);
  memcpy(room, prefix.ptr, prefix.length);
  return (abi_bytes){room, prefix.length + value.length};
}

// --- the query ---

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Removes the next byte from text, which must not be empty, and returns it decoded.
static char decode(abi_bytes* text) {
  const char* p = text->ptr;
  size_t used = 1;
  char c = p[0] == '+' ? ' ' : p[0];
  if (p[0] == '%' && text->length >= 3) {
    int high = hex_digit(p[1]), low = hex_digit(p[2]);
    if (high >= 0 && low >= 0) c = (char)(high << 4 | low), used = 3;
  }
  text->ptr += used;
  text->length -= used;
  return c;
}

static bool decodes_to(abi_bytes text, abi_bytes want) {
  size_t i = 0;
  for (; text.length > 0; i++)
    if (i == want.length || decode(&text) != want.ptr[i]) return false;
  return i == want.length;
}

static abi_bytes decoded(abi_bytes text, char* room) {
  if (text.length == 0 ||
      (memchr(text.ptr, '%', text.length) == NULL && memchr(text.ptr, '+', text.length) == NULL))
    return titrate_bounded(text, room);
  struct digest d = DIGEST;
  size_t n = 0;
  for (; text.length > 0; n++) {
    char c = decode(&text);
    digest_add(&d, (unsigned char)c);
    if (n < TITRATE_LONGEST) room[n] = c;
  }
  return n <= TITRATE_LONGEST ? (abi_bytes){room, n} : digest_text(&d, room);
}

bool titrate_query(abi_bytes path, abi_bytes name, char* room, abi_bytes* value) {
  abi_bytes query, fragment;
  cut(cut(path, '#', &fragment), '?', &query);
  while (query.ptr != NULL) {
    abi_bytes after, pair = cut(query, '&', &query);
    if (!decodes_to(cut(pair, '=', &after), name)) continue;
    *value = decoded(after, room);
    return true;
  }
  return false;
}

// --- addresses ---

// Returns the address without brackets, port and zone.
static abi_bytes bare(abi_bytes t) {
  abi_bytes rest, host;
  t = trim(t);
  if (t.length > 0 && t.ptr[0] == '[') {
    host = cut((abi_bytes){t.ptr + 1, t.length - 1}, ']', &rest);
  } else {
    abi_bytes more;
    host = cut(t, ':', &rest);
    cut(rest, ':', &more);
    if (more.ptr != NULL) host = t; // two colons: IPv6 without a port
  }
  return cut(host, '%', &rest);
}

static void mask(unsigned char* bytes, int size, int bits) {
  for (int i = 0; i < size; i++, bits -= 8)
    if (bits < 8) bytes[i] &= bits <= 0 ? 0 : (unsigned char)(0xff << (8 - bits));
}

static bool write_address(int family, unsigned char* bytes, int all, int prefix, char* room,
                          abi_bytes* value) {
  mask(bytes, all / 8, prefix);
  if (inet_ntop(family, bytes, room, INET6_ADDRSTRLEN) == NULL) return false;
  size_t n = strlen(room);
  if (prefix < all) n += (size_t)snprintf(room + n, 8, "/%d", prefix);
  *value = (abi_bytes){room, n};
  return true;
}

bool titrate_address(abi_bytes text, int v4, int v6, char* room, abi_bytes* value) {
  static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
  char host[INET6_ADDRSTRLEN + 1];
  unsigned char bytes[16];
  abi_bytes t = bare(text);
  if (t.length == 0 || t.length >= sizeof host || memchr(t.ptr, 0, t.length) != NULL) return false;
  memcpy(host, t.ptr, t.length);
  host[t.length] = 0;
  if (inet_pton(AF_INET, host, bytes) == 1)
    return write_address(AF_INET, bytes, 32, v4, room, value);
  if (inet_pton(AF_INET6, host, bytes) != 1) return false;
  if (memcmp(bytes, mapped, sizeof mapped) == 0)
    return write_address(AF_INET, bytes + 12, 32, v4, room, value);
  return write_address(AF_INET6, bytes, 128, v6, room, value);
}

bool titrate_forwarded(abi_bytes header, int* hops, abi_bytes* entry) {
  size_t end = header.length;
  for (size_t i = header.length + 1; i-- > 0;) {
    if (i > 0 && header.ptr[i - 1] != ',') continue;
    *entry = trim((abi_bytes){header.ptr + i, end - i});
    if (entry->length > 0 && --*hops == 0) return true;
    if (i > 0) end = i - 1;
  }
  return false;
}

// --- numbers and matches ---

bool titrate_cost(abi_bytes text, double* cost) {
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

bool titrate_compare(int how, abi_bytes text, abi_bytes want) {
  switch (how) {
  case TITRATE_PRESENT:
    return true;
  case TITRATE_EXACT:
    return abi_equal(text, want);
  case TITRATE_CONTAINS:
    return want.length == 0 ||
           (text.length > 0 && memmem(text.ptr, text.length, want.ptr, want.length) != NULL);
  }
  if (text.length < want.length) return false;
  size_t from = how == TITRATE_SUFFIX ? text.length - want.length : 0;
  return abi_equal((abi_bytes){text.ptr + from, want.length}, want);
}

abi_bytes titrate_path_only(abi_bytes path) {
  abi_bytes rest;
  return cut(cut(path, '#', &rest), '?', &rest);
}
