package limiter

import (
	"math"
	"testing"

	"github.com/titrate/titrate/control/config"
)

func accountEngine(t *testing.T, limits ...config.Limit) *Engine {
	t.Helper()
	e := New(Options{Keys: 1024})
	if err := e.Apply(&config.Config{Revision: 1, Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: limits}},
		Pools: []config.Pool{{Name: "api", Capacity: 300}}}); err != nil {
		t.Fatal(err)
	}
	return e
}

// Enforced limits with a rate and the share are parts. SHADOW limits, quotas and slots are none.
func TestParts(t *testing.T) {
	e := accountEngine(t, config.Limit{Name: "a", Rate: 10, Burst: 20},
		config.Limit{Name: "b", Rate: 5, Burst: 5, Mode: config.Shadow}, config.Limit{Name: "c", Concurrency: 3})
	parts, known := e.Parts(1, &Request{Tenant: "acme", Client: "bob", Pool: "api"}, nil)
	if !known || len(parts) != 2 || parts[0].Limit != "a" || parts[0].Rate != 10 || parts[0].Free != 20 ||
		parts[1].Limit != ShareName {
		t.Fatalf("%v %+v, want limit a and the share", known, parts)
	}
	other, _ := e.Parts(1, &Request{Tenant: "acme", Client: "eve", Pool: "api"}, nil)
	if other[0].Key == parts[0].Key || other[1].Key != parts[1].Key {
		t.Errorf("%+v and %+v: want a key of each client's, and one share", parts, other)
	}
	if _, known := e.Parts(1, &Request{Tenant: "nobody"}, nil); known {
		t.Error("an unknown tenant is known")
	}
}

// What was admitted elsewhere is charged, beyond the burst as debt up to a second burst, and counted.
func TestAccount(t *testing.T) {
	e := accountEngine(t, config.Limit{Name: "a", Rate: 10, Burst: 20})
	r := &Request{Tenant: "acme", Client: "bob", Pool: "api"}
	for _, c := range []struct {
		admitted   uint64
		free, debt float64
	}{{15, 5, 0}, {15, 0, 10}, {1000, 0, 20}} {
		e.Account(1, r, Usage{Admitted: c.admitted, Refused: 3, By: "a", Demand: 50, Hold: 1, Short: true})
		parts, _ := e.Parts(1, r, nil)
		if p := parts[0]; math.Abs(p.Free-c.free) > 1e-6 || math.Abs(p.Debt-c.debt) > 1e-6 {
			t.Errorf("after %d: %+v, want %v free and a debt of %v", c.admitted, p, c.free, c.debt)
		}
	}
	f := e.Flows(1)[0]
	if f.Admitted != 1030 || f.Rejected != 9 {
		t.Errorf("%d admitted, %d rejected, want 1030 and 9", f.Admitted, f.Rejected)
	}
}

// Requests that were admitted elsewhere are charged to the bucket of an EXACT limit's owner, so other gateways get the
// rest. Both are served: the gateway that asks for each request, and proxies that decide by their part.
func TestAccountOfExactLimit(t *testing.T) {
	f := newExactFleet(t, 2, simple(1000, config.Queue{}, exactly("l", 100, 20)))
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	now, asked, elsewhere, part := sec, 0, 0., 0.
	for i := range 6000 { // 30 s of 5 ms
		now += 5 * ms
		before := int(elsewhere)
		parts, _ := f.engines[1].Parts(now, &r, nil)
		part = parts[0].Rate
		elsewhere += min(80, part) * .005
		f.engines[1].Account(now, &r, Usage{Admitted: uint64(int(elsewhere) - before), Demand: 80, Hold: 1, Short: part < 80})
		for range 1 + i%2 { // 300/s
			switch out, _ := f.ask(0, now, r, 9); out.Verdict {
			case Admit:
				asked++
			case Wait:
				f.waits++
			}
		}
		asked += f.advance(now-5*ms, true, 1)[0]
		if i%10 == 9 {
			f.gossip(now, true)
		}
		if i == 2000 {
			asked, elsewhere = 0, 0
		}
	}
	t.Logf("in 20 s %d asked for and %.0f elsewhere of 2000, a part of %.1f/s", asked, elsewhere, part)
	if sum := float64(asked) + elsewhere; sum > 2060 || sum < 1900 {
		t.Errorf("%.0f admitted, want 2000", sum)
	}
	if elsewhere < 700 || asked < 300 {
		t.Errorf("%d asked for, %.0f elsewhere: want both", asked, elsewhere)
	}
}

// A proxy's requests of a plan have the plan's numbers, and a bucket of their own.
func TestAccountOfPlans(t *testing.T) {
	e := New(Options{Keys: 1024})
	e.Name(planNames())
	mustApply(t, e, simple(1e6, config.Queue{}, planned(config.Local)))
	gold, without := ofPlan("a", "gold"), ofPlan("a", "")
	e.Account(sec, gold, Usage{Admitted: 3})
	for r, want := range map[*Request]float64{gold: 1, without: 2, ofPlan("vip", "gold"): 3} {
		if parts, _ := e.Parts(sec, r, nil); math.Abs(parts[0].Free-want) > 1e-3 {
			t.Errorf("%+v of %+v, want %v free", parts[0], r, want)
		}
	}
	e.Account(sec, without, Usage{Admitted: 3, Refused: 1})
	if s := stats(e, sec); s.PlanMissing != 4 || s.PlanUnknown != 0 {
		t.Errorf("%d without a plan, %d of an unknown one; want 4 and 0", s.PlanMissing, s.PlanUnknown)
	}
}
