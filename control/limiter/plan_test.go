package limiter

import (
	"testing"

	"github.com/titrate/titrate/control/config"
)

// Tenants of a plan are held to its limits, each for itself, and a limit of their own takes the place of the plan's.
func TestPlanLimits(t *testing.T) {
	c := simple(1000, config.Queue{})
	c.Plans = []config.Tenant{{Name: "gold", Weight: 3, Limits: []config.Limit{{Name: "each", Rate: 1, Burst: 4}},
		Quotas: []config.Quota{{Pool: "api", Max: 500}}}}
	c.Defaults = []config.Limit{{Name: "each", Rate: 1, Burst: 1}}
	c.Tenants = []config.Tenant{{Name: "a", Plan: "gold"}, {Name: "b", Plan: "gold"}, {Name: "none"},
		{Name: "own", Plan: "gold", Weight: 1, Limits: []config.Limit{{Name: "each", Rate: 1, Burst: 2}}}}
	e := New(Options{Keys: 1024})
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
	passes := func(tenant string, want int) {
		t.Helper()
		n := 0
		for range 10 {
			if e.Decide(sec, &Request{Tenant: tenant, Pool: "api", Client: "c", Cost: 1}).Verdict == Admit {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d pass, want %d", tenant, n, want)
		}
	}
	passes("a", 4)
	passes("b", 4)
	passes("own", 2)
	passes("none", 1)
	s := e.snap.Load()
	if s.weight != 3+3+1+1 || s.tenants["a"].maxOf("api") != 500 || s.tenants["none"].maxOf("api") != config.Unbounded {
		t.Errorf("weight %v, quotas %+v", s.weight, s.tenants["a"].quotas)
	}
	d := &config.Delta{Base: c.Revision, Revision: c.Revision + 1, Tenants: []config.Tenant{{Name: "none", Plan: "gold"}}}
	if err := e.Change(d); err != nil {
		t.Fatal(err)
	}
	passes("none", 3) // a burst of 4, of which 1 is spent
	if got := e.snap.Load().source(); len(got.Plans) != 1 || got.Validate() != nil {
		t.Errorf("%+v", got)
	}
	d = &config.Delta{Base: c.Revision + 1, Revision: c.Revision + 2, Tenants: []config.Tenant{{Name: "x", Plan: "tin"}}}
	if err := e.Change(d); err == nil {
		t.Error("a tenant of a plan that is not there was taken")
	}
}
