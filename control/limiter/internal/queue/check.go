package queue

import "fmt"

// Check walks the queue and compares its counts with what it finds, for tests.
func (q *Queue[R, L]) Check() error {
	eligible, held, cost := 0, 0, int64(0)
	for key, li := range q.byKey {
		l := &q.lines[li]
		if l.Key != key || l.head == Nobody {
			return fmt.Errorf("line %d: key %x, want %x, with a head", li, l.Key, key)
		}
		e, h, c, err := q.checkLine(li)
		if err != nil {
			return err
		}
		eligible, held, cost = eligible+e, held+h, cost+c
	}
	if eligible != q.eligible || held != q.held || cost != q.eligibleCost {
		return fmt.Errorf("the queue counts %d/%d/%d, found %d/%d/%d",
			q.eligible, q.held, q.eligibleCost, eligible, held, cost)
	}
	if len(q.deadlines) != q.Len() {
		return fmt.Errorf("%d deadlines, %d requests wait", len(q.deadlines), q.Len())
	}
	if err := q.retries.check(byRetry[R, L]{q}); err != nil {
		return err
	}
	return q.deadlines.check(byDeadline[R, L]{q})
}

func (q *Queue[R, L]) checkLine(li int32) (eligible, held int, cost int64, err error) {
	l := &q.lines[li]
	for i := l.head; i != Nobody; i = q.entries[i].next {
		e := &q.entries[i]
		switch {
		case !e.Eligible && held == 0 && l.firstHeld != i:
			return 0, 0, 0, fmt.Errorf("line %d: the first held request is not the first", li)
		case !e.Eligible:
			held++
		case held > 0:
			return 0, 0, 0, fmt.Errorf("line %d: an eligible request is behind a held one", li)
		default:
			eligible++
			cost += e.Cost
		}
	}
	if eligible != l.Eligible || held != l.Held || (eligible > 0) != (l.ring.next != Nobody) ||
		held > 0 && q.retries[l.atRetry] != li {
		return 0, 0, 0, fmt.Errorf("line %d counts %d/%d, found %d/%d", li, l.Eligible, l.Held, eligible, held)
	}
	return eligible, held, cost, nil
}

// check holds a heap against its order and the places that it keeps.
func (h heap) check(by order) error {
	for k, i := range h {
		if int(*by.at(i)) != k || k > 0 && by.time(h[(k-1)/2]) > by.time(i) {
			return fmt.Errorf("place %d of the heap: %d says that it is at %d, due at %d", k, i, *by.at(i), by.time(i))
		}
	}
	return nil
}
