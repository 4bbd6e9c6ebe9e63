package keys

import (
	"maps"

	"github.com/titrate/titrate/control/drc"
)

// A limit that is changed while its clients use it. What a key has spent is carried over when it is
// used next, by drc.Carry: a ledger knows the numbers that it was configured with, and a slot has
// the version of the numbers that its TAT counts by. A Group knows the numbers of the last few
// versions. A slot of an older version owes at most an empty bucket.

// mostEarlier is how many versions of a limit's numbers are remembered. More keep more maps of
// overrides in memory.
const mostEarlier = 4

// earlier is what a limit has allowed.
type earlier struct {
	base      Numbers
	overrides map[string]Numbers
}

// Follow makes g, which is not in use yet, the successor of the keys of the same limit before a
// change. O(overrides).
func (g *Group) Follow(old *Group) {
	g.version, g.earlier = old.version, old.earlier
	if g.base == old.base && maps.Equal(g.overrides, old.overrides) {
		return
	}
	if g.version++; g.version == 0 {
		g.version = 1
	}
	from := max(0, len(old.earlier)+1-mostEarlier)
	g.earlier = append(append([]*earlier(nil), old.earlier[from:]...), &earlier{old.base, old.overrides})
}

// numbersOf returns what the limit allowed a client by a version before the one in force; not ok:
// that is not known any more.
func (g *Group) numbersOf(version uint16, client string) (n Numbers, ok bool) {
	back := int(g.version - version)
	if back > len(g.earlier) {
		return n, false
	}
	was := g.earlier[len(g.earlier)-back]
	if n, ok = was.overrides[client]; !ok {
		n = was.base
	}
	return n, true
}

// isOld reports whether a slot's TAT counts by numbers before those of the group. A version that is
// newer is that of a request that overtakes this one.
func (c *counter) isOld(g *Group, now int64) bool {
	v := c.slot.version()
	return v != g.version && (c.tat <= now || int16(g.version-v) > 0)
}

// renew carries over what the slot of a key has spent by earlier numbers. A state of the key is
// locked.
func (s *Store) renew(c *counter, g *Group, client string, now int64) {
	tat, ok := c.slot.lock(c.key)
	if !ok {
		return
	}
	defer func() { c.slot.unlock(tat) }()
	m, n, version := s.view.Load(), g.Numbers(client), c.slot.version()
	c.slot.setVersion(g.version)
	if version == 0 || tat <= now { // of the process before this one, or whole
		return
	}
	by, was := countedBy(m, c.slot, n), countedBy(m, c.slot, n)
	before, known := g.numbersOf(version, client)
	if known {
		was = countedBy(m, c.slot, before)
	}
	carry := func(tat int64) int64 {
		return drc.TATFor(drc.Carry(drc.SpentAt(tat, now, was.Rate), was.Burst, by.Burst), now, by.Rate)
	}
	if was != by || !known {
		c.slot.clearDebt()
	}
	tat = carry(tat)
	s.states.carry(c.key, now, carry)
	if c.state != nil {
		c.state.counted = carry(c.state.counted)
	}
}

// carry has what is remembered of a retired key carried over.
func (p *states) carry(key uint64, now int64, carry func(tat int64) int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.retired.get(key); x.tat > now {
		x.tat = carry(x.tat)
		p.retired.add(key, x)
	}
}
