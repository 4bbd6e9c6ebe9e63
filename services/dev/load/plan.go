package load

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/titrate/titrate/services/dev/scenario"
)

// Shot is one planned request. Tenant, Client and Gateway are indexes into the
// scenario's lists.
type Shot struct {
	T       float64 // s since the start
	Tenant  int
	Client  int
	Gateway int
}

// NewPlan is the schedule of a valid scenario, and sets its Planned.
func NewPlan(s *scenario.Scenario) []Shot {
	var plan []Shot
	for t := range s.Tenants {
		for c := range s.Tenants[t].Clients {
			plan = append(plan, clientPlan(s, t, c)...)
		}
	}
	slices.SortStableFunc(plan, func(a, b Shot) int { return cmp.Compare(a.T, b.T) })
	s.Planned = len(plan)
	return plan
}

// clientPlan draws one client's requests from a source of its own, so that
// another client's numbers never move them.
func clientPlan(s *scenario.Scenario, tenant, client int) []Shot {
	c := &s.Tenants[tenant].Clients[client]
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	rng := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	turn := newRotation(s.Gateways)
	var shots []Shot
	for i, phase := range s.Phases {
		for _, at := range times(rng, c.Process, c.Rates[i], phase.Start, phase.End) {
			shots = append(shots, Shot{T: at, Tenant: tenant, Client: client, Gateway: turn.next()})
		}
	}
	return shots
}

// times are the instants in [from, to) of a process of the given mean rate.
func times(rng *rand.Rand, p scenario.Process, rate, from, to float64) []float64 {
	if rate <= 0 {
		return nil
	}
	gap := func() float64 { return rng.ExpFloat64() / rate }
	at := from + gap()
	if p == scenario.Constant {
		gap = func() float64 { return 1 / rate }
		at = from + rng.Float64()/rate
	}
	var out []float64
	for ; at < to; at += gap() {
		out = append(out, at)
	}
	return out
}

// rotation is smooth weighted round robin: each turn credits every gateway its
// weight and picks the richest, which pays the sum.
type rotation struct {
	weights, credit []float64
	total           float64
}

func newRotation(gateways []scenario.Gateway) *rotation {
	r := &rotation{credit: make([]float64, len(gateways))}
	for _, g := range gateways {
		r.weights = append(r.weights, g.Weight)
		r.total += g.Weight
	}
	return r
}

func (r *rotation) next() int {
	best := 0
	for i, w := range r.weights {
		r.credit[i] += w
		if r.credit[i] > r.credit[best] {
			best = i
		}
	}
	r.credit[best] -= r.total
	return best
}
