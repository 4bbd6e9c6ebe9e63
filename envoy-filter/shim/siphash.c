#include "siphash.h"

// The state v0 … v3 of the paper.
struct state {
  uint64_t v[4];
};

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void rounds(struct state* s, int n) {
  uint64_t a = s->v[0], b = s->v[1], c = s->v[2], d = s->v[3];
  for (int i = 0; i < n; i++) {
    a += b, b = rotate(b, 13) ^ a, a = rotate(a, 32);
    c += d, d = rotate(d, 16) ^ c;
    a += d, d = rotate(d, 21) ^ a;
    c += b, b = rotate(b, 17) ^ c, c = rotate(c, 32);
  }
  *s = (struct state){{a, b, c, d}};
}

static void absorb(struct state* s, uint64_t word) {
  s->v[3] ^= word;
  rounds(s, 2);
  s->v[0] ^= word;
}

// Reads at most 8 bytes, the first one lowest.
static uint64_t little_endian(const char* from, size_t n) {
  uint64_t word = 0;
  for (size_t i = 0; i < n; i++) word |= (uint64_t)(uint8_t)from[i] << 8 * i;
  return word;
}

static uint64_t siphash(const uint64_t k[2], abi_bytes text) {
  struct state s = {{k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d,
                     k[0] ^ 0x6c7967656e657261, k[1] ^ 0x7465646279746573}};
  size_t at = 0;
  for (; at + 8 <= text.length; at += 8) absorb(&s, little_endian(text.ptr + at, 8));
  absorb(&s, (uint64_t)text.length << 56 | little_endian(text.ptr + at, text.length - at));
  s.v[2] ^= 0xff;
  rounds(&s, 4);
  return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

void titrate_siphash(const struct titrate_key* key, abi_bytes text, char* digits) {
  uint64_t hash = siphash(key->k, text);
  for (int i = 0; i < 16; i++) digits[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
}
