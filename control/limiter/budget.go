package limiter

import (
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
)

// How many keys have full state, and what they cost.
//
// Budget. The states of all replicas hold much the same keys: those that anybody
// announces. Once three quarters are in use, each of N replicas gives state by its own
// use only while it has less than Contended/N of them, so that what all replicas announce
// together fits everywhere. A key beyond that is counted in its slot by its part of the limit, rate/N
// and burst/N, which holds without anybody hearing of it:
//
//	own     the slot says rate and burst until the use is worth telling (see tell)
//	parted  there was no state for it: rate/N and max(min(1, burst), burst/N)
//
// A key that has spent more than twice as much of its burst as the least spent of a few
// others takes the state of that one. So inventing names takes no state from clients
// that are near their limits.
//
// Periods. A state is walked by Claims each period while it changes: a request, others
// that claim it, or lately so. Then it sleeps, if its limit is so slow that what is
// refilled until the others are told again does not matter: what they know of it may be
// three turns old (of this engine, of its agent, of theirs). Sleeping ones are walked in
// turn, all of them within refreshPeriods, which reminds the others of what is spent and
// finds those that can go.

const (
	// refreshPeriods is within how many periods every sleeping key is announced again
	// and looked at: 3.2 s.
	refreshPeriods = 64
	// lately is for how long a key that has changed is walked each period: the gossip
	// repeats it meanwhile, so that lost packets do no harm.
	lately = int64(1e9)
	// keepHeard is for how long a key that only others have spent is known without a
	// reminder: some refreshes may be lost on the way.
	keepHeard = int64(30e9)
	// sleepy is the fastest limit whose keys sleep, in cost units/s, 36 per hour: a tenth
	// of a request is refilled in three turns. Keys of faster ones are refilled soon.
	sleepy = 0.01
	// looked is how many states are compared to find one that makes room.
	looked = 16
	// ratio is by how much more of its burst a key must have spent than the one that
	// makes room for it: clients that have spent alike do not push each other out.
	ratio = 2
)

// wakes lists the states that Claims walks each period.
type wakes struct {
	mu   mutex[leafRank]
	list []uint32
	hand uint32 // of the refresh; of Claims alone
	size float64
}

// touch has Claims walk a state, which is held, each period for a while.
func (p *states) touch(s *state, now int64) {
	s.changed = now
	if s.awake {
		return
	}
	s.awake = true
	p.wakes.mu.Lock()
	defer p.wakes.mu.Unlock()
	p.wakes.list = append(p.wakes.list, s.index)
}

// awake takes the list of those to walk; sleep or stay must follow.
func (p *states) awake() []uint32 {
	p.wakes.mu.Lock()
	defer p.wakes.mu.Unlock()
	list := p.wakes.list
	p.wakes.list = nil
	return list
}

// stay puts those back that are to be walked again.
func (p *states) stay(list []uint32) {
	p.wakes.mu.Lock()
	defer p.wakes.mu.Unlock()
	p.wakes.list = append(list, p.wakes.list...)
}

// turn returns the range of states, modulo those in use, to look at in this period: all
// of them when the membership has changed in size.
func (p *states) turn(m *membership) (from, n uint32) {
	used := uint32(p.used.Load())
	if m.replicas != p.wakes.size {
		p.wakes.size = m.replicas
		return 0, used
	}
	n = min(used, used/refreshPeriods+1)
	from = p.wakes.hand
	p.wakes.hand += n
	return from, n
}

// mine is how many keys this replica may give state to by its own use.
func (p *states) mine(m *membership) int32 {
	return max(1, p.budget/int32(min(m.replicas, float64(p.budget))))
}

