package delivery

import "time"

// Kind is the kind of state that an item names.
type Kind uint8

const (
	// Claim is the claim of a replica of this agent, for a key that the peer owns.
	Claim Kind = iota
	// Sum is the sum of all others' claims of a key that this agent owns and the peer uses.
	Sum
)

// Item is the state of one key, of one kind.
type Item struct {
	Key  uint64
	Kind Kind
	From int32 // the replica that claims, as its agent numbers them; 0 of a Sum
}

// reorder is the number of later packets that must be acknowledged for one to count as lost.
const reorder = 3

// normalTurn is the number of taken items of which one is not urgent, if such an item waits.
const normalTurn = 4

// lossyFor is the time after a loss during which items are repeated until they are acknowledged.
const lossyFor = 10 * time.Second

// maxFlights bounds the packets that wait for an acknowledgement: older ones are lost.
const maxFlights = 1024

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
	urgent bool
	again  bool    // the peer, or another one in its place, may have known an earlier state
	queued [2]bool // it is in the queue of normal, and of urgent items; maybe it waits no more
}

// flight is a packet under way with the items that it carries.
type flight struct {
	packet uint64
	at     time.Duration
	items  []int32
	next   int // the first of items that Repeat has not looked at
}

// Box is the send queue to one peer. The zero Box is empty. Not safe for concurrent use.
type Box struct {
	index   map[Item]int32
	items   []told
	free    []int32
	urgent  queue
	normal  queue
	turn    int      // urgent items taken since a normal one was, or waited
	flights []flight // by packet
	waits   int
	visited int
	lossy   time.Duration // until then packets count as likely to be lost
}

// Len counts the items that the peer is sent.
func (b *Box) Len() int { return len(b.index) }

// Places counts the places for items, through which Visit walks.
func (b *Box) Places() int { return len(b.items) }

// Unheard returns the time at which the oldest packet left that may still be acknowledged; ok is false if there is
// none.
func (b *Box) Unheard() (at time.Duration, ok bool) {
	if len(b.flights) == 0 {
		return 0, false
	}
	return b.flights[0].at, true
}

// Lossy returns the time until which packets count as likely to be lost.
func (b *Box) Lossy() time.Duration { return b.lossy }

// Waiting counts the items that wait for a packet.
func (b *Box) Waiting() int { return b.waits }

// Tell says that an item has a new state. Urgent items are taken first.
func (b *Box) Tell(now time.Duration, item Item, urgent bool) {
	b.wait(now, b.place(item), urgent)
}

// TellAgain repeats an item that was sent before to another peer, or to an earlier life of this one: Take says so
// until the peer has acknowledged it.
func (b *Box) TellAgain(now time.Duration, item Item, urgent bool) {
	i := b.place(item)
	b.items[i].again = true
	b.wait(now, i, urgent)
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

func (b *Box) wait(now time.Duration, i int32, urgent bool) {
	e := &b.items[i]
	if e.state == waiting && (e.urgent || !urgent) {
		return
	}
	if e.state != waiting {
		e.state, e.since = waiting, now
		b.waits++
	}
	e.urgent = urgent
	q, in := &b.normal, &e.queued[0]
	if urgent {
		q, in = &b.urgent, &e.queued[1]
	}
	if !*in {
		*in = true
		q.push(i)
	}
}

// Forget ends sending an item.
func (b *Box) Forget(item Item) {
	i, ok := b.index[item]
	if !ok {
		return
	}
	if b.items[i].state == waiting {
		b.waits--
	}
	b.items[i] = told{queued: b.items[i].queued}
	b.free = append(b.free, i)
	delete(b.index, item)
}

// Oldest returns the wait of the first urgent item or of the first other item, the longer one; 0 if no item waits.
func (b *Box) Oldest(now time.Duration) time.Duration {
	oldest := time.Duration(0)
	for _, q := range []*queue{&b.urgent, &b.normal} {
		if i, ok := b.first(q); ok {
			oldest = max(oldest, now-b.items[i].since)
		}
	}
	return oldest
}

// first is the first of a queue that waits; what no longer waits is taken out.
func (b *Box) first(q *queue) (int32, bool) {
	for q.len() > 0 {
		if i := q.peek(); b.items[i].state == waiting {
			return i, true
		}
		b.pop(q)
	}
	return 0, false
}

func (b *Box) pop(q *queue) {
	e := &b.items[q.peek()]
	if q == &b.urgent {
		e.queued[1] = false
	} else {
		e.queued[0] = false
	}
	q.head++
}

// pick returns the next item to take. It is an urgent one, but each fourth time the longest waiting of the others: a
// flood of urgent items does not starve the others.
func (b *Box) pick() (i int32, from *queue, ok bool) {
	from = &b.urgent
	i, ok = b.first(from)
	b.turn++
	if !ok || b.turn >= normalTurn {
		b.turn = 0
		if n, waits := b.first(&b.normal); waits {
			i, from, ok = n, &b.normal, true
		}
	}
	return i, from, ok
}

// Begin begins a packet; the numbers of packets rise.
func (b *Box) Begin(now time.Duration, packet uint64) {
	if n := len(b.flights); n > 0 && len(b.flights[n-1].items) == 0 {
		b.flights = b.flights[:n-1] // it carried nothing
	}
	if len(b.flights) >= maxFlights {
		b.lose(now, &b.flights[0])
		b.flights = b.flights[1:]
	}
	b.flights = append(b.flights, flight{packet: packet, at: now})
}

// Take takes the next item into the packet that was begun last; ok is false if none waits, again reports that it was
// queued with TellAgain.
func (b *Box) Take() (item Item, again, ok bool) {
	i, q, ok := b.pick()
	if !ok {
		return Item{}, false, false
	}
	b.pop(q)
	f := &b.flights[len(b.flights)-1]
	f.items = append(f.items, i)
	e := &b.items[i]
	e.state, e.packet, e.last, e.since, e.urgent = flying, f.packet, f.packet, f.at, false
	b.waits--
	return e.item, e.again, true
}

// Repeat takes into the packet an item that was last taken at before or earlier and is not acknowledged. ok is false
// if there is none, or if no packet was lost within lossyFor. So where packets are lost, a repeated item costs the
// time to the next packet. Each item of a packet is looked at once: it flies with a later one after that, or does not
// fly any more.
func (b *Box) Repeat(before time.Duration) (item Item, again, ok bool) {
	f := &b.flights[len(b.flights)-1]
	if f.at >= b.lossy {
		return Item{}, false, false
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
			if e.state != flying || e.last != from.packet {
				continue
			}
			e.last, e.since = f.packet, f.at
			f.items = append(f.items, i)
			return e.item, e.again, true
		}
	}
	return Item{}, false, false
}

