package baseline

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

// central is a service that gateways ask about each request.
type central struct {
	stage   system.Stage
	agenda  *agenda
	delay   time.Duration
	every   time.Duration
	buckets []judge.Bucket   // keys, then flows; or pools, if whole
	whole   bool             // one bucket per pool for all tenants
	pools   []int            // by flow, its pool's place in the scenario
	arrived []float64        // by flow, since the last turn
	demand  []float64        // by flow, smoothed
	asked   map[int]question // not answered yet, by id
}

// question is a request on its way.
type question struct {
	traffic.Request
	answer system.Answer
}

// The kinds of messages, besides tick.
const (
	asking    = iota + 2 // a request arrives at the service
	answering            // its answer at the gateway
)

// Central makes one exact bucket per key and one per flow, asked from afar.
func Central(stage system.Stage) (system.System, error) { return newCentral(stage, false), nil }

// Shared makes one exact bucket per key and one per pool, asked from afar.
func Shared(stage system.Stage) (system.System, error) { return newCentral(stage, true), nil }

func newCentral(stage system.Stage, whole bool) *central {
	s, flows := stage.Scenario, stage.Cast.Flows
	c := &central{
		stage: stage, agenda: newAgenda(s, len(stage.Cast.Gateways)),
		delay: max(time.Millisecond, s.Gossip.Delay), every: s.Control.Round,
		buckets: make([]judge.Bucket, len(stage.Cast.Keys)+max(len(flows), len(s.InForce.Allocation.Pools))),
		whole:   whole, pools: make([]int, len(flows)),
		arrived: make([]float64, len(flows)), demand: make([]float64, len(flows)), asked: map[int]question{},
	}
	for f := range flows {
		c.pools[f] = slices.IndexFunc(s.InForce.Allocation.Pools,
			func(p allocation.Pool) bool { return p.Name == flows[f].Pool })
	}
	c.refresh(-s.Lead, unbounded)
	c.agenda.put(message{at: -s.Lead + c.every, kind: tick})
	return c
}

// refresh takes over numbers, with flows' demands.
func (c *central) refresh(now time.Duration, demand func(int) float64) {
	for k, key := range c.stage.Cast.Keys {
		c.set(k, key.Rate, key.Burst, now)
	}
	var rates []float64
	if c.whole {
		for _, p := range c.stage.Scenario.InForce.Allocation.Pools {
			rates = append(rates, c.stage.Scenario.Serves(p))
		}
	} else {
		rates = shares(c.stage.Scenario, c.stage.Cast, demand, true)
	}
	for i, rate := range rates {
		c.set(len(c.stage.Cast.Keys)+i, rate, math.Max(1, rate*flowBurst), now)
	}
}

// bucket is the place of the bucket that a flow's requests need.
func (c *central) bucket(flow int) int {
	if c.whole {
		flow = c.pools[flow]
	}
	return len(c.stage.Cast.Keys) + flow
}

func (c *central) set(unit int, rate, burst float64, now time.Duration) {
	b := &c.buckets[unit]
	b.Fits(now, 0)
	b.Rate, b.Burst = rate, burst
}

// known is the measured demand of a flow, with some to spare.
func (c *central) known(f int) float64 { return c.demand[f]*(1+sparePart) + spareRate }

// Offer implements system.System.
func (c *central) Offer(id int, r *traffic.Request) {
	c.Advance(r.At)
	q := question{*r, system.Answer{ID: id, At: r.At + 2*c.delay}}
	patience := c.stage.Cast.Clients[r.Client].Patience
	if patience > 0 && patience < 2*c.delay {
		q.answer = system.Answer{ID: id, At: r.At + patience, Fate: system.Abandoned}
	}
	c.asked[id] = q
	if c.agenda.reaches(int(r.Gateway), centre) {
		c.agenda.put(message{at: r.At + c.delay, id: id, kind: asking})
	}
	c.agenda.put(message{at: q.answer.At, id: id, kind: answering})
}

// Advance implements system.System.
func (c *central) Advance(now time.Duration) {
	for {
		_, m, ok := c.agenda.Next(now)
		if !ok {
			return
		}
		q, there := c.asked[m.id]
		switch {
		case m.kind == tick:
			c.turn(m.at)
		case !there: // abandoned, or its gateway died
		case m.kind == asking:
			c.decide(m.at, &q)
			c.asked[m.id] = q
		default:
			delete(c.asked, m.id)
			c.stage.Answer(q.answer)
		}
	}
}

// decide asks all buckets of a request and charges them together.
func (c *central) decide(now time.Duration, q *question) {
	client := &c.stage.Cast.Clients[q.Client]
	units, reason := client.Keys, limiter.None
	for _, k := range client.Keys {
		if !c.buckets[k].Fits(now, q.Cost) {
			reason = limiter.ClientLimit
		}
	}
	if client.Flow >= 0 && reason == limiter.None {
		c.arrived[client.Flow] += q.Cost
		flow := c.bucket(client.Flow)
		units = append(slices.Clone(units), flow)
		if !c.buckets[flow].Fits(now, q.Cost) {
			reason = limiter.TenantShare
		}
	}
	if reason == limiter.None {
		for _, u := range units {
			c.buckets[u].Charge(q.Cost)
		}
	} else if q.answer.Fate != system.Abandoned {
		q.answer.Fate, q.answer.Reason = system.Rejected, reason
	}
}

func (c *central) turn(now time.Duration) {
	a := gain(c.every)
	for f, cost := range c.arrived {
		c.demand[f] += a * (cost/c.every.Seconds() - c.demand[f])
	}
	clear(c.arrived)
	c.refresh(now, c.known)
	c.agenda.put(message{at: now + c.every, kind: tick})
}

// Happen implements system.System.
func (c *central) Happen(e *scenario.Event) {
	c.Advance(e.At)
	c.agenda.happen(e, c.stage.Cast.Gateways)
	switch e.Kind {
	case scenario.Crash, scenario.Restart:
		g := slices.Index(c.stage.Cast.Gateways, e.Replica)
		for _, id := range slices.Sorted(maps.Keys(c.asked)) {
			if int(c.asked[id].Gateway) == g {
				delete(c.asked, id)
				c.stage.Answer(system.Answer{ID: id, At: e.At, Fate: system.Lost})
			}
		}
	case scenario.Apply, scenario.Serve:
		c.refresh(e.At, c.known)
	}
}
