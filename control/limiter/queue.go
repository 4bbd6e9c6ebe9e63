package limiter

import "math"

// The queue of one flow: requests of one tenant that wait for one pool, in a
// subqueue per client. Within a subqueue order is strictly first in, first out:
//
//	head → eligible … eligible → held … held ← tail
//
// A client whose requests meet different limits with queues, by their identities
// or classes, has a subqueue for each combination.
//
// A held request waits for a limit of its client; an eligible one has been
// charged to the limits and waits for the tenant's share. Subqueues with a held
// request are in a heap by the time to ask its limit again, requests in one by their
// deadline (due.go).
//
// Subqueues with an eligible head stand in one of two rings: in front, if the
// client was within its equal part of the share when it sent that request
// (meter.go) and clients did not heed marks (congestion.go), else at the back. The
// front is served first, each ring by deficit round robin: the credit that the
// controller releases is handed out in quanta, and a head leaves when its subqueue's
// deficit has reached its cost. A dear request saves up what its client is due, turn
// by turn, and the others' requests pass meanwhile; what it has saved is real credit
// and is kept for it.
//
//	quantum = max(least, min(mean/64, 1 ms of the rate))
//	least   smallest cost since the queue was last empty; mean, of what waits
//
// so a turn of the ring is one request of each client where costs are alike, at
// most a millisecond for each where they are not, and handing out the credit of one
// mean request takes at most 64 steps.
//
// Everything lives in slabs indexed by int32; insertion, removal anywhere and
// the next release are O(1), the last one amortised. Not safe for concurrent use:
// the flow's mutex guards it.
type queue struct {
	entries   []entry
	freeEntry int32 // list through next
	subs      []sub
	freeSub   int32
	byClient  map[uint64]int32

	rings [2]ring // of subqueues with an eligible head: front, back
	retry due     // subqueues with a held request, see retries
	ends  due     // requests, see deadlines

	eligible     int   // requests
	eligibleCost int64 // fixed point
	held         int
	banked       int64  // credit that subqueues have and have not spent: the sum of their deficits
	least        int64  // smallest cost since the queue was last empty
	generation   uint32 // that a new place begins after
}

// ring is a turn of subqueues with an eligible head.
type ring struct {
	at   int32 // the subqueue served next
	left int64 // of its quantum; 0: its visit has not begun
	size int   // subqueues
	cost int64 // of the eligible requests that belong here
}

// Indices of queue.rings.
const (
	front = iota
	back
)

const nobody int32 = -1

// entry is one waiting request.
type entry struct {
	ticket     uint64
	since      int64 // when it arrived
	deadline   int64
	cost       int64
	route      *route // its limits were charged under
	charged    charged
	ids        *Identities // copies
	classes    uint64
	next, prev int32
	sub        int32
	due        int32 // its place in queue.ends
	generation uint32
	class      uint8 // front or back
	eligible   bool
	used       bool
	mark       bool
	shadow     *limit // the SHADOW limit that would have refused it
}

// sub is one client's subqueue.
type sub struct {
	client       string
	key          uint64
	head, tail   int32
	firstHeld    int32
	eligible     int
	eligibleCost int64
	frontCost    int64 // of that, in front
	held         int
	heldCost     int64
	deficit      int64  // credit saved for the head
	retryAt      int64  // the held ones' limit is not asked before
	expected     int64  // when it may admit the first of them
	by           *limit // the limit that they wait for
	class        uint8  // the ring that it stands in, while it has an eligible head
	ring         link   // its place there
	due          int32  // its place in queue.retry, while it has a held request
}

// link is a place in a ring; next is nobody outside.
type link struct{ next, prev int32 }

func newQueue(generation uint32) *queue {
	return &queue{
		generation: generation,
		freeEntry:  nobody, freeSub: nobody, byClient: map[uint64]int32{},
		rings: [2]ring{{at: nobody}, {at: nobody}}, least: math.MaxInt64,
	}
}

func (q *queue) len() int { return q.eligible + q.held }

// latest is the largest generation of its places.
func (q *queue) latest() uint32 {
	most := q.generation
	for i := range q.entries {
		most = max(most, q.entries[i].generation)
	}
	return most
}

