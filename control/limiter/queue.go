package limiter

// The queue of one flow: requests of one tenant that wait for one pool, in a
// subqueue per client. Within a subqueue order is strictly first in, first out:
//
//	head → eligible … eligible → held … held ← tail
//
// A client whose requests meet different limits with queues, by their identities
// or classes, has a subqueue for each combination.
//
// A held request waits for a limit of its client; an eligible one has been
// charged to the limits and waits for the tenant's share. Subqueues with an
// eligible head stand in a ring and are served by deficit round robin in cost;
// those with a held request stand in a second ring that is scanned for requests
// whose limit admits them now.
//
// Everything lives in slabs indexed by int32; insertion, removal anywhere and
// the next release are O(1). Not safe for concurrent use: the flow's mutex
// guards it.
type queue struct {
	entries   []entry
	freeEntry int32 // list through next
	subs      []sub
	freeSub   int32
	byClient  map[uint64]int32

	ring     int32 // the subqueue served next, of those with an eligible head
	visiting bool  // it has had its quantum for this visit
	heldRing int32

	eligible     int   // requests
	eligibleCost int64 // fixed point
	held         int
	ringSize     int
	quantum      int64 // largest cost since the queue was last empty
}

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
	generation uint32
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
	held         int
	heldCost     int64
	deficit      int64
	retryAt      int64  // the held ones' limit is not asked before
	expected     int64  // when it may admit the first of them
	by           *limit // the limit that they wait for
	ring, held2  link   // places in the two rings
}

// link is a place in a ring; next is nobody outside.
type link struct{ next, prev int32 }

func newQueue() *queue {
	return &queue{freeEntry: nobody, freeSub: nobody, ring: nobody, heldRing: nobody, byClient: map[uint64]int32{}}
}

func (q *queue) len() int { return q.eligible + q.held }

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
		ring: link{nobody, nobody}, held2: link{nobody, nobody},
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
	}
	e.generation = e.generation&generationMask + 1
	if e.generation > generationMask {
		e.generation = 1
	}
	s := &q.subs[si]
	e.sub, e.prev, e.next, e.used = si, s.tail, nobody, true
	q.entries[i] = e
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
	q.quantum = max(q.quantum, e.cost)
	if s.eligible == 1 {
		s.deficit = 0
		q.enter(&q.ring, si, ringOf)
		q.ringSize++
	}
}

func (q *queue) joinHeld(si, i int32) {
	s := &q.subs[si]
	s.held++
	s.heldCost += q.entries[i].cost
	q.held++
	if s.held == 1 {
		s.firstHeld = i
		q.enter(&q.heldRing, si, heldOf)
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
		q.exit(&q.heldRing, si, heldOf)
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
		if s.eligible == 0 {
			if q.ring == si {
				q.visiting = false
			}
			q.exit(&q.ring, si, ringOf)
			q.ringSize--
		}
	} else {
		first := s.firstHeld
		if first == i {
			first = e.next
		}
		q.leaveHeld(si, first, e.cost)
	}
	q.unlink(s, e)
	*e = entry{generation: e.generation, next: q.freeEntry}
	q.freeEntry = i
	if s.head == nobody {
		q.dropSub(si)
	}
	if q.eligible == 0 {
		q.quantum = 0
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

// next returns the request whose turn it is, or nobody. It gives a subqueue its
// quantum once per visit and moves on when that is spent; because the quantum
// is at least the largest cost waiting, one turn of the ring is enough.
func (q *queue) next() int32 {
	for q.ring != nobody {
		s := &q.subs[q.ring]
		if !q.visiting {
			s.deficit += q.quantum
			q.visiting = true
		}
		if q.entries[s.head].cost <= s.deficit {
			return s.head
		}
		q.ring, q.visiting = s.ring.next, false
	}
	return nobody
}

// serve removes the request that next returned and pays for it.
func (q *queue) serve(i int32) {
	e := &q.entries[i]
	q.subs[e.sub].deficit -= e.cost
	q.remove(i)
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

func ringOf(s *sub) *link { return &s.ring }
func heldOf(s *sub) *link { return &s.held2 }

// enter puts a subqueue at the end of a ring: just before the one served next.
func (q *queue) enter(ring *int32, si int32, of func(*sub) *link) {
	at := of(&q.subs[si])
	if *ring == nobody {
		*ring, at.next, at.prev = si, si, si
		return
	}
	first := of(&q.subs[*ring])
	at.next, at.prev = *ring, first.prev
	of(&q.subs[first.prev]).next = si
	first.prev = si
}

func (q *queue) exit(ring *int32, si int32, of func(*sub) *link) {
	at := of(&q.subs[si])
	if at.next == si {
		*ring = nobody
	} else {
		of(&q.subs[at.prev]).next = at.next
		of(&q.subs[at.next]).prev = at.prev
		if *ring == si {
			*ring = at.next
		}
	}
	*at = link{nobody, nobody}
}