// admit gives a state to a key that has spent so much of its burst, 1 being all, here
// (own) or elsewhere: a free one, or that of a key that has spent less.
func (e *Engine) admit(m *membership, now int64, share float64, own bool) (index uint32, ok bool) {
	if p := &e.states; !own || p.inUse.Load() < p.budget/4*3 || p.own.Load() < p.mine(m) {
		if index, ok = e.states.take(own); ok {
			return index, true
		}
	}
	if !e.displace(now, share, own) {
		e.stats.unpromoted.Add(1)
		return 0, false
	}
	return e.states.take(own)
}

// displace frees the state of the key that has spent the least of a few; false if each
// has spent too much to make room.
func (e *Engine) displace(now int64, share float64, own bool) bool {
	used := uint64(e.states.used.Load())
	if used == 0 {
		return false
	}
	least, at := share/ratio, int64(-1)
	for range min(looked, used) {
		index := uint32(e.states.seed.Add(1) * mulA >> 20 % used)
		if spent, ok := e.spentOf(index, now, own); ok && spent < least {
			least, at = spent, int64(index)
		}
	}
	return at >= 0 && e.makeRoom(uint32(at), now, own)
}

// spentOf returns how much of its burst the key of a state has spent; not ok if it
// cannot make room: it is in use by somebody now, or not of those that count.
func (e *Engine) spentOf(index uint32, now int64, own bool) (share float64, ok bool) {
	s := e.states.at(index)
	if !s.mu.TryLock() {
		return 0, false
	}
	defer s.mu.Unlock()
	return s.share(e.seconds(now), now, own)
}

func (s *state) share(at float64, now int64, own bool) (share float64, ok bool) {
	switch {
	case s.hash == 0 || own && !s.own:
		return 0, false
	case !s.live: // how large its burst is nobody here knows
		return 0, now-s.heard > lately
	}
	s.ledger.Advance(at)
	return s.ledger.Spent() / max(1, s.limit.burst), true
}

// makeRoom frees a state, unless it has become another's meanwhile.
func (e *Engine) makeRoom(index uint32, now int64, own bool) bool {
	s := e.states.at(index)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.share(e.seconds(now), now, own); !ok {
		return false
	}
	e.stats.displaced.Add(1)
	if s.told {
		e.states.withdraw(s.hash)
	}
	e.detach(s, index, now, e.seconds(now))
	return true
}

// withdraw has the next Claims say that a key is announced no longer.
func (p *states) withdraw(hash uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.withdrawn = append(p.withdrawn, hash)
}

// withdrawals appends the keys that made room since the last Claims.
func (p *states) withdrawals(to []uint64) []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	to = append(to, p.withdrawn...)
	p.withdrawn = p.withdrawn[:0]
	return to
}

// part returns the numbers of a key that is counted here alone because there is no
// state for it.
func (m *membership) part(n numbers) numbers {
	if m.isolation >= exchange.Split {
		return n // it is a part already, see local
	}
	n.rate /= m.replicas
	n.burst = max(min(n.burst, 1), n.burst/m.replicas)
	return n
}

// counted returns the numbers that a slot's TAT counts by.
func (m *membership) counted(c cell, n numbers) numbers {
	if c.b != nil && c.b.parted.Load()>>c.i&1 != 0 {
		return m.part(n)
	}
	return n
}

// divide has a compact slot count by its part from now on. What it has spent stays.
func (c cell) divide(hash uint64, n numbers, m *membership, now int64) {
	tat, ok := c.lock(hash)
	if !ok {
		return
	}
	defer func() { c.unlock(tat) }()
	if c.full() != 0 || c.b.parted.Load()>>c.i&1 != 0 {
		return
	}
	spent, own := drc.SpentAt(tat, now, n.rate), m.part(n)
	c.b.parted.Or(1 << c.i)
	tat = max(tat, now+span(min(spent, c.deepest(own)), own.rate))
}

// undivide has a slot count by the whole limit again: it has a state, or nothing is
// spent.
func (c cell) undivide() {
	if bit := uint32(1) << c.i; c.b.parted.Load()&bit != 0 {
		c.b.parted.And(^bit)
	}
}