// clients is the number of subqueues with eligible requests.
func (q *queue) clients() int { return q.rings[front].size + q.rings[back].size }

// find returns a client's subqueue, or nil.
func (q *queue) find(key uint64) *sub {
	if i, ok := q.byClient[key]; ok {
		return &q.subs[i]
	}
	return nil
}

// who returns whose request an entry is.
func (q *queue) who(e *entry) subject { return subject{q.subs[e.sub].client, e.ids, e.classes} }

// subOf returns a client's subqueue and makes it if need be.
func (q *queue) subOf(key uint64, client string) int32 {
	if i, ok := q.byClient[key]; ok {
		return i
	}
	i := q.freeSub
	if i != nobody {
		q.freeSub = q.subs[i].ring.next
	} else {
		i = int32(len(q.subs))
		q.subs = append(q.subs, sub{})
	}
	// The client's name outlives the request whose strings it aliases.
	q.subs[i] = sub{
		client: cloneString(client), key: key, head: nobody, tail: nobody, firstHeld: nobody,
		ring: link{nobody, nobody},
	}
	q.byClient[key] = i
	return i
}

func cloneString(s string) string { return string(append([]byte(nil), s...)) }

// push appends a request to its client's subqueue. An eligible one may only
// follow eligible ones.
func (q *queue) push(si int32, e entry) int32 {
	i := q.freeEntry
	if i != nobody {
		q.freeEntry = q.entries[i].next
		e.generation = q.entries[i].generation
	} else {
		i = int32(len(q.entries))
		q.entries = append(q.entries, entry{})
		e.generation = q.generation
	}
	e.generation = e.generation&generationMask + 1
	if e.generation > generationMask {
		e.generation = 1
	}
	s := &q.subs[si]
	e.sub, e.prev, e.next, e.used = si, s.tail, nobody, true
	q.entries[i] = e
	q.ends.push(deadlines{q}, i)
	if s.tail == nobody {
		s.head = i
	} else {
		q.entries[s.tail].next = i
	}
	s.tail = i
	if e.eligible {
		q.joinEligible(si, i)
	} else {
		q.joinHeld(si, i)
	}
	return i
}

func (q *queue) joinEligible(si, i int32) {
	s, e := &q.subs[si], &q.entries[i]
	e.eligible = true
	s.eligible++
	s.eligibleCost += e.cost
	q.eligible++
	q.eligibleCost += e.cost
	q.rings[e.class].cost += e.cost
	if e.class == front {
		s.frontCost += e.cost
	}
	q.least = min(q.least, e.cost)
	if s.eligible == 1 {
		q.line(si, e.class)
	}
}

// line puts a subqueue at the end of a ring.
func (q *queue) line(si int32, class uint8) {
	q.subs[si].class = class
	r := &q.rings[class]
	q.enter(&r.at, si)
	r.size++
}

// unline takes a subqueue out of its ring.
func (q *queue) unline(si int32) {
	r := &q.rings[q.subs[si].class]
	if r.at == si {
		r.left = 0
	}
	q.exit(&r.at, si)
	r.size--
}

func (q *queue) joinHeld(si, i int32) {
	s := &q.subs[si]
	s.held++
	s.heldCost += q.entries[i].cost
	q.held++
	if s.held == 1 {
		s.firstHeld = i
		q.retry.push(retries{q}, si)
	}
}

func (q *queue) leaveHeld(si, after int32, cost int64) {
	s := &q.subs[si]
	s.held--
	s.heldCost -= cost
	q.held--
	s.firstHeld = after
	if s.held == 0 {
		s.firstHeld = nobody
		q.retry.remove(retries{q}, si)
	}
}

// admit makes the first held request of a subqueue eligible.
func (q *queue) admit(si int32) int32 {
	i := q.subs[si].firstHeld
	q.leaveHeld(si, q.entries[i].next, q.entries[i].cost)
	q.joinEligible(si, i)
	return i
}

