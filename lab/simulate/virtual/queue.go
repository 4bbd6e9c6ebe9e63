// Package virtual has the queue of virtual time: what happens in a simulation, and when.
package virtual

import "time"

// Queue has events that are due at times, the earliest first. Events of one time come in the order in which they were
// added. The zero value is empty. Not safe for concurrent use.
type Queue[E any] struct {
	due   []entry[E] // a binary heap
	added uint64
}

type entry[E any] struct {
	at    time.Duration
	order uint64
	event E
}

func (e *entry[E]) before(other *entry[E]) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// Len is the number of events in the queue.
func (q *Queue[E]) Len() int { return len(q.due) }

// Add adds an event that is due at a time.
func (q *Queue[E]) Add(at time.Duration, event E) {
	q.added++
	q.due = append(q.due, entry[E]{at, q.added, event})
	for n := len(q.due) - 1; n > 0; {
		up := (n - 1) / 2
		if !q.due[n].before(&q.due[up]) {
			break
		}
		q.due[n], q.due[up] = q.due[up], q.due[n]
		n = up
	}
}

// Next takes the first event, if it is due until now, that included.
func (q *Queue[E]) Next(now time.Duration) (at time.Duration, event E, ok bool) {
	if len(q.due) == 0 || q.due[0].at > now {
		return at, event, false
	}
	first, last := q.due[0], len(q.due)-1
	q.due[0] = q.due[last]
	q.due[last] = entry[E]{} // what it points to is no longer held
	q.due = q.due[:last]
	for n := 0; ; {
		least := n
		for down := 2*n + 1; down <= 2*n+2 && down < last; down++ {
			if q.due[down].before(&q.due[least]) {
				least = down
			}
		}
		if least == n {
			return first.at, first.event, true
		}
		q.due[n], q.due[least] = q.due[least], q.due[n]
		n = least
	}
}
