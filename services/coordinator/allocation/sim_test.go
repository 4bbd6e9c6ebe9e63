package allocation_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

// epoch is an arbitrary start of virtual time.
var epoch = time.Unix(1_700_000_000, 0)

// source is one tenant's clients on virtual time.
type source struct {
	tenant     string
	weight     float64
	guaranteed float64
	max        float64                       // 0 = unbounded
	rate       func(t time.Duration) float64 // open loop, requests/s
	clients    float64                       // closed loop: so many clients, each waits for its answer, then 50 ms
	obeys      bool                          // AIMD on marks and rejects up to rate

	want, queue, credit, share               float64
	arrived, served, rejected                float64 // since the last report
	totalArrived, totalServed, totalRejected float64 // since mark
	limited                                  bool
	shares                                   []float64
}

// world is three agents in front of one pool, an ideal split of each share, and
// the coordinator's loop; leases act one delay after the step that gave them.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	loop    *allocation.Allocator
	sources []*source
	pool    allocation.Pool
	now     time.Duration
	pending []pendingShares
	silent  map[string]bool
	last    *allocation.Outcome
	peak    float64 // highest Σ(share) over capacity
	behind  *behind // the upstream of an adaptive pool
}

type pendingShares struct {
	at     time.Duration
	shares map[string]float64
	idle   float64
}

const (
	tick   = 5 * time.Millisecond
	every  = 250 * time.Millisecond
	lag    = 75 * time.Millisecond
	target = 50 * time.Millisecond
)

var split = map[string]float64{"agent-1": .6, "agent-2": .3, "agent-3": .1}

func newWorld(t *testing.T, pool allocation.Pool, seed uint64, sources ...*source) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), loop: allocation.New(allocation.Defaults()), pool: pool,
		sources: sources, silent: map[string]bool{}}
	w.configure()
	return w
}

func (w *world) configure() {
	c := &allocation.Config{Revision: 1, Pools: []allocation.Pool{w.pool}, Tenants: map[string]float64{},
		Quotas: map[allocation.Flow]allocation.Quota{}}
	for _, s := range w.sources {
		c.Tenants[s.tenant] = s.weight
		q := allocation.Quota{Guaranteed: s.guaranteed, Max: math.Inf(1), Weight: math.NaN()}
		if s.max > 0 {
			q.Max = s.max
		}
		c.Quotas[allocation.Flow{Tenant: s.tenant, Pool: w.pool.Name}] = q
	}
	w.loop.Configure(c)
}

// run advances virtual time and returns after d.
func (w *world) run(d time.Duration) {
	for end := w.now + d; w.now < end; {
		w.now += tick
		for len(w.pending) > 0 && w.pending[0].at <= w.now {
			for _, s := range w.sources {
				share, ok := w.pending[0].shares[s.tenant]
				if !ok {
					share = w.pending[0].idle
				}
				s.share = share
			}
			w.pending = w.pending[1:]
		}
		for _, s := range w.sources {
			n := s.step(w.rng, w.now)
			if w.behind != nil {
				w.behind.arrive(w.now, n)
			}
		}
		if w.behind != nil {
			w.behind.serve(w.now)
		}
		if w.now%every == 0 {
			w.report()
			w.step()
		}
	}
}

// poisson draws the arrivals of one tick.
func poisson(rng *rand.Rand, mean float64) float64 {
	if mean > 50 {
		return math.Max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64()))
	}
	n, p := 0.0, math.Exp(-mean)
	for u := rng.Float64(); u > p; u *= rng.Float64() {
		n++
	}
	return n
}

// step is one tick of a tenant's queue: paced at its share, at most as long as
// four times the delay target.
func (s *source) step(rng *rand.Rand, now time.Duration) (released float64) {
	rate := s.rate(now)
	if s.obeys {
		rate = math.Min(s.want, rate)
	}
	if s.clients > 0 {
		rate = (s.clients - s.queue) / .05
	}
	a := poisson(rng, rate*tick.Seconds())
	s.arrived, s.totalArrived = s.arrived+a, s.totalArrived+a
	s.queue += a
	if room := math.Max(3, 4*target.Seconds()*s.share); s.queue > room {
		drop := math.Floor(s.queue - room)
		s.queue, s.rejected, s.totalRejected, s.limited = s.queue-drop, s.rejected+drop, s.totalRejected+drop, true
	}
	s.credit = math.Min(s.credit+s.share*tick.Seconds(), math.Max(1, .05*s.share))
	n := math.Floor(math.Min(s.queue, s.credit))
	s.queue, s.credit = s.queue-n, s.credit-n
	s.served, s.totalServed = s.served+n, s.totalServed+n
	if s.queue > target.Seconds()*s.share+1 {
		s.limited = true
	}
	return n
}

func (w *world) report() {
	for name, part := range split {
		if w.silent[name] {
			continue
		}
		r := &allocation.Report{Interval: every, Replicas: []allocation.Replica{{Name: "gw-" + name, Weight: 1}}}
		for _, s := range w.sources {
			r.Flows = append(r.Flows, allocation.FlowReport{
				Flow: allocation.Flow{Tenant: s.tenant, Pool: w.pool.Name}, Gateway: "gw-" + name,
				Demand: part * s.arrived / every.Seconds(), Served: part * s.served / every.Seconds(),
				Waiting: part * s.queue, Limited: s.limited,
			})
		}
		if w.behind != nil {
			w.behind.report(&r.Flows[0], part)
		}
		w.loop.Observe(epoch.Add(w.now), name, r)
	}
	if w.behind != nil {
		w.behind.done, w.behind.stayed = 0, 0
	}
	for _, s := range w.sources {
		if s.limited {
			s.want = math.Max(s.want*.85, 2)
		} else {
			s.want += 4
		}
		s.arrived, s.served, s.rejected, s.limited = 0, 0, 0, false
	}
}

func (w *world) step() {
	w.last = w.loop.Step(epoch.Add(w.now))
	p := pendingShares{at: w.now + lag, shares: map[string]float64{}}
	sum := 0.0
	for _, f := range w.last.Flows {
		p.shares[f.Tenant] = f.Share
		sum += f.Share
	}
	pool := w.last.Pools[0]
	p.idle = pool.IdleShare
	w.peak = math.Max(w.peak, sum/pool.Capacity)
	for _, s := range w.sources {
		s.shares = append(s.shares, p.shares[s.tenant])
	}
	w.pending = append(w.pending, p)
}

// mark starts a measurement.
func (w *world) mark() {
	for _, s := range w.sources {
		s.totalArrived, s.totalServed, s.totalRejected, s.shares = 0, 0, 0, nil
	}
}

// fair is the exact weighted max-min share of what was offered since mark, d ago.
func (w *world) fair(d time.Duration) []float64 {
	demands := make([]fairshare.Demand, len(w.sources))
	for i, s := range w.sources {
		demands[i] = fairshare.Demand{Weight: s.weight, Guaranteed: s.guaranteed, Cap: s.totalArrived / d.Seconds()}
		if s.obeys {
			demands[i].Cap = s.rate(w.now)
		}
		if s.max > 0 {
			demands[i].Cap = math.Min(demands[i].Cap, s.max)
		}
	}
	shares := make([]float64, len(demands))
	fairshare.Fill(w.pool.Capacity, demands, fairshare.Minimum, 0, shares)
	return shares
}

// flat is a constant rate.
func flat(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}