// remove takes a request out, wherever it stands, and frees its place.
func (q *queue) remove(i int32) {
	e := &q.entries[i]
	si := e.sub
	s := &q.subs[si]
	if e.eligible {
		s.eligible--
		s.eligibleCost -= e.cost
		q.eligible--
		q.eligibleCost -= e.cost
		q.rings[e.class].cost -= e.cost
		if e.class == front {
			s.frontCost -= e.cost
		}
	} else {
		first := s.firstHeld
		if first == i {
			first = e.next
		}
		q.leaveHeld(si, first, e.cost)
	}
	waited := e.eligible
	q.ends.remove(deadlines{q}, i)
	q.unlink(s, e)
	*e = entry{generation: e.generation, next: q.freeEntry}
	q.freeEntry = i
	if waited {
		q.reorder(si)
	}
	if s.head == nobody {
		q.dropSub(si)
	}
	if q.eligible == 0 {
		q.least = math.MaxInt64
	}
}

// reorder puts a subqueue that has lost an eligible request into the ring of its
// head, and returns the credit that it needs no more.
func (q *queue) reorder(si int32) {
	s := &q.subs[si]
	need := int64(0)
	if s.eligible == 0 {
		q.unline(si)
	} else {
		head := &q.entries[s.head]
		need = head.cost
		if head.class != s.class {
			q.unline(si)
			q.line(si, head.class)
		}
	}
	if s.deficit > need {
		q.banked -= s.deficit - need
		s.deficit = need
	}
}

func (q *queue) unlink(s *sub, e *entry) {
	if e.prev == nobody {
		s.head = e.next
	} else {
		q.entries[e.prev].next = e.next
	}
	if e.next == nobody {
		s.tail = e.prev
	} else {
		q.entries[e.next].prev = e.prev
	}
}

func (q *queue) dropSub(si int32) {
	delete(q.byClient, q.subs[si].key)
	q.subs[si] = sub{ring: link{next: q.freeSub}}
	q.freeSub = si
}

// next hands credit, fixed point, to the subqueues in turn until one of them can pay
// for its head, which it returns; nobody when the credit is used up or nothing is
// eligible. step is the credit of 1 ms, or more if it would take many steps to hand
// out what there is.
func (q *queue) next(credit, step int64) int32 {
	for k := range q.rings {
		r := &q.rings[k]
		for r.at != nobody {
			s := &q.subs[r.at]
			if r.left == 0 {
				r.left = q.quantum(step)
			}
			cost := q.entries[s.head].cost
			given := max(0, min(cost-s.deficit, r.left, credit))
			s.deficit += given
			q.banked += given
			credit -= given
			r.left -= given
			if r.left == 0 {
				r.at = s.ring.next
			}
			switch {
			case s.deficit >= cost:
				return s.head
			case credit <= 0:
				return nobody
			}
		}
	}
	return nobody
}

// quantum is the credit that a subqueue is given in one visit, see queue.
func (q *queue) quantum(step int64) int64 {
	return max(1, q.least, min(q.eligibleCost/int64(q.eligible)/64, step))
}

// serve removes the request that next returned and pays for it.
func (q *queue) serve(i int32) {
	e := &q.entries[i]
	q.subs[e.sub].deficit -= e.cost
	q.banked -= e.cost
	q.remove(i)
}

// turn returns the request that is next, whether or not it can be paid for, or
// nobody.
func (q *queue) turn() int32 {
	for k := range q.rings {
		if at := q.rings[k].at; at != nobody {
			return q.subs[at].head
		}
	}
	return nobody
}

// lookup returns the entry that a handle names, if it still waits.
func (q *queue) lookup(h Handle) (int32, bool) {
	i := h.place()
	if int(i) >= len(q.entries) {
		return nobody, false
	}
	e := &q.entries[i]
	return i, e.used && e.generation == h.generation()
}

// enter puts a subqueue at the end of a ring: just before the one served next.
func (q *queue) enter(ring *int32, si int32) {
	at := &q.subs[si].ring
	if *ring == nobody {
		*ring, at.next, at.prev = si, si, si
		return
	}
	first := &q.subs[*ring].ring
	at.next, at.prev = *ring, first.prev
	q.subs[first.prev].ring.next = si
	first.prev = si
}

func (q *queue) exit(ring *int32, si int32) {
	at := &q.subs[si].ring
	if at.next == si {
		*ring = nobody
	} else {
		q.subs[at.prev].ring.next = at.next
		q.subs[at.next].ring.prev = at.prev
		if *ring == si {
			*ring = at.next
		}
	}
	*at = link{nobody, nobody}
}
