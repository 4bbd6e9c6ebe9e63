// Package queue has the queue of one flow: requests of one tenant that wait for one
// pool, in a line per client. Within a line the order is strictly first in, first out:
//
//	head → eligible … eligible → held … held ← tail
//
// A client whose requests meet different limits with queues, by their identities or
// classes, has a line for each combination.
//
// A held request waits for a limit of its client. An eligible one has been charged to
// the limits and waits for the tenant's share. Lines with a held request are in a heap
// by the time to ask its limit again, requests are in a heap by their deadline.
//
// # Turns
//
// Lines with an eligible head are in one of two rings. The Front is for requests of
// clients that were within their equal part of the share when they sent them, the Back
// for all others. The front is served first, each ring by deficit round robin. The credit
// that the controller releases is handed out in quanta, and a head leaves when the
// deficit of its line has reached its cost. A costly request saves up what its client is
// due, turn by turn, and the requests of other clients pass meanwhile. What a line has
// saved is credit and is kept for it.
//
//	quantum = max(least, min(mean/64, 1 ms of the rate))
//	least   smallest cost since the queue was last empty; mean, of what waits
//
// So a turn of the ring is one request of each client where costs are alike, at most a
// millisecond for each where they are not. Handing out the credit of one mean request takes
// at most 64 steps.
//
// Deficit round robin is after Shreedhar and Varghese (1995).
//
// Requests and lines are named by int32 places in slabs. Insertion, removal anywhere and
// the next release are O(1), the last one amortised; the heaps are O(log n). The queue
// does not lock: its owner does.
package queue

import (
	"math"
	"strings"
)

// MaxPlaces is the most requests of one queue.
const MaxPlaces = 1 << 20

// MaxGeneration is the largest generation of a place; the next one is 1 again.
const MaxGeneration = 1<<20 - 1

// Nobody is the place of no request, and of no line.
const Nobody int32 = -1

// Class is the ring in which a request takes its turn.
type Class uint8

// The rings, in the order in which they are served.
const (
	Front Class = iota
	Back
)

// Queue holds requests that the caller describes by an R each, and lines that it
// describes by an L each while they have a held request.
type Queue[R, L any] struct {
	entries   []Entry[R]
	freeEntry int32 // list through next
	lines     []Line[L]
	freeLine  int32
	byKey     map[uint64]int32

	rings     [2]ring // of lines with an eligible head
	retries   heap    // lines with a held request
	deadlines heap    // requests

	eligible     int   // requests
	eligibleCost int64 // fixed point
	held         int
	saved        int64  // the sum of the lines' deficits
	least        int64  // smallest cost since the queue was last empty
	generation   uint32 // after which new places begin
}

// Entry is one waiting request.
type Entry[R any] struct {
	Request  R
	Cost     int64 // fixed point
	Since    int64 // when it arrived
	Deadline int64 // see Extend, once the request is in the queue
	Class    Class // of an eligible request
	Eligible bool

	next, prev int32
	line       int32
	atDeadline int32 // its place in Queue.deadlines
	generation uint32
	used       bool
}

// Line is the requests of one client.
type Line[L any] struct {
	Hold         L // of the first held request; the caller's
	Client       string
	Key          uint64
	Held         int
	HeldCost     int64
	Eligible     int
	EligibleCost int64
	FrontCost    int64 // of that, in front

	head, tail int32
	firstHeld  int32
	deficit    int64 // credit saved for the head
	retryAt    int64 // the limit of the held requests is not asked before
	class      Class // the ring that it is in, while it has an eligible head
	ring       link  // its place there
	atRetry    int32 // its place in Queue.retries, while it has a held request
}

// New returns an empty queue whose places begin after a generation.
func New[R, L any](generation uint32) *Queue[R, L] {
	return &Queue[R, L]{
		generation: generation, freeEntry: Nobody, freeLine: Nobody, byKey: map[uint64]int32{},
		rings: [2]ring{{at: Nobody}, {at: Nobody}}, least: math.MaxInt64,
	}
}

// Len is the number of requests.
func (q *Queue[R, L]) Len() int { return q.eligible + q.held }

// Held is the number of requests that wait for a limit.
func (q *Queue[R, L]) Held() int { return q.held }

// Eligible is the number of requests that wait for the share.
func (q *Queue[R, L]) Eligible() int { return q.eligible }

// EligibleCost is their cost.
func (q *Queue[R, L]) EligibleCost() int64 { return q.eligibleCost }

// FrontCost is the part of it that waits in front.
func (q *Queue[R, L]) FrontCost() int64 { return q.rings[Front].cost }

// Clients is the number of lines with eligible requests.
func (q *Queue[R, L]) Clients() int { return q.rings[Front].size + q.rings[Back].size }

