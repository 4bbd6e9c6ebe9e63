package load

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/titrate/titrate/lab/dev/scenario"
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

// clientPlan draws one client's requests from the client's own random source, so that another client's numbers
// never move them.
func clientPlan(s *scenario.Scenario, tenant, client int) []Shot {
	c := &s.Tenants[tenant].Clients[client]
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	rng := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	next := spread(c, s.Gateways)
	var shots []Shot
	for i, phase := range s.Phases {
		for _, at := range times(rng, c, c.Rates[i], phase.Start, phase.End, len(s.Gateways)) {
			shots = append(shots, Shot{T: at, Tenant: tenant, Client: client, Gateway: next()})
		}
	}
	return shots
}

// spread gives the gateway of one request after the other.
func spread(c *scenario.Client, gateways []scenario.Gateway) (next func() int) {
	if c.Process != scenario.Hop && c.Process != scenario.Rush {
		return newRotation(gateways).next
	}
	sent, burst := 0, int(c.Limit.Burst)
	return func() int {
		sent++
		return (sent - 1) / burst % len(gateways)
	}
}

// times are the instants in [from, to) of a client's process of the given mean rate.
func times(rng *rand.Rand, c *scenario.Client, rate, from, to float64, gateways int) []float64 {
	if rate <= 0 {
		return nil
	}
	switch c.Process {
	case scenario.Constant:
		return even(rng, rate, from, to)
	case scenario.Hop:
		return bursts(even(rng, rate/c.Limit.Burst, from, to), 1, int(c.Limit.Burst))
	case scenario.Rush:
		// The last round is over before the end.
		rounds := even(rng, rate/c.Limit.Burst/float64(gateways), from, to-scenario.RushGap*float64(gateways))
		return bursts(rounds, gateways, int(c.Limit.Burst))
	}
	var out []float64
	for at := from + rng.ExpFloat64()/rate; at < to; at += rng.ExpFloat64() / rate {
		out = append(out, at)
	}
	return out
}

// even are instants at equal distances, from a random offset.
func even(rng *rand.Rand, rate, from, to float64) (out []float64) {
	for at := from + rng.Float64()/rate; at < to; at += 1 / rate {
		out = append(out, at)
	}
	return out
}

// bursts are n bursts of some requests each, RushGap apart, from each of the given instants on.
func bursts(starts []float64, n, size int) (out []float64) {
	for _, start := range starts {
		for i := range n {
			for range size {
				out = append(out, start+float64(i)*scenario.RushGap)
			}
		}
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
