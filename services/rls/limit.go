package rls

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

// answer is the decision about one descriptor.
type answer struct {
	over      bool
	reason    limiter.Reason
	limit     string // name of the limit that refused, of those of the domain "titrate"
	numbers   numbers
	remaining uint32
	reset     time.Duration // until the limit is whole again; of a refusal, until it may pass
}

// numbers has the requests and the unit of a limit, as the API has them.
type numbers struct {
	name     string
	requests uint32
	unit     ratelimitconfig.Unit // NoUnit: no limit applies
}

// decide decides a descriptor of a tenant that has one limit of requests per unit, or returns what it
// waits for. hits 0 asks whether one more request would pass, and charges nothing.
func (s *Server) decide(tenant, client string, requests uint32, hits uint64) (answer, *waiting) {
	r := limiter.Request{Tenant: tenant, Client: client, Cost: s.cost(hits)}
	if hits == 0 {
		out, left := s.enforcer.Peek(&r)
		return asAnswer(out, left, requests), nil
	}
	out := neverPasses
	if hits <= uint64(requests) {
		var w *waiting
		if out, w = s.start(&r); w != nil {
			return answer{}, w
		}
	}
	return s.charged(&r, out, requests), nil
}

// charged is the answer to a request that the engine has decided. A refused one takes what is left.
func (s *Server) charged(r *limiter.Request, out limiter.Outcome, requests uint32) answer {
	left := s.enforcer.Allowance(r, out.Reason)
	rest := math.Floor(left.Remaining + rounding)
	if out.Verdict == limiter.Reject && out.Reason == limiter.ClientLimit && rest >= 1 && !s.o.StopOverLimit {
		r.Cost = rest
		s.spend(r)
	}
	return asAnswer(out, left, requests)
}

// cost returns the cost that the engine decides hits by, and counts hits that are more than it decides at once. With 0
// hits the engine is only asked about one.
func (s *Server) cost(hits uint64) float64 {
	if hits > limiter.MaxCost {
		s.counts.capped.Add(1)
	}
	return float64(max(1, min(hits, limiter.MaxCost)))
}

// neverPasses is the answer to more hits than the limit has in its unit.
var neverPasses = limiter.Outcome{Verdict: limiter.Reject, Reason: limiter.ClientLimit}

// rounding is the part that may be missing of a whole unit.
const rounding = 1e-6

func asAnswer(out limiter.Outcome, left limiter.Allowance, requests uint32) answer {
	a := answer{over: out.Verdict != limiter.Admit, reason: out.Reason, limit: out.Limit, reset: left.Reset}
	if !a.over {
		a.remaining = uint32(min(math.Floor(left.Remaining+rounding), float64(requests)))
	} else if out.RetryAfter > 0 {
		a.reset = out.RetryAfter
	}
	return a
}
