package keys

import (
	"slices"

	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// When Claims visits a state.
//
// A state is awake while this replica claims something of the key: Claims visits it each
// period. Otherwise it sleeps, and Claims visits it when the key has something to say
// (state.due). When so much is refilled that it is worth announcing, or when nothing is
// left that the slot could not say. Until then it costs nothing.
//
// Sleeping states are in a timing wheel: 4 levels of 64 slots, a slot of level n takes
// 64^n ticks. A state is in the level in which its time is less than 64 slots ahead, and
// falls into a lower one when its slot's time comes.

const (
	tickBits   = 26 // a tick is 2^26 ns, 67 ms
	levelBits  = 6
	wheelSlots = 1 << levelBits
	levels     = 4
	furthest   = 1<<(levels*levelBits-1) - 1 // ticks ahead: 6 days
	// never is no time: what others say wakes the state.
	never = int64(-1)
	// inList is the place of a state that the next Claims visits.
	inList = levels*wheelSlots + 1
)

// link is a state's place in the wheel; the fields are 1 + an index, 0: none.
type link struct {
	next, prev uint32
	place      uint32 // 1 + its slot in the wheel, or inList; 0: nowhere
	due        uint32 // tick
}

// wakes is the list of states that the next Claims visits, and the wheel of the states
// that sleep.
type wakes struct {
	start int64 // nanoseconds: tick 0

	mu   lock.Mutex[lock.Leaf]
	list []uint32
	tick uint32 // of the wheel
	head [levels * wheelSlots]uint32
}

func (p *states) link(index uint32) (*chunk, *link) {
	c := p.chunks[index/chunkStates].Load()
	return c, &c.links[index%chunkStates]
}

// touch has the next Claims visit a state, which is locked.
func (p *states) touch(st *state) {
	if st.awake {
		return
	}
	w := &p.wakes
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, l := p.link(st.index); l.place != inList {
		w.unlink(p, l)
		w.enlist(c, l, st.index)
	}
	st.awake = true
}

// rest has Claims visit a state, which is locked, again at a time, or never. listed says
// that it comes from the list.
func (p *states) rest(st *state, index uint32, listed bool, due int64) {
	st.awake = false
	w := &p.wakes
	w.mu.Lock()
	defer w.mu.Unlock()
	c, l := p.link(index)
	switch {
	case l.place != inList:
		w.unlink(p, l)
	case listed:
		l.place = 0
		c.listed--
	default: // it is visited in any case
		return
	}
	if due != never {
		w.insert(p, index, w.tickOf(due))
	}
}

// tickOf is the tick of a time, rounded up, after the wheel's and not too far ahead.
func (w *wakes) tickOf(due int64) uint32 {
	ahead := (due-w.start+1<<tickBits-1)>>tickBits - int64(w.tick)
	return w.tick + uint32(min(max(ahead, 1), furthest))
}

// listed reports whether a state of a chunk is in the list.
func (w *wakes) listed(c *chunk) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.listed > 0
}

// remove takes a state that is released out of the wheel.
func (w *wakes) remove(p *states, index uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, l := p.link(index); l.place != inList {
		w.unlink(p, l)
	}
}

// enlist has the next Claims visit a state that is not in the wheel.
func (w *wakes) enlist(c *chunk, l *link, index uint32) {
	*l = link{place: inList}
	c.listed++
	w.list = append(w.list, index)
}

// insert puts a state into the wheel for a tick after the wheel's.
func (w *wakes) insert(p *states, index, due uint32) {
	level := 0
	for due>>(level*levelBits)-w.tick>>(level*levelBits) >= wheelSlots {
		level++
	}
	slot := uint32(level*wheelSlots) + due>>(level*levelBits)%wheelSlots
	_, l := p.link(index)
	*l = link{next: w.head[slot], place: 1 + slot, due: due}
	if l.next != 0 {
		_, next := p.link(l.next - 1)
		next.prev = index + 1
	}
	w.head[slot] = index + 1
}

// unlink takes a state out of the wheel, if it is there.
func (w *wakes) unlink(p *states, l *link) {
	if l.place == 0 {
		return
	}
	if l.next != 0 {
		_, next := p.link(l.next - 1)
		next.prev = l.prev
	}
	if l.prev != 0 {
		_, prev := p.link(l.prev - 1)
		prev.next = l.next
	} else {
		w.head[l.place-1] = l.next
	}
	*l = link{}
}

// takeDue takes the list of states to visit now; keep must follow.
func (p *states) takeDue(now int64) []uint32 {
	w := &p.wakes
	from, to := w.turnTo(uint32(max(0, now-w.start) >> tickBits))
	for level := levels - 1; level >= 0; level-- {
		first, last := from>>(level*levelBits)+1, to>>(level*levelBits)
		for at := first; at <= min(last, first+wheelSlots-1); at++ {
			w.fall(p, uint32(level*wheelSlots)+at%wheelSlots)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

// turnTo sets the wheel's tick and returns it with the one before.
func (w *wakes) turnTo(now uint32) (from, to uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from = w.tick
	w.tick = max(w.tick, now)
	return from, w.tick
}

// fall lists the states of a slot whose time has come, and puts the others where they
// belong now. The lock is held for one slot: the requests of the keys wait for it.
func (w *wakes) fall(p *states, slot uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.head[slot]
	w.head[slot] = 0
	for at != 0 {
		index := at - 1
		c, l := p.link(index)
		at = l.next
		if l.due <= w.tick {
			w.enlist(c, l, index)
		} else {
			w.insert(p, index, l.due)
		}
	}
}

// keep puts those back that are to be visited again.
func (p *states) keep(list []uint32) {
	if cap(list) > 4*len(list)+wheelSlots {
		list = slices.Clone(list)
	}
	p.wakes.mu.Lock()
	defer p.wakes.mu.Unlock()
	p.wakes.list = append(list, p.wakes.list...)
}
