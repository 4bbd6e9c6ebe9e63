package limiter

import "math/bits"

// Key hashes are the names of flows and limit keys on the wire, so they must be
// the same in every process: they depend on Config.Seed and the names only, are
// defined byte by byte (no word size, no endianness of the machine), and change
// only with the gossip's version.
//
// The construction is a chain: each part is absorbed eight bytes at a time into
// a 64-bit state by a folded 64×64→128 multiplication (as in wyhash), closed by
// its length, so that ("ab","c") and ("a","bc") differ; the result goes through
// the finaliser of splitmix64. The seed is secret to whoever can invent client
// names, which is what keeps them from choosing collisions.

const (
	mulA = 0xa0761d6478bd642f
	mulB = 0xe7037ed1a0b428db

	domainFlow     = 0x666c6f77 // "flow"
	domainLimit    = 0x6c696d74 // "limt": keys of clients
	domainTenant   = 0x746e6e74 // "tnnt": the one key of a PerTenant limit
	domainOverflow = 0x6f766572 // "over": the key of clients beyond the key budget
)

// FlowKey is the name of a flow in claims and sums.
func FlowKey(seed uint64, tenant, pool string) uint64 {
	return finish(absorb(absorb(start(seed, domainFlow), tenant), pool))
}

// LimitKey is the name of one client's key of a limit in claims and sums.
func LimitKey(seed uint64, tenant, limit, client string) uint64 {
	return clientKey(limitPrefix(seed, tenant, limit), client)
}

// TenantLimitKey is the name of the one key of a PerTenant limit.
func TenantLimitKey(seed uint64, tenant, limit string) uint64 {
	return finish(absorb(absorb(start(seed, domainTenant), tenant), limit))
}

// OverflowKey is the name of the key that a limit's clients share when the key
// table has no room for one of their own.
func OverflowKey(seed uint64, tenant, limit string) uint64 {
	return finish(absorb(absorb(start(seed, domainOverflow), tenant), limit))
}

// limitPrefix is the part of LimitKey that is the same for all clients.
func limitPrefix(seed uint64, tenant, limit string) uint64 {
	return absorb(absorb(start(seed, domainLimit), tenant), limit)
}

// clientKey completes a LimitKey.
func clientKey(prefix uint64, client string) uint64 { return finish(absorb(prefix, client)) }

func start(seed, domain uint64) uint64 { return fold(seed^mulA, domain^mulB) }

// absorb mixes a string and its length into h.
func absorb(h uint64, s string) uint64 {
	n, whole := uint64(len(s)), s
	for len(s) >= 8 {
		h = fold(h^word(s), mulB)
		s = s[8:]
	}
	return fold(h^rest(s, whole)^mulA, n^mulB)
}

// rest is the little-endian number that the last len(s) < 8 bytes of whole are.
func rest(s, whole string) (tail uint64) {
	if len(s) > 0 && len(whole) >= 8 { // read with the bytes before, and shift them out
		return word(whole[len(whole)-8:]) >> (64 - 8*len(s))
	}
	for i := len(s) - 1; i >= 0; i-- {
		tail = tail<<8 | uint64(s[i])
	}
	return tail
}

// word reads eight bytes, little endian.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// fold multiplies and adds the halves of the product back in, keeping the state
// from getting stuck at 0.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo ^ a
}

// finish avalanches, and avoids 0, which marks an empty slot.
func finish(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	if z == 0 {
		return 1
	}
	return z
}
