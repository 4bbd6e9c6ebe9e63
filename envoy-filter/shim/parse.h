// Parsers of what clients send: cookies, query strings, lists of addresses, numbers.
// They call nothing of Envoy, allocate nothing and keep no state. They assume nothing
// of the bytes and read none outside the given view. Package parsetest tests them.
#pragma once

#include "abi.h"

// The longest value that is a client's name; a longer one is replaced by its digest.
enum { TITRATE_LONGEST = 1024 };

// Finds the first cookie of that name in a Cookie header (RFC 6265 §4.2.1). The value
// is without the blanks around it and without one pair of quotes. Returns false if
// there is none.
bool titrate_cookie(abi_bytes header, abi_bytes name, abi_bytes* value);

// Finds the first parameter of that name in a path's query. Names and values are
// percent-decoded, + is a space, and a % without two hex digits after it is itself. The
// value is a view of path, or of room if it had to be decoded; a value that decodes to
// more than TITRATE_LONGEST bytes becomes its digest. room has TITRATE_LONGEST bytes.
// Returns false if there is none.
bool titrate_query(abi_bytes path, abi_bytes name, char* room, abi_bytes* value);

// Reads an IP address in the usual notation, perhaps with a port or in brackets, and writes
// it to room (TITRATE_LONGEST bytes). That is "192.0.2.7", or "192.0.2.0/24" and
// "2001:db8::/64" if v4 or v6 is less than all bits. An IPv4 address that is mapped into
// IPv6 becomes one of IPv4; zones are left out. Returns false if text is no address.
bool titrate_address(abi_bytes text, int v4, int v6, char* room, abi_bytes* value);

// Finds the entry of an X-Forwarded-For header that is number *hops from the right; the
// last one is number 1. Empty entries do not count. If the header has fewer entries,
// returns false and subtracts their number from *hops, so that the search can go on in
// the header line before.
bool titrate_forwarded(abi_bytes header, int* hops, abi_bytes* entry);

// Returns the value itself, or a digest of it if it is longer than TITRATE_LONGEST:
// "long:" and 16 hex digits, written to room. A value has the same digest in every
// process.
abi_bytes titrate_bounded(abi_bytes value, char* room);

// Returns the name of the client with that value: the prefix and the value. Prefixes
// come from package settings: each ends in the only colon that it has. With an empty
// prefix a value is its own name; but a value that looks like a name with a prefix gets
// the prefix "plain:". So prefix and value can be read from a name. If the name would be
// longer than TITRATE_LONGEST bytes, the value is replaced by its digest. room has
// TITRATE_LONGEST bytes; value may be at its beginning.
abi_bytes titrate_name_of(abi_bytes prefix, abi_bytes value, char* room);

// Reads a decimal number above 0, of at most 24 bytes, in any locale.
bool titrate_cost(abi_bytes text, double* cost);

enum titrate_how {
  TITRATE_PRESENT = 0,
  TITRATE_EXACT = 1,
  TITRATE_PREFIX = 2,
  TITRATE_SUFFIX = 3,
  TITRATE_CONTAINS = 4,
};

// Returns whether text is, begins with, ends with or contains want.
bool titrate_compare(int how, abi_bytes text, abi_bytes want);

// Returns the path before its query and fragment.
abi_bytes titrate_path_only(abi_bytes path);
