package queue

// ring is a turn of lines with an eligible head.
type ring struct {
	at   int32 // the line served next
	left int64 // of its quantum; 0: its visit has not begun
	size int   // lines
	cost int64 // of the eligible requests that belong here
}

// link is a place in a ring; next is Nobody outside.
type link struct{ next, prev int32 }

// Next hands credit, fixed point, to the lines in turn until one of them can pay for its
// head, and returns that request. It returns Nobody when the credit is used up or nothing
// is eligible. step is the credit of 1 ms, or more if it would take many steps to hand out
// what there is.
func (q *Queue[R, L]) Next(credit, step int64) int32 {
	for k := range q.rings {
		r := &q.rings[k]
		for r.at != Nobody {
			l := &q.lines[r.at]
			if r.left == 0 {
				r.left = q.quantum(step)
			}
			cost := q.entries[l.head].Cost
			given := max(0, min(cost-l.deficit, r.left, credit))
			l.deficit += given
			q.saved += given
			credit -= given
			r.left -= given
			if r.left == 0 {
				r.at = l.ring.next
			}
			switch {
			case l.deficit >= cost:
				return l.head
			case credit <= 0:
				return Nobody
			}
		}
	}
	return Nobody
}

// quantum is the credit that a line is given in one visit.
func (q *Queue[R, L]) quantum(step int64) int64 {
	return max(1, q.least, min(q.eligibleCost/int64(q.eligible)/64, step))
}

// Serve removes the request that Next returned and pays for it.
func (q *Queue[R, L]) Serve(i int32) {
	cost := q.entries[i].Cost
	q.LineOf(i).deficit -= cost
	q.saved -= cost
	q.Remove(i)
}

// Head returns the request whose turn it is, whether or not it can be paid for, or
// Nobody.
func (q *Queue[R, L]) Head() int32 {
	for k := range q.rings {
		if at := q.rings[k].at; at != Nobody {
			return q.lines[at].head
		}
	}
	return Nobody
}

// Missing is the credit that the line of a head is short of.
func (q *Queue[R, L]) Missing(head int32) int64 {
	return q.entries[head].Cost - q.LineOf(head).deficit
}

// enterRing puts a line at the end of a ring: just before the one served next.
func (q *Queue[R, L]) enterRing(li int32, class Class) {
	l, r := &q.lines[li], &q.rings[class]
	l.class = class
	r.size++
	if r.at == Nobody {
		r.at, l.ring = li, link{li, li}
		return
	}
	first := &q.lines[r.at].ring
	l.ring = link{r.at, first.prev}
	q.lines[first.prev].ring.next = li
	first.prev = li
}

// exitRing takes a line out of its ring.
func (q *Queue[R, L]) exitRing(li int32) {
	l := &q.lines[li]
	r := &q.rings[l.class]
	r.size--
	if r.at == li {
		r.left = 0
	}
	if l.ring.next == li {
		r.at = Nobody
	} else {
		q.lines[l.ring.prev].ring.next = l.ring.next
		q.lines[l.ring.next].ring.prev = l.ring.prev
		if r.at == li {
			r.at = l.ring.next
		}
	}
	l.ring = link{Nobody, Nobody}
}
