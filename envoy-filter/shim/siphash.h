// SipHash-2-4 (Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012): a hash of 64 bits
// under a key of 128, which says whose it is only with the key.
#pragma once

#include "abi.h"

struct titrate_key {
  bool set;
  uint64_t k[2];
};

// Writes the hash of the text as 16 hexadecimal digits.
void titrate_siphash(const struct titrate_key* key, abi_bytes text, char* digits);
