// Package budget divides room, and questions per second, among the limits of tenants: one limit that
// takes all it can get leaves enough for all others, without anybody being asked.
//
// # Model
//
// It is the dynamic threshold by which switches share a buffer among their queues (Choudhury and Hahne,
// "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998), at two levels:
//
//	F = C − Σ          room that nobody has
//	tenant  <  F       a tenant may have as much as is left free
//	limit   <  3·(F − tenant)
//
// One tenant alone gets C/2 at most, and n tenants that come together C/(n + 1) each, so C/(n + 1) stays
// free for tenants that have little. One limit alone gets 3/7 of C, and leaves 3/49 of C for another limit of
// its tenant. What is taken is not taken back: a tenant that comes later gets half of what is free then.
//
//	what may be had          C = 2000       C = 262,144
//	one limit                857            112,347
//	one tenant, many limits  1000           131,072
//	two tenants, many limits 667 each       87,381 each
//
// What is counted although it does not fit (a [Rate] counts questions that cannot be prevented) counts for
// its limit alone. So the sum stays below C and others keep their parts.
//
// Both types find limits by an [ID]. They have no clock and no lock. Each call is O(1).
package budget

import "hash/fnv"

// ID names a limit of a tenant. The upper half is the tenant's.
type ID uint64

func (id ID) tenant() uint32 { return uint32(id >> 32) }

// limitParts bounds a limit, in multiples of what is left to its tenant.
const limitParts = 3

// shares counts what limits have: all together, by tenant and by limit.
type shares struct {
	all     float64
	tenants map[uint32]float64
	limits  map[ID]float64
}

func newShares() shares { return shares{tenants: map[uint32]float64{}, limits: map[ID]float64{}} }

// fits reports whether a limit may have more.
func fits(size, all, tenant, limit float64) bool {
	free := size - all
	return tenant < free && limit < limitParts*(free-tenant)
}

// Room is room in a table, of which each key takes one place. Make it with [NewRoom].
type Room struct {
	size float64
	has  shares
}

// NewRoom returns room for so many keys.
func NewRoom(size int) *Room { return &Room{float64(size), newShares()} }

// Fits reports whether there is room for one more key of a limit.
func (r *Room) Fits(id ID) bool {
	return fits(r.size, r.has.all, r.has.tenants[id.tenant()], r.has.limits[id])
}

// Take gives a place to a key, whether it fits or not.
func (r *Room) Take(id ID) {
	r.has.all++
	r.has.tenants[id.tenant()]++
	r.has.limits[id]++
}

// Free takes back the place of a key.
func (r *Room) Free(id ID) {
	r.has.all--
	if r.has.limits[id]--; r.has.limits[id] <= 0 {
		delete(r.has.limits, id)
	}
	if t := id.tenant(); r.has.tenants[t] <= 1 {
		delete(r.has.tenants, t)
	} else {
		r.has.tenants[t]--
	}
}

// Keys returns how many places are taken.
func (r *Room) Keys() int { return int(r.has.all) }

// window is over how many nanoseconds a Rate counts.
const window = int64(1e9)

// Rate is questions per second, over the last second: those of the second that has begun, and of the one
// before the part that is not yet over. Make it with [NewRate].
type Rate struct {
	size     float64
	from     int64 // of the second that has begun
	now, was shares
}

// NewRate returns the budget of so many questions per second.
func NewRate(size float64) *Rate { return &Rate{size: size, now: newShares(), was: newShares()} }

// Fits reports whether a limit may ask one more question.
func (r *Rate) Fits(now int64, id ID) bool { return fits(r.of(now, id)) }

// Ask counts a question, whether it fits or not.
func (r *Rate) Ask(now int64, id ID) {
	if r.Fits(now, id) {
		r.now.all++
		r.now.tenants[id.tenant()]++
	}
	r.now.limits[id]++
}

// of returns the budget, and what of it is taken by all, by the tenant of a limit and by the limit.
func (r *Rate) of(now int64, id ID) (size, all, tenant, limit float64) {
	r.turn(now)
	before := 1 - float64(max(0, now-r.from))/float64(window)
	t := id.tenant()
	return r.size, r.now.all + before*r.was.all, r.now.tenants[t] + before*r.was.tenants[t],
		r.now.limits[id] + before*r.was.limits[id]
}

// turn begins another second if the last one is over.
func (r *Rate) turn(now int64) {
	late := now - r.from
	if late < window {
		return
	}
	r.now, r.was = r.was, r.now
	r.now.clear()
	if r.from += late - late%window; late >= 2*window {
		r.was.clear()
	}
}

func (s *shares) clear() {
	s.all = 0
	clear(s.tenants)
	clear(s.limits)
}

// Of returns the ID of a limit. Two limits have the same one by chance only, and share a part then.
func Of(tenant, limit string) ID {
	return ID(sum(tenant))<<32 | ID(sum(limit))
}

func sum(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum32()
}