// Saved is the credit that lines have and have not used.
func (q *Queue[R, L]) Saved() int64 { return q.saved }

// Entry returns the request at a place. The pointer is valid until the next Push.
func (q *Queue[R, L]) Entry(i int32) *Entry[R] { return &q.entries[i] }

// LineOf returns the line of a request. The pointer is valid until the next Push.
func (q *Queue[R, L]) LineOf(i int32) *Line[L] { return &q.lines[q.entries[i].line] }

// Generation is the generation of a place: it changes with each request that is put there.
func (q *Queue[R, L]) Generation(i int32) uint32 { return q.entries[i].generation }

// Waits reports whether the request that was put at a place with a generation waits.
func (q *Queue[R, L]) Waits(i int32, generation uint32) bool {
	return int(i) < len(q.entries) && q.entries[i].used && q.entries[i].generation == generation
}

// LatestGeneration is the largest generation of a place.
func (q *Queue[R, L]) LatestGeneration() uint32 {
	most := q.generation
	for i := range q.entries {
		most = max(most, q.entries[i].generation)
	}
	return most
}

// All calls visit with each place that has a request. visit may remove that one.
func (q *Queue[R, L]) All(visit func(i int32)) {
	for i := range q.entries {
		if q.entries[i].used {
			visit(int32(i))
		}
	}
}

// Find returns the line with a key, or nil. The pointer is valid until the next Push.
func (q *Queue[R, L]) Find(key uint64) *Line[L] {
	if i, ok := q.byKey[key]; ok {
		return &q.lines[i]
	}
	return nil
}

// Push appends a request to the line with a key, and makes the line if need be. An
// eligible one may only follow eligible ones.
func (q *Queue[R, L]) Push(key uint64, client string, e Entry[R]) int32 {
	li := q.obtainLine(key, client)
	i := q.freeEntry
	if i != Nobody {
		q.freeEntry = q.entries[i].next
		e.generation = q.entries[i].generation
	} else {
		i = int32(len(q.entries))
		q.entries = append(q.entries, Entry[R]{})
		e.generation = q.generation
	}
	e.generation = e.generation%MaxGeneration + 1
	l := &q.lines[li]
	e.line, e.prev, e.next, e.used = li, l.tail, Nobody, true
	q.entries[i] = e
	q.deadlines.push(byDeadline[R, L]{q}, i)
	if l.tail == Nobody {
		l.head = i
	} else {
		q.entries[l.tail].next = i
	}
	l.tail = i
	if e.Eligible {
		q.joinEligible(li, i)
	} else {
		q.joinHeld(li, i)
	}
	return i
}

func (q *Queue[R, L]) obtainLine(key uint64, client string) int32 {
	if i, ok := q.byKey[key]; ok {
		return i
	}
	i := q.freeLine
	if i != Nobody {
		q.freeLine = q.lines[i].ring.next
	} else {
		i = int32(len(q.lines))
		q.lines = append(q.lines, Line[L]{})
	}
	// The client's name outlives the request whose strings it aliases.
	q.lines[i] = Line[L]{
		Client: strings.Clone(client), Key: key, head: Nobody, tail: Nobody, firstHeld: Nobody,
		ring: link{Nobody, Nobody},
	}
	q.byKey[key] = i
	return i
}

func (q *Queue[R, L]) joinEligible(li, i int32) {
	l, e := &q.lines[li], &q.entries[i]
	e.Eligible = true
	l.Eligible++
	q.eligible++
	q.countCost(l, e, e.Cost)
	q.least = min(q.least, e.Cost)
	if l.Eligible == 1 {
		q.enterRing(li, e.Class)
	}
}

// countCost adds cost to the sums of eligible requests.
func (q *Queue[R, L]) countCost(l *Line[L], e *Entry[R], cost int64) {
	l.EligibleCost += cost
	q.eligibleCost += cost
	q.rings[e.Class].cost += cost
	if e.Class == Front {
		l.FrontCost += cost
	}
}

func (q *Queue[R, L]) joinHeld(li, i int32) {
	l := &q.lines[li]
	l.Held++
	l.HeldCost += q.entries[i].Cost
	q.held++
	if l.Held == 1 {
		l.firstHeld = i
		q.retries.push(byRetry[R, L]{q}, li)
	}
}

func (q *Queue[R, L]) leaveHeld(li, after int32, cost int64) {
	l := &q.lines[li]
	l.Held--
	l.HeldCost -= cost
	q.held--
	l.firstHeld = after
	if l.Held == 0 {
		l.firstHeld = Nobody
		q.retries.remove(byRetry[R, L]{q}, li)
	}
}