// Acked takes an acknowledgement: packet last was received, and packet last−1−i if bit i of earlier is set. Others that
// were sent more than patience ago are lost.
func (b *Box) Acked(now time.Duration, last, earlier uint64, patience time.Duration) {
	keep := b.flights[:0]
	for i := range b.flights {
		f := &b.flights[i]
		switch {
		case heard(f.packet, last, earlier):
			b.settle(f)
		case f.packet+reorder <= last || now-f.at > patience:
			b.lose(now, f)
		default:
			keep = append(keep, *f)
		}
	}
	clear(b.flights[len(keep):])
	b.flights = keep
}

// Overdue takes the packets that were not acknowledged within patience as lost.
func (b *Box) Overdue(now, patience time.Duration) {
	if len(b.flights) > 0 && now-b.flights[0].at > patience {
		b.Acked(now, 0, 0, patience)
	}
}

func heard(packet, last, earlier uint64) bool {
	if packet >= last {
		return packet == last
	}
	back := last - packet - 1
	return back < 64 && earlier>>back&1 == 1
}

func (b *Box) settle(f *flight) {
	for _, i := range f.items {
		if e := &b.items[i]; e.state == flying && e.packet <= f.packet {
			e.state, e.again = calm, false
		}
	}
}

func (b *Box) lose(now time.Duration, f *flight) {
	b.lossy = now + lossyFor
	for _, i := range f.items {
		if e := &b.items[i]; e.state == flying && e.last == f.packet {
			b.wait(now, i, true)
		}
	}
}

// Restart resets the queue for a peer that may have lost everything: of the items that keep wants, all wait. forgot
// says that it surely has: the items that its earlier life was sent are sent again, as with TellAgain.
func (b *Box) Restart(now time.Duration, forgot bool, keep func(Item) bool) {
	old := b.items
	*b = Box{}
	for i := range old {
		if old[i].state != unused && keep(old[i].item) {
			b.items[b.place(old[i].item)].again = old[i].again || forgot && old[i].packet > 0
			b.Tell(now, old[i].item, true)
		}
	}
}

// Visit looks at n places for items, in turn, and visits the calm items there.
func (b *Box) Visit(n int, visit func(Item)) {
	for range min(n, len(b.items)) {
		b.visited = (b.visited + 1) % len(b.items)
		if e := b.items[b.visited]; e.state == calm {
			visit(e.item)
		}
	}
}

// queue is first in, first out.
type queue struct {
	list []int32
	head int
}

func (q *queue) len() int    { return len(q.list) - q.head }
func (q *queue) peek() int32 { return q.list[q.head] }

// push puts an item last.
func (q *queue) push(i int32) {
	if q.head > 64 && q.head > len(q.list)/2 {
		q.list = append(q.list[:0], q.list[q.head:]...)
		q.head = 0
	}
	q.list = append(q.list, i)
}
