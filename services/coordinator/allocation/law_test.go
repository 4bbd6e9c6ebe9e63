package allocation_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

// The law of the package comment, for random pools, weights, guarantees, maxima and demands.
// They are played in rounds at any distance, with reports that are missing or impossible,
// and after demand has rested.
func TestLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := []string{"a", "b", "c", "d"}
		w := &lawWorld{t: t, config: config(t, tenants), loop: allocation.New(allocation.Defaults()), now: epoch}
		w.flows = append(tenants, "stranger")
		w.loop.Configure(w.config)
		for range rapid.IntRange(1, 3).Draw(t, "phases") {
			if rapid.Bool().Draw(t, "wild") {
				w.wild()
			} else {
				w.steady()
			}
		}
	})
}

// maxLoss is the largest κ.
const maxLoss = .04

type lawWorld struct {
	t      *rapid.T
	config *allocation.Config
	loop   *allocation.Allocator
	now    time.Time
	flows  []string // tenants that send
}

// wild plays rounds with reports of all kinds of numbers.
func (w *lawWorld) wild() {
	t := w.t
	for range rapid.IntRange(1, 12).Draw(t, "rounds") {
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
		for _, agent := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y"}), rapid.ID).Draw(t, "agents") {
			r := &allocation.Report{
				Interval: time.Duration(rapid.IntRange(-1, 2000).Draw(t, "interval")) * time.Millisecond,
				Replicas: []allocation.Replica{{Name: "gw-" + agent, Weight: number(t, "w")}},
			}
			for _, tenant := range w.flows {
				r.Flows = append(r.Flows, allocation.FlowReport{
					Flow: flowOf(tenant), Gateway: "gw-" + agent,
					Demand: number(t, "demand"), Served: number(t, "served"), Waiting: number(t, "waiting"),
					Limited: rapid.Bool().Draw(t, "limited"), Completed: number(t, "completed"),
					Residence: number(t, "residence"), Shed: number(t, "shed"), InFlight: number(t, "in flight"),
				})
			}
			w.loop.Observe(w.now, agent, r)
		}
		w.check(w.loop.Step(w.now))
	}
}

// steady plays a minute of demands that do not change, at two agents. At the end the margin
// is offered and not used: the pool admits its capacity.
func (w *lawWorld) steady() {
	t := w.t
	demands, waiting := map[string]float64{}, map[string]float64{}
	for _, tenant := range w.flows {
		demands[tenant] = rapid.Float64Range(0, 2000).Draw(t, "steady demand")
		waiting[tenant] = rapid.SampledFrom([]float64{0, 0, 1, 100}).Draw(t, "steady waiting")
	}
	dt := time.Duration(rapid.IntRange(50, 2000).Draw(t, "dt")) * time.Millisecond
	shares := map[string]float64{}
	var out *allocation.Outcome
	for end := w.now.Add(60 * time.Second); w.now.Before(end); {
		w.now = w.now.Add(dt)
		for _, agent := range []string{"x", "y"} {
			r := &allocation.Report{Interval: dt, Replicas: []allocation.Replica{{Name: "gw-" + agent, Weight: 1}}}
			for _, tenant := range w.flows {
				served := math.Min(demands[tenant], shares[tenant])
				if w.config.Quotas[flowOf(tenant)].Off {
					served = demands[tenant]
				}
				r.Flows = append(r.Flows, allocation.FlowReport{Flow: flowOf(tenant), Gateway: "gw-" + agent,
					Demand: demands[tenant] / 2, Served: served / 2, Waiting: waiting[tenant] / 2,
					Limited:   served < demands[tenant],
					Completed: served / 2, Residence: served / 20, InFlight: served / 20})
			}
			w.loop.Observe(w.now, agent, r)
		}
		out = w.loop.Step(w.now)
		w.check(out)
		for _, f := range out.Flows {
			shares[f.Tenant] = f.Share
		}
		shares["stranger"] = shares[allocation.Unknown]
	}
	w.checkUse(out, demands)
}

// capacity returns the capacity that limited flows share.
func capacity(out *allocation.Outcome, c *allocation.Config) float64 {
	free := out.Pools[0].Capacity
	for _, f := range out.Flows {
		if c.Quotas[f.Flow].Off {
			free -= f.Admitted
		}
	}
	return math.Max(free, 0)
}

// promised are the guarantees of a pool, as far as they fit its capacity.
func promised(pool *allocation.PoolShare, c *allocation.Config) (total, scale float64) {
	for _, q := range c.Quotas {
		total += q.Guaranteed
	}
	scale = math.Min(1, pool.Capacity/math.Max(total, 1e-300))
	return total * scale, scale
}

