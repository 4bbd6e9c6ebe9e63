package rls

import (
	"context"
	"sync"

	"github.com/titrate/titrate/control/limiter"
)

// The descriptors of a request that have to wait, for their share or for the owners of EXACT limits'
// keys, wait at the same time. So a request waits as long as the longest wait.

// waiting is a descriptor that waits.
type waiting struct {
	descriptor int // its index
	request    limiter.Request
	ticket     uint64
	handle     limiter.Handle
	ended      chan limiter.Outcome
}

// start decides a request. If it has to wait, it waits from now on: await has the outcome.
func (s *Server) start(r *limiter.Request) (limiter.Outcome, *waiting) {
	out := s.enforcer.Decide(r)
	if out.Verdict != limiter.Wait {
		return out, nil
	}
	w := &waiting{request: *r}
	w.ticket, w.ended = s.held.open()
	if out, w.handle = s.enforcer.Enqueue(r, w.ticket); out.Verdict != limiter.Wait {
		s.held.close(w.ticket)
		return out, nil
	}
	return out, w
}

// await returns the outcome of what waits, at most for as long as its caller waits.
func (s *Server) await(ctx context.Context, w *waiting) limiter.Outcome {
	defer s.held.close(w.ticket)
	select {
	case out := <-w.ended:
		return out
	case <-ctx.Done():
	}
	if s.enforcer.Cancel(w.handle) {
		return limiter.Outcome{Verdict: limiter.Reject, Reason: limiter.QueueTimeout}
	}
	return <-w.ended // it is being delivered
}

// spend charges a request whose outcome nobody waits for.
func (s *Server) spend(r *limiter.Request) {
	if _, w := s.start(r); w != nil {
		s.held.close(w.ticket)
	}
}

// held are the requests that wait, by ticket.
type held struct {
	mu   sync.Mutex
	last uint64
	all  map[uint64]chan limiter.Outcome
}

func (h *held) open() (uint64, chan limiter.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[uint64]chan limiter.Outcome{}
	}
	h.last++
	c := make(chan limiter.Outcome, 1)
	h.all[h.last] = c
	return h.last, c
}

func (h *held) close(ticket uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, ticket)
}

// deliver passes on what became of requests.
func (h *held) deliver(events []limiter.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		if c := h.all[e.Ticket]; c != nil {
			c <- e.Outcome // the first of its ticket: there is room
			delete(h.all, e.Ticket)
		}
	}
}
