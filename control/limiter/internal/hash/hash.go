// Package hash makes the names of flows and of limits' keys on the wire. They must be the
// same in every process. They depend on the configuration's seed and on the names alone,
// are defined byte by byte, whatever the machine, and change only together with the
// gossip's version.
//
// Each part is absorbed eight bytes at a time into a 64-bit state by a folded 64×64→128
// multiplication, as in wyhash. It is closed by its length, so that ("ab","c") and
// ("a","bc") differ. The result goes through the finaliser of splitmix64. A sender that
// invents the names of clients does not know the seed, so it cannot choose names that
// collide: state and multiplier come from the seed. With a known multiplier the sender
// could choose a difference of one word that leads to a certain difference of the state for
// one name in 2^20. The next word would undo it.
package hash

import "math/bits"

// Odd multipliers with about as many bits set as not, those of wyhash.
const (
	MulA = 0xa0761d6478bd642f
	MulB = 0xe7037ed1a0b428db
)

const (
	domainFlow     = 0x666c6f77 // "flow"
	domainLimit    = 0x6c696d74 // "limt": keys of clients
	domainTenant   = 0x746e6e74 // "tnnt": the one key of a PerTenant limit
	domainOverflow = 0x6f766572 // "over": the key of clients beyond the key budget
	domainPlan     = 0x706c616e // "plan": likewise, each of requests of a plan
	domainReset    = 0x72736574 // "rset": a key that has been reset
)

// A State is what has been absorbed, and the multiplier.
type State struct{ h, k uint64 }

// Flow is the name of a flow in claims and sums.
func Flow(seed uint64, tenant, pool string) uint64 { return FlowPrefix(seed, tenant, pool).Sum() }

// FlowPrefix is the part of a hash that is the same for all clients of a flow.
func FlowPrefix(seed uint64, tenant, pool string) State {
	return start(seed, domainFlow).Absorb(tenant).Absorb(pool)
}

// Limit is the name of one client's key of a limit in claims and sums.
func Limit(seed uint64, tenant, limit, client string) uint64 {
	return Client(LimitPrefix(seed, tenant, limit), client)
}

// TenantLimit is the name of the one key of a PerTenant limit.
func TenantLimit(seed uint64, tenant, limit string) uint64 {
	return start(seed, domainTenant).Absorb(tenant).Absorb(limit).Sum()
}

// Overflow is the name of the key that a limit's clients share when the key
// table has no room for their keys.
func Overflow(seed uint64, tenant, limit string) uint64 {
	return start(seed, domainOverflow).Absorb(tenant).Absorb(limit).Sum()
}

// LimitPrefix is the part of Limit that is the same for all clients.
func LimitPrefix(seed uint64, tenant, limit string) State {
	return start(seed, domainLimit).Absorb(tenant).Absorb(limit)
}

// A LimitHash names the keys of a limit, or of the requests of one plan of the limit.
type LimitHash struct {
	Clients          State // the part of a client's key that is the same for all clients
	Tenant, Overflow uint64
}

// OfLimit returns the names of a limit's keys; plan is "" for requests without one.
func OfLimit(seed uint64, tenant, limit, plan string) LimitHash {
	if plan == "" {
		return LimitHash{LimitPrefix(seed, tenant, limit), TenantLimit(seed, tenant, limit),
			Overflow(seed, tenant, limit)}
	}
	s := start(seed, domainPlan).Absorb(tenant).Absorb(limit).Absorb(plan)
	return LimitHash{s.AbsorbNumber(domainLimit), s.AbsorbNumber(domainTenant).Sum(),
		s.AbsorbNumber(domainOverflow).Sum()}
}

// Key is the name of a client's key, or of the tenant's one; reset says when it was reset, 0: never.
func (h LimitHash) Key(perTenant bool, client string, reset uint64) uint64 {
	key := h.Tenant
	if !perTenant {
		key = Client(h.Clients, client)
	}
	return Reset(key, reset)
}

// Reset is the name of a key since it was reset, 0: never.
func Reset(key, at uint64) uint64 {
	if at == 0 {
		return key
	}
	return Finish(fold(key^domainReset, MulA) ^ fold(at, MulB))
}

// Client is the hash of a client after a prefix: it completes a Limit.
func Client(prefix State, client string) uint64 { return prefix.Absorb(client).Sum() }

// Name is the hash of a name that needs no seed.
func Name(name string) uint64 { return State{MulA, MulB}.Absorb(name).h }

func start(seed, domain uint64) State {
	return State{fold(seed^MulA, domain^MulB), Finish(seed^MulB) | 1}
}

// Absorb mixes a string and its length in.
func (s State) Absorb(text string) State {
	n, whole := uint64(len(text)), text
	for len(text) >= 8 {
		s.h = fold(s.h^word(text), s.k)
		text = text[8:]
	}
	s.h = fold(s.h^rest(text, whole)^MulA, n^s.k)
	return s
}

// AbsorbNumber mixes a number in.
func (s State) AbsorbNumber(n uint64) State {
	s.h = fold(s.h^n, s.k)
	return s
}

// Sum is the hash of what was absorbed.
func (s State) Sum() uint64 { return Finish(s.h) }

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

// Finish avalanches, and avoids 0, which marks an empty slot.
func Finish(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	if z == 0 {
		return 1
	}
	return z
}

// Uniform returns the next random number in [0,1) of a generator (splitmix64).
func Uniform(state *uint64) float64 {
	*state += 0x9e3779b97f4a7c15
	return float64(Finish(*state)>>11) * 0x1p-53
}
