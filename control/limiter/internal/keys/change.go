package keys

import (
	"maps"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/drc"
)

// A limit that is changed while its clients use it. What a key has spent is carried over when it is
// used next (drc.Carry). A ledger knows the numbers that it was configured with, and a slot has the
// version of the numbers that its TAT counts by. A Group knows the numbers of the last few
// versions. A slot of an older version owes at most an empty bucket.

// mostEarlier bounds the versions of a limit's numbers that are kept. Each may keep a map of overrides in memory.
const mostEarlier = 4

// earlier has the numbers of a limit before a change.
type earlier struct {
	version   uint32
	base      Numbers
	overrides map[string]Numbers
	own       *config.Overrides
}

// NextVersion is the version of the numbers that are installed after those of another version. It is
// never 0, nor is the part of it that a slot has.
func NextVersion(v uint32) uint32 {
	if v++; uint16(v) == 0 {
		v++
	}
	return v
}

// Follow makes g, which is not in use yet, the successor of the keys of the same limit before a
// change. It reports whether its numbers have changed. O(overrides of the limit itself).
func (g *Group) Follow(old *Group) (changed bool) {
	if g.base == old.base && maps.Equal(g.overrides, old.overrides) && g.own.Same(old.own) {
		g.version, g.earlier = old.version, old.earlier
		return false
	}
	from := max(0, len(old.earlier)+1-mostEarlier)
	g.earlier = append(append([]*earlier(nil), old.earlier[from:]...),
		&earlier{old.version, old.base, old.overrides, old.own})
	for int32(g.version-old.version) <= 0 || g.before(uint16(g.version)) != nil { // a slot has 16 bits of the version
		g.version = NextVersion(g.version)
	}
	return true
}

// before returns what the limit allowed by the version that a slot has, if that came before the one in
// force and is remembered; else nil.
func (g *Group) before(version uint16) *earlier {
	for _, was := range g.earlier {
		if uint16(was.version) == version {
			return was
		}
	}
	return nil
}

// of returns what the limit, which is g now, allowed a client.
func (was *earlier) of(g *Group, client string) Numbers {
	return g.allowed(client, was.base, was.overrides, was.own)
}

// isOld reports whether a slot's TAT counts by numbers before those of the group.
func (c *counter) isOld(g *Group, now int64) bool {
	v := c.slot.version()
	return v != uint16(g.version) && (c.tat <= now || g.replaces(v))
}

// replaces reports whether a slot's version, which differs from g's, came before it. A later version was written by a
// request that has overtaken this one. A slot has 16 bits of the version, which wrap around: if a limit has not
// changed for long, a remembered version may look like a later one.
func (g *Group) replaces(v uint16) bool {
	return v == 0 || g.before(v) != nil || int16(uint16(g.version)-v) > 0
}

// renew carries over what the slot of a key has spent by earlier numbers. A state of the key is
// locked.
func (s *Store) renew(c *counter, g *Group, client string, now int64) {
	tat, ok := c.slot.lock(c.key)
	if !ok {
		return
	}
	defer func() { c.slot.unlock(tat) }()
	if c.tat = tat; !c.isOld(g, now) { // another thread has been here
		return
	}
	m, n, before, fresh := s.view.Load(), g.Numbers(client), g.before(c.slot.version()), c.slot.version() == 0
	c.slot.setVersion(uint16(g.version))
	if tat <= now {
		tat++ // it is whole; what another thread has computed from it by other numbers comes too late
		return
	}
	if fresh || before != nil && before.of(g, client).allowsAs(n) { // of the process before this one, or unchanged
		return
	}
	by, was := countedBy(m, c.slot, n), countedBy(m, c.slot, n)
	if before != nil {
		was = countedBy(m, c.slot, before.of(g, client))
	}
	carry := func(tat int64) int64 {
		return drc.TATFor(drc.Carry(drc.SpentAt(tat, now, was.Rate), was.Burst, by.Burst), now, by.Rate)
	}
	c.slot.unset(inDebt)
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
