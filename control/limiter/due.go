package limiter

// due is a heap of places of a queue, the one with the earliest time first: so a tick
// touches those that are due and no others. The place of each in the heap is kept
// beside it, so that any can leave. O(log n).
type due []int32

// timed says when a place is due, and where it keeps its place in the heap.
type timed interface {
	time(i int32) int64
	at(i int32) *int32
}

// retries are the subqueues with a held request, by the time to ask its limit again.
type retries struct{ q *queue }

func (r retries) time(si int32) int64 { return r.q.subs[si].retryAt }
func (r retries) at(si int32) *int32  { return &r.q.subs[si].due }

// deadlines are all requests, by the time until which they wait.
type deadlines struct{ q *queue }

func (d deadlines) time(i int32) int64 { return d.q.entries[i].deadline }
func (d deadlines) at(i int32) *int32  { return &d.q.entries[i].due }

func (h *due) push(by timed, i int32) {
	*h = append(*h, i)
	h.up(by, len(*h)-1)
}

// move puts a place right whose time has changed.
func (h *due) move(by timed, i int32) {
	k := int(*by.at(i))
	h.up(by, k)
	h.down(by, int(*by.at(i)))
}

func (h *due) remove(by timed, i int32) {
	k, last := int(*by.at(i)), len(*h)-1
	moved := (*h)[last]
	*h = (*h)[:last]
	if k < last {
		(*h)[k] = moved
		*by.at(moved) = int32(k)
		h.move(by, moved)
	}
}

func (h due) up(by timed, k int) {
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

func (h due) down(by timed, k int) {
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

func (h due) set(by timed, k int, i int32) {
	h[k] = i
	*by.at(i) = int32(k)
}

// postpone sets when a subqueue's limit is asked again.
func (q *queue) postpone(si int32, to int64) {
	q.subs[si].retryAt = to
	q.retry.move(retries{q}, si)
}

// stir makes all subqueues with a held request due.
func (q *queue) stir() {
	for _, si := range q.retry {
		q.subs[si].retryAt = 0
	}
}

// extend sets until when a request waits.
func (q *queue) extend(i int32, to int64) {
	q.entries[i].deadline = to
	q.ends.move(deadlines{q}, i)
}
