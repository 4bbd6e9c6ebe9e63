package scenario

import (
	"fmt"
	"time"
)

// MinDuration is the shortest demo: below it a phase is too short for a killed
// coordinator to come back and be seen working, and for 5 % to be distinguished from noise.
const MinDuration = 24 * time.Second

// MaxGateways bounds the demo's gateways: each is an Envoy process.
const MaxGateways = 9

// Names of the demo's phases.
const (
	Steady      = "steady"
	Hops        = "hops"
	Greed       = "greed"
	Coordinator = "coordinator"
	Agent       = "agent"
)

// The demo's numbers. Capacity and limits are the same as in lab/dev/demo.yaml; a test compares them. They
// are chosen for two shared cores: 420 requests/s offered in the steady phase, 480 while clients hop, 620 under
// greed, 300 admitted.
const (
	demoCapacity  = 300
	demoTarget    = .2 // s
	coreGuarantee = 150
	globalRate    = 60
	globalBurst   = 60
	smallRate     = 5
	smallBurst    = 10
	hopRate       = 10
	hopBurst      = 10
)

// Demo returns the built-in scenario over the given duration (at least MinDuration) and number of gateways (1
// to MaxGateways).
//
// Three tenants ask for more than their fair share in every phase, so that the run tests fairness: acme, bolt
// and dart. In the phase greed, dart triples its demand. The fourth, core, stays below its share, which a
// guarantee reserves for it, and has the two limited clients. A 429 for a client of core below its limit is
// always an error. Of the two faults, each finds one of these clients above its limit and one below.
//
// A fifth tenant, hop, has three clients that hop between the gateways in full bursts, in the phase of that
// name. exact and local ask for three times the same limit, whose precision is EXACT for exact and LOCAL for
// local; within stays below its EXACT limit. The share of hop is not enforced, so that only these limits delay
// a burst.
func Demo(duration time.Duration, gateways int, seed uint64) (*Scenario, error) {
	if duration < MinDuration {
		return nil, fmt.Errorf("a demo of %v is too short to show its five phases, the least is %v", duration,
			MinDuration)
	}
	if gateways < 1 || gateways > MaxGateways {
		return nil, fmt.Errorf("%d gateways: must be 1 to %d", gateways, MaxGateways)
	}
	s := &Scenario{
		Version:  Version,
		Seed:     seed,
		Pool:     Pool{Name: "api", Capacity: demoCapacity, Target: demoTarget},
		Gateways: demoGateways(gateways),
		Tenants:  demoTenants(),
	}
	s.Phases = demoPhases(duration.Seconds(), s.Gateways)
	return s, s.Validate()
}

// demoGateways spreads the load 6:3:1; gateways beyond the third get 1 each.
func demoGateways(n int) []Gateway {
	weights := []float64{6, 3, 1}
	gateways := make([]Gateway, n)
	for i := range gateways {
		w := 1.0
		if i < len(weights) {
			w = weights[i]
		}
		gateways[i] = Gateway{Name: fmt.Sprintf("gw-%d", i+1), Weight: w}
	}
	return gateways
}

// demoTenants gives per client the rates in steady, hops, greed, coordinator, agent.
func demoTenants() []Tenant {
	hops := func(name string, process Process, rate float64, exact bool) Client {
		return Client{Name: name, Process: process, Rates: []float64{0, rate, 0, 0, 0},
			Limit: &Limit{Rate: hopRate, Burst: hopBurst, Exact: exact}}
	}
	return []Tenant{
		{Name: "acme", Weight: 3, Clients: clients("acme", 5, [5]float64{150, 150, 150, 150, 150})},
		{Name: "bolt", Weight: 2, Clients: clients("bolt", 4, [5]float64{100, 100, 100, 100, 100})},
		{Name: "core", Weight: 3, Guaranteed: coreGuarantee, Clients: append(
			clients("core", 2, [5]float64{15, 15, 15, 15, 15}),
			Client{Name: "global", Process: Constant, Rates: []float64{45, 45, 80, 80, 45},
				Limit: &Limit{Rate: globalRate, Burst: globalBurst}},
			Client{Name: "small", Process: Poisson, Rates: []float64{3, 3, 3, 3, 10},
				Limit: &Limit{Rate: smallRate, Burst: smallBurst}},
		)},
		{Name: "dart", Weight: 1, Clients: clients("dart", 4, [5]float64{100, 100, 300, 100, 100})},
		{Name: "hop", Weight: 1, Unshared: true, Clients: []Client{
			hops("exact", Rush, 3*hopRate, true),
			hops("local", Rush, 3*hopRate, false),
			hops("within", Hop, .9*hopRate, true),
		}},
	}
}

// clients splits a tenant's rates evenly over n clients.
func clients(tenant string, n int, total [5]float64) []Client {
	out := make([]Client, n)
	for i := range out {
		rates := make([]float64, len(total))
		for p, r := range total {
			rates[p] = r / float64(n)
		}
		out[i] = Client{Name: fmt.Sprintf("%s-%d", tenant, i+1), Process: Poisson, Rates: rates}
	}
	return out
}

// demoPhases divides the run 28 % steady, 15 % hops, 15 % greed, 25 % coordinator, 17 % agent. A fault strikes
// soon after its phase begins and ends before its middle, so that each phase shows the system before, during
// and after. The coordinator's phase is the longest: a successor is elected only when the killed coordinator's
// lease in etcd has run out, a few seconds later. In the shortest demo the election must be over before the
// next fault.
func demoPhases(total float64, gateways []Gateway) []Phase {
	a, b, c, d := .28*total, .43*total, .58*total, .83*total
	cut := gateways[min(1, len(gateways)-1)].Name
	strike := func(from, to, part float64) float64 { return from + part*(to-from) }
	return []Phase{
		// Settling: a few coordinator rounds and gossip lags after everything
		// starts cold; at most a sixth of a long phase.
		{Name: Steady, Start: 0, End: a, Settle: min(5, a/2)},
		{Name: Hops, Start: a, End: b},
		{Name: Greed, Start: b, End: c},
		{Name: Coordinator, Start: c, End: d, Events: []Event{
			{At: strike(c, d, .05), Fault: KillCoordinator},
			{At: strike(c, d, .40), Fault: StartCoordinator},
		}},
		{Name: Agent, Start: d, End: total, Events: []Event{
			{At: strike(d, total, .05), Fault: CutAgent, Target: cut},
			{At: strike(d, total, .45), Fault: HealAgent, Target: cut},
		}},
	}
}
