package queue

// heap is a binary heap of places, the one with the earliest time first: so a tick
// touches due places only. Each place knows where it is in the heap, so
// that any can leave. O(log n).
type heap []int32

// order says when a place is due, and where it keeps its place in the heap.
type order interface {
	time(i int32) int64
	at(i int32) *int32
}

// byRetry orders lines by the time to ask the limit of their held requests again.
type byRetry[R, L any] struct{ q *Queue[R, L] }

func (o byRetry[R, L]) time(li int32) int64 { return o.q.lines[li].retryAt }
func (o byRetry[R, L]) at(li int32) *int32  { return &o.q.lines[li].atRetry }

// byDeadline orders requests by the time until which they wait.
type byDeadline[R, L any] struct{ q *Queue[R, L] }

func (o byDeadline[R, L]) time(i int32) int64 { return o.q.entries[i].Deadline }
func (o byDeadline[R, L]) at(i int32) *int32  { return &o.q.entries[i].atDeadline }

func (h *heap) push(by order, i int32) {
	*h = append(*h, i)
	h.up(by, len(*h)-1)
}

// move puts a place right whose time has changed.
func (h *heap) move(by order, i int32) {
	k := int(*by.at(i))
	h.up(by, k)
	h.down(by, int(*by.at(i)))
}

func (h *heap) remove(by order, i int32) {
	k, last := int(*by.at(i)), len(*h)-1
	moved := (*h)[last]
	*h = (*h)[:last]
	if k < last {
		(*h)[k] = moved
		*by.at(moved) = int32(k)
		h.move(by, moved)
	}
}

func (h heap) up(by order, k int) {
	i := h[k]
	for k > 0 {
		above := (k - 1) / 2
		if by.time(h[above]) <= by.time(i) {
			break
		}
		h.set(by, k, h[above])
		k = above
	}
	h.set(by, k, i)
}

func (h heap) down(by order, k int) {
	i := h[k]
	for {
		below := 2*k + 1
		if below+1 < len(h) && by.time(h[below+1]) < by.time(h[below]) {
			below++
		}
		if below >= len(h) || by.time(h[below]) >= by.time(i) {
			break
		}
		h.set(by, k, h[below])
		k = below
	}
	h.set(by, k, i)
}

func (h heap) set(by order, k int, i int32) {
	h[k] = i
	*by.at(i) = int32(k)
}

// NextDeadline returns the request with the earliest deadline, or Nobody.
func (q *Queue[R, L]) NextDeadline() int32 {
	if len(q.deadlines) == 0 {
		return Nobody
	}
	return q.deadlines[0]
}

// Extend sets until when a request waits.
func (q *Queue[R, L]) Extend(i int32, to int64) {
	q.entries[i].Deadline = to
	q.deadlines.move(byDeadline[R, L]{q}, i)
}

// NextRetry returns the first held request of the line whose limit is to be asked first,
// and when; Nobody if nothing is held.
func (q *Queue[R, L]) NextRetry() (i int32, at int64) {
	if len(q.retries) == 0 {
		return Nobody, 0
	}
	l := &q.lines[q.retries[0]]
	return l.firstHeld, l.retryAt
}

// RetryAt sets when the limit of a held request's line is asked again.
func (q *Queue[R, L]) RetryAt(i int32, at int64) {
	li := q.entries[i].line
	q.lines[li].retryAt = at
	q.retries.move(byRetry[R, L]{q}, li)
}

// RetryAll has the limits of all held requests asked at once.
func (q *Queue[R, L]) RetryAll() {
	for _, li := range q.retries {
		q.lines[li].retryAt = 0
	}
}
