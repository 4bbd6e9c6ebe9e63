// Reads what clients write: cookies, query strings, lists of addresses, numbers.
// Pure: no call of Envoy, no allocation, no state. Nothing is assumed of the
// bytes, and none outside the given view is read. package parse tests it.
#pragma once

#include "abi.h"

// Longest value by which a client is known; a longer one is known by its digest.
enum { TITRATE_LONGEST = 1024 };

// The first cookie of that name in a Cookie header (RFC 6265 §4.2.1), without the
// blanks around it and one pair of quotes. False: it has none.
bool titrate_cookie(abi_bytes header, abi_bytes name, abi_bytes* value);

// The first parameter of that name in a path's query. Names and values are
// compared and returned percent-decoded, + is a space, and a % that two hex
// digits do not follow is itself. The value is a view of path, or of room when
// it had to be decoded; one that decodes to more than TITRATE_LONGEST bytes is
// its digest. room has TITRATE_LONGEST bytes. False: there is none.
bool titrate_query(abi_bytes path, abi_bytes name, char* room, abi_bytes* value);

// Writes an IP address, of which text is the usual notation, perhaps with a port
// or in brackets, to room (TITRATE_LONGEST bytes): "192.0.2.7", or with fewer than
// all bits of prefix "192.0.2.0/24", "2001:db8::/64". An IPv4 address that is
// mapped into IPv6 is one of IPv4; zones are left out. False: it is none.
bool titrate_address(abi_bytes text, int v4, int v6, char* room, abi_bytes* value);

// The entry of an X-Forwarded-For header that *hops entries from the right, the
// last being 1. Empty entries do not count. False: it has fewer; *hops is then
// less by those that it has, so that the search goes on in the header before.
bool titrate_forwarded(abi_bytes header, int* hops, abi_bytes* entry);

// The value itself, or if it is longer than TITRATE_LONGEST "long:" and 16 hex
// digits, in room, which are the same for the same value in every process.
abi_bytes titrate_bounded(abi_bytes value, char* room);

// The name by which a client's value counts: prefix and value. Prefixes are those of
// package settings: each ends in the only colon that it has. An empty prefix is that
// of plain values: each is its own name, but one that looks like a name with a prefix
// gets the prefix "plain:". So a name tells prefix and value. A value that is too long
// for TITRATE_LONGEST bytes of name is its digest; room has as many, and value may lie
// at its beginning.
abi_bytes titrate_name_of(abi_bytes prefix, abi_bytes value, char* room);

// A decimal number above 0, of at most 24 bytes, whatever the locale.
bool titrate_cost(abi_bytes text, double* cost);

enum titrate_how {
  TITRATE_PRESENT = 0,
  TITRATE_EXACT = 1,
  TITRATE_PREFIX = 2,
  TITRATE_SUFFIX = 3,
  TITRATE_CONTAINS = 4,
};

// Whether text is, begins with, ends with or contains want.
bool titrate_compare(int how, abi_bytes text, abi_bytes want);

// The path before its query and fragment.
abi_bytes titrate_path_only(abi_bytes path);
