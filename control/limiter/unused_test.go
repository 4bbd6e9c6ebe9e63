package limiter

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// unusedFleet is gateways that know of unused capacity in a pool, in which no flow has a share to speak of.
func unusedFleet(t *testing.T, gateways int, law config.Law, max float64) []*Engine {
	c := simple(300, config.Queue{Law: law})
	c.Tenants = nil
	for i := range 20 {
		c.Tenants = append(c.Tenants, config.Tenant{Name: fmt.Sprint("t", i),
			Quotas: []config.Quota{{Pool: "api", Max: max}}})
	}
	var all []*Engine
	for range gateways {
		e := New(Options{Keys: 1024})
		mustApply(t, e, c)
		e.SetSums(sec, sumsOf(gateways))
		e.SetShares(&exchange.Shares{Epoch: 1,
			Pools: []exchange.PoolShare{{Pool: "api", IdleShare: .01, GuaranteeScale: 1, Unused: 300}}})
		all = append(all, e)
	}
	return all
}

// playUnused has tenants ask for so many requests/s of such a cost each for 4 s, spread over the gateways that
// at names. It returns the cost/s that is admitted.
func playUnused(all []*Engine, tenants, rate int, cost float64, at func(tenant, i int) int) float64 {
	admitted, events, tick := 0, []Event(nil), 5*ms
	for now := sec; now < 5*sec; now += tick {
		for tenant := range tenants {
			for i := range rate / 200 {
				r := Request{Tenant: fmt.Sprint("t", tenant), Pool: "api", Client: "c", Cost: cost}
				e := all[at(tenant, int(now/tick)+i)]
				out := e.Decide(now, &r)
				if out.Verdict == Wait {
					out, _ = e.Enqueue(now, &r, 1)
				}
				if out.Verdict == Admit {
					admitted++
				}
			}
		}
		for _, e := range all {
			events = e.Tick(now, events)
		}
	}
	for _, ev := range events {
		if ev.Outcome.Verdict == Admit {
			admitted++
		}
	}
	return float64(admitted) * cost / 4
}

// While a pool has unused capacity, flows have all of it together, beyond their shares, and no more: whatever
// the law, however many there are, and wherever they begin.
func TestUnusedCapacityIsSharedByAll(t *testing.T) {
	spread := func(tenant, i int) int { return i % 3 }
	pinned := func(tenant, i int) int { return tenant % 3 }
	for _, law := range []config.Law{config.VariableStructure, config.Police} {
		for name, at := range map[string]func(int, int) int{"spread": spread, "pinned": pinned} {
			for _, tenants := range []int{3, 20} {
				got := playUnused(unusedFleet(t, 3, law, config.Unbounded), tenants, 600, 1, at)
				own := 3 * float64(tenants) * (1 + burst) / 4 // at each gateway a flow has a token, and may borrow a burst
				if got < 285 || got > 300+3*5./4+own {
					t.Errorf("law %v, %d tenants %s: %v/s admitted, want the 300/s", law, tenants, name, got)
				}
			}
		}
	}
}

// A quota's max holds in a pool that has unused capacity, too.
func TestUnusedCapacityStaysBelowTheMax(t *testing.T) {
	for _, max := range []float64{0, 5, 60} {
		got := playUnused(unusedFleet(t, 3, config.Police, max), 1, 600, 1, func(_, i int) int { return i % 3 })
		if got > 1.02*max+3*5./4+3*1./4 || got < .95*max {
			t.Errorf("max %v: %v/s admitted", max, got)
		}
	}
}

// While the use of a pool is not measured there is no unused capacity: its shares are stale, or the gateway
// is cut off.
func TestUnmeasuredPoolHasNoUnusedCapacity(t *testing.T) {
	for name, blind := range map[string]func(e *Engine){
		"stale": func(e *Engine) {
			e.SetShares(&exchange.Shares{Epoch: 1, Stale: true,
				Pools: []exchange.PoolShare{{Pool: "api", IdleShare: 10, Unused: 300}}})
		},
		"without an agent": func(e *Engine) {
			e.SetShares(&exchange.Shares{Epoch: 1,
				Pools: []exchange.PoolShare{{Pool: "api", IdleShare: 10, Unused: 300}}})
			e.ForgetUnused()
		},
		"cut off": func(e *Engine) {
			s := sumsOf(1)
			s.Isolation = exchange.Frozen
			e.SetSums(sec, s)
			e.SetShares(&exchange.Shares{Epoch: 1,
				Pools: []exchange.PoolShare{{Pool: "api", IdleShare: 10, Unused: 300}}})
		},
	} {
		all := unusedFleet(t, 1, config.Police, config.Unbounded)
		blind(all[0])
		if got := playUnused(all, 1, 600, 1, func(int, int) int { return 0 }); got > 15 {
			t.Errorf("%s: %v/s admitted of a share of 10/s", name, got)
		}
	}
}

// A request that costs more than the burst of the unused capacity has some of it, too, with and without a max.
func TestDearRequestsHaveUnusedCapacity(t *testing.T) {
	for _, law := range []config.Law{config.VariableStructure, config.Police} {
		for _, max := range []float64{300, config.Unbounded} {
			got := playUnused(unusedFleet(t, 1, law, max), 1, 200, 40, func(int, int) int { return 0 })
			if got < 285 || got > 300+3*40./4 {
				t.Errorf("law %v, max %v: %v/s admitted, want the 300/s", law, max, got)
			}
		}
	}
	// It must not block a rate that it could repay in minutes only.
	u, m := unused{}, members.Alone()
	u.set(1)
	if u.take(m, sec, 61*unit) || !u.take(m, sec, 60*unit) || u.has(m, 60*sec, unit) || !u.has(m, 61*sec, unit) {
		t.Error("more or less than a minute's debt")
	}
}

// What a tenant uses of its share beyond its measured demand is unused capacity: it does not have that twice.
// What it uses of its measured demand leaves the unused capacity to others.
func TestMarginIsNoUnusedCapacity(t *testing.T) {
	for _, law := range []config.Law{config.VariableStructure, config.Police} {
		for _, tc := range []struct {
			share, demand float64
			tenants, rate int
		}{{264, 10, 1, 600}, {250, 200, 2, 200}} {
			all := unusedFleet(t, 1, law, config.Unbounded)
			all[0].SetShares(&exchange.Shares{Epoch: 1,
				Flows: []exchange.Share{{Tenant: "t0", Pool: "api", Share: tc.share, Demand: tc.demand}},
				Pools: []exchange.PoolShare{{Pool: "api", IdleShare: .01, GuaranteeScale: 1, Unused: 300 - tc.demand}}})
			got := playUnused(all, tc.tenants, tc.rate, 1, func(int, int) int { return 0 })
			if got < 285 || got > 325 {
				t.Errorf("law %v, share %v, demand %v: %v/s admitted, want the 300/s", law, tc.share, tc.demand, got)
			}
		}
	}
}
