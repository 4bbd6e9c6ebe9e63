package delivery

import (
	"math"
	"time"
)

// Kind is the kind of state that an item names.
type Kind uint8

const (
	// Claim is the claim of a replica of this agent, for a key that the peer owns.
	Claim Kind = iota
	// Sum is the sum of all others' claims of a key that this agent owns and the peer uses.
	Sum
	// Site is the sum of the claims of this site's gateways, of a key that the peer owns at another site.
	Site
)

// Item is the state of one key, of one kind.
type Item struct {
	Key  uint64
	Kind Kind
	From int32 // the replica that claims, as its agent numbers them; 0 of a Sum
}

// Taken is an item in a packet.
type Taken struct {
	Item
	Again    bool // it was queued with TellAgain
	Repeated bool // an earlier packet has it, and either of both may be lost
}

// Urgency orders the items that wait.
type Urgency uint8

// The urgencies, the least first.
const (
	// Spare is sent where there is room, and within a budget: the key's owner decides, and goes by nothing that
	// the item says.
	Spare Urgency = iota
	// Normal is sent in turn.
	Normal
	// Urgent is sent first.
	Urgent
	urgencies
)

// spareAhead is the part of their budget, in time, that Spare items take at once, spareGap the time for which they wait
// once the last of them was sent.
const spareAhead, spareGap = 250 * time.Millisecond, 200 * time.Millisecond

// Of turns taken items one is not urgent, and of turns² one is Spare, if such an item waits.
const turns = 4

type state uint8

const (
	unused state = iota
	calm
	waiting
	flying
)

type told struct {
	item   Item
	packet uint64        // the first that carried the latest state
	last   uint64        // that carried it last
	since  time.Duration // when it was taken last; waiting: when it began to wait
	state  state
	level  Urgency
	again  bool            // the peer, or another one in its place, may have known an earlier state
	queued [urgencies]bool // it is in that queue; maybe it waits no more
}

// Box is the send queue to one peer. The zero Box is empty. Not safe for concurrent use.
type Box struct {
	// SpareCost is the time in which one Spare item may be sent in the mean; 0 sets no bound.
	SpareCost time.Duration

	index   map[Item]int32
	items   []told
	free    []int32
	queues  [urgencies]queue
	turn    int      // items taken
	flights []flight // by packet
	waits   [urgencies]int
	visited int           // the place that was visited last
	walks   int           // how often Visit has begun anew
	lossy   time.Duration // until then packets count as likely to be lost
	spareTo time.Duration // the budget of Spare items is used until then
	spareAt time.Duration // Spare items wait until then
	window  window
}

// Len counts the items that the peer is sent.
func (b *Box) Len() int { return len(b.index) }

// Places counts the places for items, through which Visit walks.
func (b *Box) Places() int { return len(b.items) }

// Lossy returns the time until which packets count as likely to be lost.
func (b *Box) Lossy() time.Duration { return b.lossy }

// Waiting counts the items that wait for a packet.
func (b *Box) Waiting() int { return b.waits[Spare] + b.Pressing() }

// DueAt returns the time from which something that waits may be sent.
func (b *Box) DueAt() time.Duration {
	switch {
	case b.Pressing() > 0:
		return 0
	case b.waits[Spare] > 0:
		return b.spareAt
	}
	return math.MaxInt64
}

// Due reports whether something waits that may be sent now.
func (b *Box) Due(now time.Duration) bool { return b.DueAt() <= now }

// Pressing counts the waiting items that are not Spare.
func (b *Box) Pressing() int { return b.waits[Normal] + b.waits[Urgent] }

// More reports whether another packet is worth while now: something waits, and not as many packets are on their way as
// the peer acknowledges in time. For Spare items that is a quarter as many, and no more than mostSpare.
func (b *Box) More(now time.Duration) bool {
	size := b.window.size()
	if b.Pressing() == 0 {
		size = min(max(leastWindow, size/4), mostSpare)
	}
	return b.Due(now) && len(b.flights) < size
}

// Took notes how long a packet took to the peer.
func (b *Box) Took(now, way time.Duration) { b.window.took(now, way) }

// Tell says that an item has a new state.
func (b *Box) Tell(now time.Duration, item Item, level Urgency) {
	b.wait(now, b.place(item), level)
}

// TellAgain repeats an item that was sent before to another peer, or to an earlier life of this one: Take says so
// until the peer has acknowledged it.
func (b *Box) TellAgain(now time.Duration, item Item, level Urgency) {
	i := b.place(item)
	b.items[i].again = true
	b.wait(now, i, level)
}

// place returns where an item is, which is made calm if it is not there.
func (b *Box) place(item Item) int32 {
	if i, ok := b.index[item]; ok {
		return i
	}
	return b.add(item)
}

func (b *Box) add(item Item) (i int32) {
	if b.index == nil {
		b.index = map[Item]int32{}
	}
	if n := len(b.free); n > 0 {
		i, b.free = b.free[n-1], b.free[:n-1]
	} else {
		b.items = append(b.items, told{})
		i = int32(len(b.items) - 1)
	}
	b.items[i] = told{item: item, state: calm, queued: b.items[i].queued}
	b.index[item] = i
	return i
}

