package rls

import (
	"context"
	"math"
	"sync"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

// Domain is the domain by which the tenants' own limits and shares are asked. No file has
// a say in it. The entries of its descriptors say whose request it is:
//
//	tenant, client, pool   as the filter's settings of these names
//	class                  a class that the request is in; may be repeated
//	any other key          an identity of that name
const Domain = "titrate"

// decideDirectly decides a request to Domain.
func (s *Server) decideDirectly(ctx context.Context, r *api.RateLimitRequest) []decision {
	all := make([]decision, len(r.GetDescriptors()))
	for i, d := range r.GetDescriptors() {
		if ctx.Err() != nil { // nobody waits for the rest
			break
		}
		hits := hitsOf(r, d)
		request := s.requestOf(d)
		request.Cost = float64(max(1, min(hits, limiter.MaxCost)))
		if hits > limiter.MaxCost {
			s.counts.capped.Add(1)
		}
		all[i] = s.decideRequest(ctx, &request, hits == 0)
		s.counts.hits.add(&all[i], hits)
	}
	return all
}

// requestOf is the request that a descriptor describes.
func (s *Server) requestOf(d *ratelimitv3.RateLimitDescriptor) limiter.Request {
	r := limiter.Request{Identities: &limiter.Identities{}}
	names := s.composer.names.Load()
	for _, e := range d.GetEntries() {
		switch key, value := e.GetKey(), e.GetValue(); key {
		case "tenant":
			r.Tenant = value
		case "client":
			r.Client = value
		case "pool":
			r.Pool = value
		case "class":
			for i, name := range names.Classes {
				if name == value && name != "" {
					r.Classes |= 1 << i
				}
			}
		default:
			for i, name := range names.Identities {
				if name == key && name != "" {
					r.Identities[i] = value
				}
			}
		}
	}
	return r
}

func (s *Server) decideRequest(ctx context.Context, r *limiter.Request, ask bool) decision {
	var out limiter.Outcome
	var left limiter.Allowance
	if ask {
		out, left = s.enforcer.Peek(r)
	} else {
		out = s.pass(ctx, r)
		left = s.enforcer.Allowance(r, out.Reason)
	}
	switch {
	case out.Reason == limiter.UnknownTenant: // there is no configuration yet
		s.counts.undecided.Add(1)
		return decision{}
	case left.Limit == "" && out.Verdict == limiter.Admit:
		return decision{}
	}
	d := decision{limited: true, answer: asAnswer(out, left, math.MaxUint32),
		metric: Domain + "." + r.Tenant + "." + left.Limit}
	if ask && out.Verdict == limiter.Wait { // it would be held, not refused
		d.over = false
	}
	d.numbers = apiNumbers(left)
	return d
}

// apiNumbers says a rate as the API does: a whole number per unit, of the shortest unit in
// which it is whole; if there is none, of a day.
func apiNumbers(a limiter.Allowance) numbers {
	n := numbers{name: a.Limit}
	for _, u := range []ratelimitconfig.Unit{ratelimitconfig.Second, ratelimitconfig.Minute, ratelimitconfig.Hour,
		ratelimitconfig.Day} {
		amount := a.Rate * u.Length().Seconds()
		whole := math.Round(amount)
		n.unit, n.requests = u, uint32(min(amount, math.MaxUint32))
		if whole >= 1 && math.Abs(amount-whole) <= rounding*whole {
			n.requests = uint32(min(whole, math.MaxUint32))
			break
		}
	}
	return n
}

// pass decides a request that may have to wait: for its share, or for the owner of an EXACT limit's key.
func (s *Server) pass(ctx context.Context, r *limiter.Request) limiter.Outcome {
	out := s.enforcer.Decide(r)
	if out.Verdict == limiter.Wait {
		out = s.wait(ctx, r)
	}
	return out
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

// wait holds a request until it may pass or is refused, at most for as long as its caller
// waits.
func (s *Server) wait(ctx context.Context, r *limiter.Request) limiter.Outcome {
	ticket, ended := s.held.open()
	defer s.held.close(ticket)
	out, handle := s.enforcer.Enqueue(r, ticket)
	if out.Verdict != limiter.Wait {
		return out
	}
	select {
	case out = <-ended:
		return out
	case <-ctx.Done():
	}
	if s.enforcer.Cancel(handle) {
		return limiter.Outcome{Verdict: limiter.Reject, Reason: limiter.QueueTimeout}
	}
	return <-ended // it is being delivered
}
