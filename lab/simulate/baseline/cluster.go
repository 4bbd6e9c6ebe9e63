package baseline

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
	"github.com/titrate/titrate/services/wording"
)

// MaxBuckets is the most buckets (limited keys and flows, times gateways) that a
// baseline has.
const MaxBuckets = 4_000_000

// flowBurst is the burst of a flow's bucket, in seconds of its rate.
const flowBurst = .25 // s

// cluster is a set of gateways that each decide from their own buckets. Its units are the keys, then the flows.
type cluster struct {
	stage  system.Stage
	law    law
	agenda *agenda
	every  time.Duration // between turns of the law; 0: none

	total, burst []float64 // by unit: of all gateways together
	weights      []float64 // by gateway: 0 if it is not configured
	up           []bool
	gateways     []gateway
}

// gateway is the state of one gateway.
type gateway struct {
	buckets          []judge.Bucket // by unit
	wanted, admitted []float64      // by unit: cost since the last turn
	demand           []float64      // by unit: smoothed, units/s
}

// law divides the totals among gateways.
type law interface {
	// reset is called when gateways or totals have changed.
	reset(c *cluster, now time.Duration)
	// turn is called each c.every.
	turn(c *cluster, now time.Duration)
	// receive is called with each message that arrives.
	receive(c *cluster, m *message)
}

// tick is the kind of message that is a turn's clock.
const tick = 1

func newCluster(stage system.Stage, every time.Duration, l law) (system.System, error) {
	units, n := len(stage.Cast.Keys)+len(stage.Cast.Flows), len(stage.Cast.Gateways)
	if units*n > MaxBuckets {
		return nil, fmt.Errorf("%d limited clients and flows on %s; a baseline takes %d buckets at most",
			units, wording.Count(n, "gateway"), MaxBuckets)
	}
	c := &cluster{stage: stage, law: l, agenda: newAgenda(stage.Scenario, n), every: every,
		total: make([]float64, units), burst: make([]float64, units),
		weights: make([]float64, n), up: slices.Clone(stage.Up), gateways: make([]gateway, n)}
	for g := range c.gateways {
		if c.up[g] {
			c.weights[g] = stage.Cast.Weights[g]
		}
		c.gateways[g] = gateway{make([]judge.Bucket, units), make([]float64, units), make([]float64, units),
			make([]float64, units)}
	}
	start := -stage.Scenario.Lead
	c.refresh(start)
	if every > 0 {
		c.agenda.put(message{at: start + every, kind: tick})
	}
	return c, nil
}

// refresh takes over totals from the scenario.
func (c *cluster) refresh(now time.Duration) {
	for k, key := range c.stage.Cast.Keys {
		c.total[k], c.burst[k] = key.Rate, key.Burst
	}
	c.setShares(shares(c.stage.Scenario, c.stage.Cast, unbounded, false))
	c.law.reset(c, now)
}

// setShares sets the totals of flows.
func (c *cluster) setShares(of []float64) {
	keys := len(c.stage.Cast.Keys)
	for f, share := range of {
		c.total[keys+f], c.burst[keys+f] = share, math.Max(1, share*flowBurst)
	}
}

// set gives a gateway its rate of a unit.
func (c *cluster) set(g, unit int, rate float64, now time.Duration) {
	b := &c.gateways[g].buckets[unit]
	b.Fits(now, 0) // add the tokens earned so far, at the old rate
	part := 0.0
	if c.total[unit] > 0 {
		part = rate / c.total[unit]
	}
	b.Rate, b.Burst = rate, math.Max(1, c.burst[unit]*part)
}

// byWeight gives all gateways their part by weight.
func (c *cluster) byWeight(now time.Duration) {
	sum := 0.0
	for _, w := range c.weights {
		sum += w
	}
	for g, w := range c.weights {
		for u := range c.total {
			c.set(g, u, c.total[u]*w/math.Max(sum, 1e-9), now)
		}
	}
}

// Offer implements system.System.
func (c *cluster) Offer(id int, r *traffic.Request) {
	c.Advance(r.At)
	client, g := &c.stage.Cast.Clients[r.Client], &c.gateways[r.Gateway]
	flow := len(c.stage.Cast.Keys) + client.Flow
	answer := system.Answer{ID: id, At: r.At}
	for _, k := range client.Keys {
		g.wanted[k] += r.Cost
		if !g.buckets[k].Fits(r.At, r.Cost) {
			answer.Fate, answer.Reason = system.Rejected, limiter.ClientLimit
		}
	}
	if client.Flow >= 0 && answer.Fate == system.Admitted {
		g.wanted[flow] += r.Cost
		if !g.buckets[flow].Fits(r.At, r.Cost) {
			answer.Fate, answer.Reason = system.Rejected, limiter.TenantShare
		}
	}
	if answer.Fate == system.Admitted {
		for _, k := range client.Keys {
			g.charge(k, r.Cost)
		}
		if client.Flow >= 0 {
			g.charge(flow, r.Cost)
		}
	}
	c.stage.Answer(answer)
}

func (g *gateway) charge(unit int, cost float64) {
	g.buckets[unit].Charge(cost)
	g.admitted[unit] += cost
}

// Advance implements system.System.
func (c *cluster) Advance(now time.Duration) {
	for {
		_, m, ok := c.agenda.Next(now)
		switch {
		case !ok:
			return
		case m.kind == tick:
			c.measure()
			c.law.turn(c, m.at)
			for g := range c.gateways {
				clear(c.gateways[g].wanted)
				clear(c.gateways[g].admitted)
			}
			c.agenda.put(message{at: m.at + c.every, kind: tick})
		case m.to == centre || c.up[m.to]:
			c.law.receive(c, &m)
		}
	}
}

// measure smooths the arrivals since the last turn.
func (c *cluster) measure() {
	a, span := gain(c.every), c.every.Seconds()
	for i := range c.gateways {
		g := &c.gateways[i]
		for u, cost := range g.wanted {
			g.demand[u] += a * (cost/span - g.demand[u])
		}
	}
}

// Happen implements system.System.
func (c *cluster) Happen(e *scenario.Event) {
	c.Advance(e.At)
	c.agenda.happen(e, c.stage.Cast.Gateways)
	g := slices.Index(c.stage.Cast.Gateways, e.Replica)
	switch e.Kind {
	case scenario.Join, scenario.Restart:
		c.up[g] = true
		c.weights[g] = c.stage.Cast.Weights[g]
		clear(c.gateways[g].demand)
		for u := range c.gateways[g].buckets {
			c.gateways[g].buckets[u] = judge.Bucket{}
		}
	case scenario.Leave:
		c.up[g], c.weights[g] = false, 0
	case scenario.Crash:
		c.up[g] = false
		return
	case scenario.Apply, scenario.Serve:
	default:
		return
	}
	c.refresh(e.At)
}