func (b *Box) wait(now time.Duration, i int32, level Urgency) {
	e := &b.items[i]
	if e.state == waiting {
		if e.level >= level {
			return
		}
		b.waits[e.level]--
	} else {
		e.state, e.since = waiting, now
	}
	e.level = level
	b.waits[level]++
	if !e.queued[level] {
		e.queued[level] = true
		b.queues[level].push(i)
	}
}

// Forget ends sending an item.
func (b *Box) Forget(item Item) {
	i, ok := b.index[item]
	if !ok {
		return
	}
	if e := &b.items[i]; e.state == waiting {
		b.waits[e.level]--
	}
	b.items[i] = told{queued: b.items[i].queued}
	b.free = append(b.free, i)
	delete(b.index, item)
}

// Oldest returns the wait of the first urgent item or of the first normal item, the longer one; 0 if none waits.
func (b *Box) Oldest(now time.Duration) time.Duration {
	oldest := time.Duration(0)
	for level := Normal; level < urgencies; level++ {
		if i, ok := b.first(level); ok {
			oldest = max(oldest, now-b.items[i].since)
		}
	}
	return oldest
}

// first is the first item that waits with an urgency; what is in that queue for no reason any more is taken out.
func (b *Box) first(level Urgency) (int32, bool) {
	q := &b.queues[level]
	for q.len() > 0 {
		i := q.peek()
		if e := &b.items[i]; e.state == waiting && e.level == level {
			return i, true
		}
		b.pop(level)
	}
	return 0, false
}

func (b *Box) pop(level Urgency) {
	q := &b.queues[level]
	b.items[q.peek()].queued[level] = false
	q.head++
}

// pick returns the next item to take: of the most urgent ones the longest waiting. In some turns less urgent items come
// first, so that a flood of urgent ones does not starve them.
func (b *Box) pick(now time.Duration) (i int32, level Urgency, ok bool) {
	b.turn++
	first := Urgent
	switch {
	case b.turn%(turns*turns) == 0:
		first = Spare
	case b.turn%turns == 0:
		first = Normal
	}
	for _, level = range [...]Urgency{first, Urgent, Normal, Spare} {
		if level == Spare && now < b.spareAt {
			continue
		}
		if i, ok = b.first(level); ok {
			return i, level, true
		}
	}
	return 0, 0, false
}

// Take takes the next item into the packet that was begun last; ok is false if none waits.
func (b *Box) Take() (item Taken, ok bool) {
	f := &b.flights[len(b.flights)-1]
	i, level, ok := b.pick(f.at)
	if !ok {
		return item, false
	}
	b.pop(level)
	f.items = append(f.items, i)
	e := &b.items[i]
	e.state, e.packet, e.last, e.since = flying, f.packet, f.packet, f.at
	b.waits[level]--
	if level == Spare {
		b.spareTo = max(b.spareTo, f.at) + b.SpareCost
		if b.spareTo > f.at+spareAhead {
			b.spareAt = b.spareTo
		} else if b.waits[Spare] == 0 {
			b.spareAt = f.at + spareGap
		}
	}
	return Taken{Item: e.item, Again: e.again}, true
}

// Repeat takes into the packet an item that was last taken at before or earlier and is not acknowledged. ok is false
// if there is none, or if no packet was lost within lossyFor. So where packets are lost, a repeated item costs the
// time to the next packet. Each item of a packet is looked at once: it flies with a later one after that, or does not
// fly any more. Spare items wait until they are known to be lost.
func (b *Box) Repeat(before time.Duration) (item Taken, ok bool) {
	f := &b.flights[len(b.flights)-1]
	if f.at >= b.lossy {
		return item, false
	}
	for n := range b.flights[:len(b.flights)-1] {
		from := &b.flights[n]
		if from.at > before {
			break
		}
		for from.next < len(from.items) {
			i := from.items[from.next]
			from.next++
			e := &b.items[i]
			if e.state != flying || e.last != from.packet || e.level == Spare {
				continue
			}
			e.last, e.since = f.packet, f.at
			f.items = append(f.items, i)
			return Taken{e.item, e.again, true}, true
		}
	}
	return item, false
}

// Restart resets the queue for a peer that may have lost everything: of the items that keep wants, all wait. forgot
// says that it surely has: the items that its earlier life was sent are sent again, as with TellAgain.
func (b *Box) Restart(now time.Duration, forgot bool, keep func(Item) bool) {
	old := b.items
	*b = Box{}
	for i := range old {
		if old[i].state != unused && keep(old[i].item) {
			b.items[b.place(old[i].item)].again = old[i].again || forgot && old[i].packet > 0
			b.Tell(now, old[i].item, old[i].repeated())
		}
	}
}

// repeated is the urgency of an item that the peer lacks.
func (e *told) repeated() Urgency {
	if e.level == Spare {
		return Spare
	}
	return Urgent
}

// Visit looks at n places for items, in turn, and visits the calm items there. level is Spare or Normal, as they were
// sent. chosen is one item of so many, another one at each walk through all.
func (b *Box) Visit(n, of int, visit func(i Item, level Urgency, chosen bool)) {
	for range min(n, len(b.items)) {
		if b.visited++; b.visited >= len(b.items) {
			b.visited = 0
			b.walks++
		}
		if e := b.items[b.visited]; e.state == calm {
			visit(e.item, min(e.level, Normal), (b.visited+b.walks)%of == 0)
		}
	}
}
