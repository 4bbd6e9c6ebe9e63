package rls

import (
	"context"
	"math"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
	"github.com/titrate/titrate/services/rls/subject"
)

// Domain is the domain by which the tenants' own limits and shares are asked. No file has a say in it. Package subject
// reads the entries of its descriptors.
const Domain = subject.Domain

// decideDirectly decides a request to Domain.
func (s *Server) decideDirectly(ctx context.Context, r *api.RateLimitRequest) []decision {
	all := make([]decision, len(r.GetDescriptors()))
	var waits []*waiting
	for i, d := range r.GetDescriptors() {
		if ctx.Err() != nil {
			break
		}
		hits := hitsOf(r, d)
		request := s.requestOf(d)
		request.Cost = s.cost(hits)
		if hits == 0 {
			out, left := s.enforcer.Peek(&request)
			all[i] = s.asDecision(&request, out, left)
			all[i].over = all[i].over && out.Verdict != limiter.Wait // it would be held, not refused
			continue
		}
		out, w := s.start(&request)
		if w != nil {
			w.descriptor = i
			waits = append(waits, w)
			continue
		}
		all[i] = s.chargedDirectly(&request, out, hits)
	}
	for _, w := range waits {
		out := s.await(ctx, w)
		all[w.descriptor] = s.chargedDirectly(&w.request, out, hitsOf(r, r.GetDescriptors()[w.descriptor]))
	}
	return all
}

// chargedDirectly is the decision about a request that is not only asked about.
func (s *Server) chargedDirectly(r *limiter.Request, out limiter.Outcome, hits uint64) decision {
	d := s.asDecision(r, out, s.enforcer.Allowance(r, out.Reason))
	s.counts.hits.add(&d, hits)
	return d
}

// requestOf is the request that a descriptor describes.
func (s *Server) requestOf(d *ratelimitv3.RateLimitDescriptor) limiter.Request {
	r := subject.New(s.composer.names.Load())
	for _, e := range d.GetEntries() {
		r.Add(e.GetKey(), e.GetValue())
	}
	return r.Request
}

// asDecision converts an outcome of the engine to a decision of the API.
func (s *Server) asDecision(r *limiter.Request, out limiter.Outcome, left limiter.Allowance) decision {
	switch {
	case out.Reason == limiter.UnknownTenant: // there is no configuration yet
		s.counts.undecided.Add(1)
		return decision{}
	case left.Limit == "" && out.Verdict == limiter.Admit:
		return decision{}
	}
	d := decision{limited: true, answer: asAnswer(out, left, math.MaxUint32),
		metric: Domain + "." + r.Tenant + "." + left.Limit}
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
