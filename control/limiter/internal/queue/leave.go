package queue

import "math"

// Promote makes the first held request of its line eligible, in the ring of its class.
func (q *Queue[R, L]) Promote(i int32) {
	e := &q.entries[i]
	q.leaveHeld(e.line, e.next, e.Cost)
	q.joinEligible(e.line, i)
}

// Remove takes a request out, wherever it is, and frees its place.
func (q *Queue[R, L]) Remove(i int32) {
	e := &q.entries[i]
	li, eligible := e.line, e.Eligible
	l := &q.lines[li]
	if eligible {
		l.Eligible--
		q.eligible--
		q.countCost(l, e, -e.Cost)
	} else {
		first := l.firstHeld
		if first == i {
			first = e.next
		}
		q.leaveHeld(li, first, e.Cost)
	}
	q.deadlines.remove(byDeadline[R, L]{q}, i)
	q.unlink(l, e)
	*e = Entry[R]{generation: e.generation, next: q.freeEntry}
	q.freeEntry = i
	if eligible {
		q.reorder(li)
	}
	if l.head == Nobody {
		q.dropLine(li)
	}
	if q.eligible == 0 {
		q.least = math.MaxInt64
	}
}

// reorder puts a line that has lost an eligible request into the ring of its head, and
// returns the credit that it needs no more.
func (q *Queue[R, L]) reorder(li int32) {
	l := &q.lines[li]
	need := int64(0)
	if l.Eligible == 0 {
		q.exitRing(li)
	} else {
		head := &q.entries[l.head]
		need = head.Cost
		if head.Class != l.class {
			q.exitRing(li)
			q.enterRing(li, head.Class)
		}
	}
	if l.deficit > need {
		q.saved -= l.deficit - need
		l.deficit = need
	}
}

func (q *Queue[R, L]) unlink(l *Line[L], e *Entry[R]) {
	if e.prev == Nobody {
		l.head = e.next
	} else {
		q.entries[e.prev].next = e.next
	}
	if e.next == Nobody {
		l.tail = e.prev
	} else {
		q.entries[e.next].prev = e.prev
	}
}

func (q *Queue[R, L]) dropLine(li int32) {
	delete(q.byKey, q.lines[li].Key)
	q.lines[li] = Line[L]{ring: link{next: q.freeLine}}
	q.freeLine = li
}