// check holds one round against the invariants.
func (w *lawWorld) check(out *allocation.Outcome) {
	t, c, pool := w.t, w.config, &out.Pools[0]
	guaranteed, scale := promised(pool, c)
	free, margin := capacity(out, c), allocation.Defaults().Margin
	if a := c.Pools[0].Adaptive; a.Max > 0 &&
		!(pool.Capacity >= a.Min && pool.Capacity <= a.Max && pool.Estimate >= a.Min && pool.Estimate <= a.Max) {
		t.Fatalf("capacity %v, estimate %v outside %v", pool.Capacity, pool.Estimate, a)
	}
	sum := 0.0
	for _, f := range out.Flows {
		if c.Quotas[f.Flow].Off {
			continue
		}
		if math.IsNaN(f.Share) || f.Share < 0 || f.Share > math.Max(f.Max, 0)*(1+1e-9) {
			t.Fatalf("%+v: share outside [0, max]", f)
		}
		if f.Share < f.Guaranteed*scale*(1-1e-9) {
			t.Fatalf("%+v: share below its guarantee × %v", f, scale)
		}
		if f.Bound == 0 {
			t.Fatalf("%+v: bound by nothing", f)
		}
		sum += f.Share
	}
	idle := pool.IdleShare * float64(len(c.Quotas)) // leases of idle flows below the idle share are no overcommitment
	rounding := 1e-12 * sum                         // a difference is as exact as its terms
	if sum-pool.Overcommit > free*(1+1e-9)+idle+rounding {
		t.Fatalf("shares %v less overcommitment %v exceed %v: %+v", sum, pool.Overcommit, free, out)
	}
	if beyond := (1+maxLoss)*(1+margin) - 1; pool.Overcommit > (beyond*free+guaranteed)*(1+1e-9) {
		t.Fatalf("overcommitment %v exceeds %v × %v and the guarantees, %v: %+v", pool.Overcommit, beyond, free,
			guaranteed, out)
	}
	if !(pool.Unused >= 0) || pool.Unused > free*(1+1e-9) || pool.Unused > 1e-9*free && pool.FairRate > 0 {
		t.Fatalf("unused capacity %v of %v: %+v", pool.Unused, free, pool)
	}
	if math.IsNaN(pool.Price) || pool.Price < 0 || !(pool.IdleShare >= 0) || pool.IdleShare > free {
		t.Fatalf("%+v", pool)
	}
}

// checkUse holds what flows use of their shares, after their demands have rested, against
// the capacity: it is used up where demand suffices, and exceeded by guarantees alone.
func (w *lawWorld) checkUse(out *allocation.Outcome, demands map[string]float64) {
	guaranteed, _ := promised(&out.Pools[0], w.config)
	free := capacity(out, w.config)
	used, wanted := 0.0, 0.0
	for _, f := range out.Flows {
		if w.config.Quotas[f.Flow].Off {
			continue
		}
		demand := demands[f.Tenant]
		if f.Tenant == allocation.Unknown {
			demand = demands["stranger"]
		}
		used += math.Min(f.Share, demand)
		wanted += math.Min(f.Max, demand)
	}
	const within, noise = 2e-3, .1
	most := math.Max(free, guaranteed)
	if w.config.Pools[0].Adaptive.Max > 0 { // its capacity does not rest, so neither does the loss
		most *= 1 + maxLoss
	}
	if out.Pools[0].Infeasible {
		most = free + guaranteed
	}
	if used > most*(1+within)+noise {
		w.t.Fatalf("with demands at rest %v of %v is used, guarantees are %v: %+v", used, free, guaranteed, out)
	}
	if used < math.Min(free, wanted)*(1-within)-noise {
		w.t.Fatalf("with demands at rest %v of %v is used, %v is wanted: %+v", used, free, wanted, out)
	}
}

// number draws a rate, sometimes one of the numbers that no gateway should send.
func number(t *rapid.T, label string) float64 {
	if rapid.IntRange(0, 9).Draw(t, label+" bad") == 0 {
		return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 1e300, 0}).Draw(t, label)
	}
	return rapid.Float64Range(0, 2000).Draw(t, label)
}

func config(t *rapid.T, tenants []string) *allocation.Config {
	p := allocation.Pool{
		Name: "api", Capacity: rapid.Float64Range(1, 1000).Draw(t, "capacity"),
		Alpha:     rapid.SampledFrom([]float64{.5, 1, 2}).Draw(t, "alpha"),
		Guarantee: rapid.SampledFrom([]fairshare.Guarantee{fairshare.Minimum, fairshare.Additive}).Draw(t, "guarantee"),
	}
	if rapid.Bool().Draw(t, "proportional") {
		p.Sharing = allocation.Proportional
	}
	if rapid.Bool().Draw(t, "adaptive") {
		p.Adaptive = allocation.Range{Min: p.Capacity * rapid.Float64Range(.01, 1).Draw(t, "min"),
			Max: p.Capacity * rapid.Float64Range(1, 100).Draw(t, "most")}
	}
	c := &allocation.Config{Revision: 7, Pools: []allocation.Pool{p}, Tenants: map[string]float64{},
		Quotas: map[allocation.Flow]allocation.Quota{}}
	for _, name := range tenants {
		c.Tenants[name] = rapid.Float64Range(.1, 10).Draw(t, "weight")
		q := allocation.Quota{Max: math.Inf(1), Weight: math.NaN(), Off: rapid.IntRange(0, 5).Draw(t, "off") == 0}
		if rapid.Bool().Draw(t, "guaranteed") {
			q.Guaranteed = rapid.Float64Range(0, 400).Draw(t, "m")
		}
		if rapid.Bool().Draw(t, "capped") {
			q.Max = q.Guaranteed + rapid.Float64Range(0, 400).Draw(t, "max")
		}
		if rapid.IntRange(0, 5).Draw(t, "weightless") == 0 {
			q.Weight = 0
		}
		c.Quotas[flowOf(name)] = q
	}
	return c
}
