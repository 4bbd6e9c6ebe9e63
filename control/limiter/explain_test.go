package limiter

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

func explained() *config.Config {
	return &config.Config{
		Revision: 3, Pools: []config.Pool{{Name: "api", Capacity: 1000}},
		Tenants: []config.Tenant{{Name: "acme", Quotas: []config.Quota{{Pool: "api", Max: config.Unbounded}},
			Limits: []config.Limit{
				{Name: "per-client", Rate: 2, Burst: 10,
					Overrides: map[string]config.RateBurst{"vip": {Rate: 50, Burst: 100}}},
				{Name: "all", PerTenant: true, Rate: 100, Burst: 100, Mode: config.Shadow},
				{Name: "other-pool", Rate: 1, Burst: 1, Pools: []string{"api2"}},
			}}},
	}
}

func engineOf(t interface{ Fatal(...any) }, c *config.Config) *Engine {
	e := New(Options{Keys: 1024, Start: 1})
	c.Pools = append(c.Pools, config.Pool{Name: "api2", Capacity: 1})
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExplainSaysWhatBinds(t *testing.T) {
	e := engineOf(t, explained())
	if x := New(Options{}).Explain(1, &Request{}); x.Revision != 0 || x.Outcome.Verdict != Admit || len(x.Limits) != 0 {
		t.Errorf("before any configuration: %+v", x)
	}
	if x := e.Explain(1, &Request{Tenant: "nobody", Pool: "api"}); x.Outcome.Reason != UnknownTenant || x.Tenant != "" {
		t.Errorf("an unknown tenant: %+v", x)
	}
	r := &Request{Tenant: "acme", Client: "alice", Pool: "api", Cost: 4}
	now := int64(1e9)
	for range 2 {
		if out := e.Decide(now, r); out.Verdict != Admit {
			t.Fatalf("%+v", out)
		}
	}
	x := e.Explain(now, r)
	if x.Tenant != "acme" || x.Revision != 3 || x.Outcome.Verdict != Reject || x.Outcome.Limit != "per-client" ||
		len(x.Limits) != 2 {
		t.Fatalf("%+v", x)
	}
	l := x.Limits[0]
	if l.Client != "alice" || l.Rate != 2 || l.Burst != 10 || l.Free < 1.99 || l.Free > 2.01 || l.Passes ||
		l.Wait.Round(time.Millisecond) != time.Second {
		t.Errorf("2 of 10 are left at 2/s: %+v", l)
	}
	if l := x.Limits[1]; l.Client != "" || l.Mode != config.Shadow || !l.Passes || l.Free > 92.01 {
		t.Errorf("the tenant's limit: %+v", l)
	}
	if x.Flow.Tenant != "acme" || x.Flow.Pool != "api" || x.Flow.Share != 1000 || x.Flow.Admitted != 2 ||
		x.Flow.Rejected != 0 || x.Flow.Claimed.Fair != 1 {
		t.Errorf("%+v", x.Flow)
	}
	if l := e.Explain(now, &Request{Tenant: "acme", Client: "vip", Pool: "api"}).Limits[0]; l.Rate != 50 ||
		l.Free != 100 || !l.Passes {
		t.Errorf("an override: %+v", l)
	}
	if x := e.Explain(now, &Request{Tenant: "acme", Client: "alice", Pool: "unknown"}); x.Flow.Pool != "" ||
		len(x.Limits) != 2 {
		t.Errorf("an unknown pool: %+v", x)
	}
	if got := e.Flows(9); len(got) != 1 || got[0].Tenant != "acme" || len(e.Flows(-1)) != 0 {
		t.Errorf("flows %+v", got)
	}
}

// A key that others use says what they claim.
func TestExplainContended(t *testing.T) {
	e := engineOf(t, explained())
	key := hash.Limit(0, "acme", "per-client", "alice")
	e.SetSums(1e9, &exchange.Sums{Full: true, Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 100 * time.Millisecond,
		Keys: []exchange.KeySum{{Key: key, Admitted: 6, Claims: 1.5, Active: 1, Spent: 6}}})
	r := &Request{Tenant: "acme", Client: "alice", Pool: "api"}
	e.Decide(1e9, r)
	l := e.Explain(1e9, r).Limits[0]
	if l.Claimed == nil || l.Claimed.Others != 1.5 || l.Claimed.Active != 1 ||
		!(l.Claimed.Fair > 0 && l.Claimed.Fair < 1) || l.Free > 4 {
		t.Errorf("%+v, claimed %+v", l, l.Claimed)
	}
	if s := e.Standing(); s.Replicas != 3 || s.TotalWeight != 3 || s.Lag != 100*time.Millisecond ||
		s.Isolation != exchange.Connected || s.Revision != 3 {
		t.Errorf("%+v", s)
	}
}

// Asking changes nothing: two engines decide alike, one of which is asked all the
// time, and asking makes no key.
func TestExplainDisturbsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain, asked := engineOf(t, explained()), engineOf(t, explained())
		now := int64(1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 5e8).Draw(t, "dt")
			r := &Request{Tenant: "acme", Client: rapid.SampledFrom([]string{"alice", "vip", ""}).Draw(t, "client"),
				Pool: "api", Cost: rapid.Float64Range(.1, 12).Draw(t, "cost")}
			x := asked.Explain(now, r)
			asked.Explain(now, &Request{Tenant: "acme", Client: rapid.String().Draw(t, "stranger"), Pool: "api"})
			asked.Flows(10)
			was, is := plain.Decide(now, r), asked.Decide(now, r)
			if !reflect.DeepEqual(was, is) {
				t.Fatalf("%+v, asked before %+v", was, is)
			}
			if x.Outcome.Verdict != is.Verdict {
				t.Fatalf("explained as %+v, decided as %+v", x.Outcome, is)
			}
		}
		var a, b Stats
		plain.Stats(now, &a)
		asked.Stats(now, &b)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v, asked %+v", a, b)
		}
	})
}

// Safe while others decide.
func TestExplainMeanwhile(t *testing.T) {
	e := engineOf(t, explained())
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			r := &Request{Tenant: "acme", Client: "alice", Pool: "api"}
			for i := range 500 {
				if worker == 0 {
					e.Explain(int64(i), r)
					e.Flows(3)
					e.Standing()
					continue
				}
				e.Decide(int64(i), r)
			}
		})
	}
	all.Wait()
}

// An event says whose it is, however it ends.
func TestEventsAreNamed(t *testing.T) {
	c := explained()
	c.Tenants[0].Quotas[0].Max = 5
	c.Pools[0].Queue.MaxWait = 400 * time.Millisecond
	e := engineOf(t, c)
	for i := range 10 {
		r := &Request{Tenant: "acme", Client: "vip", Pool: "api"}
		if out := e.Decide(1, r); out.Verdict == Wait {
			e.Enqueue(1, r, uint64(i+1))
		}
	}
	seen := map[Verdict]int{}
	for now := int64(1); now < 1e9; now += 5e6 {
		for _, ev := range e.Tick(now, nil) {
			seen[ev.Outcome.Verdict]++
			if ev.Tenant != "acme" || ev.Client != "vip" || ev.Pool != "api" {
				t.Fatalf("%+v", ev)
			}
		}
	}
	if seen[Admit] == 0 || seen[Reject] == 0 {
		t.Errorf("%v", seen)
	}
}
