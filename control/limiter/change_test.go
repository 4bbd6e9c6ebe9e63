package limiter

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
)

// Whatever changes: an engine that is given each change decides like an engine that is given
// each whole configuration. (Limits have no queue here: the whole has every held request asked
// again at once, a change only the requests of its tenants.)
func TestChangesEqualWholeConfigurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set config.Set
		var wanted [2]Wanted
		var engines [2]*Engine
		for i := range engines {
			engines[i] = New(Options{Keys: 1024, Wants: func(w Wanted) { wanted[i] = w }})
			engines[i].Name(Names{Identities: [MaxIdentities]string{2: "ip"}, Classes: [MaxClasses]string{3: "writes"}})
		}
		first := simple(20, config.Queue{})
		first.Defaults = []config.Limit{{Name: "each", Rate: 3, Burst: 4}}
		first.Plans = []config.Tenant{{Name: "gold", Weight: 2, Limits: []config.Limit{{Name: "own", Rate: 2, Burst: 2}}}}
		set.Replace(first)
		for _, e := range engines {
			if err := e.Apply(set.Config()); err != nil {
				t.Fatal(err)
			}
		}
		now := sec
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			d := drawDelta(t, set.Revision())
			if err := set.Change(d); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(engines[0].Change(d), engines[1].Apply(set.Config())); err != nil {
				t.Fatal(err)
			}
			if wanted[0] != wanted[1] {
				t.Fatalf("wants %+v, by the whole %+v", wanted[0], wanted[1])
			}
			for range 40 {
				now += int64(rapid.IntRange(0, 60).Draw(t, "ms")) * ms
				r := &Request{Tenant: rapid.SampledFrom(tenantNames).Draw(t, "tenant"), Pool: "api", Client: "c", Cost: 1,
					Identities: &Identities{2: "1.2.3.4"}, Classes: 1 << 3}
				compareEngines(t, engines, now, r)
			}
		}
	})
}

var tenantNames = []string{"a", "b", "c", config.DefaultTenant}

// drawDelta draws a change of the tenants.
func drawDelta(t *rapid.T, base int64) *config.Delta {
	d := &config.Delta{Base: base, Revision: base + 1}
	if rapid.Bool().Draw(t, "plan changes") {
		d.Plans = []config.Tenant{{Name: "gold", Weight: float64(rapid.IntRange(0, 3).Draw(t, "weight")),
			Limits: []config.Limit{{Name: "own", Rate: float64(rapid.IntRange(1, 3).Draw(t, "rate")), Burst: 2}}}}
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(tenantNames), 0, 3, rapid.ID).Draw(t, "names") {
		if rapid.IntRange(0, 3).Draw(t, "removed") == 0 {
			d.Removed = append(d.Removed, name)
			continue
		}
		tenant := config.Tenant{Name: name, Weight: float64(rapid.IntRange(0, 2).Draw(t, "weight")),
			Plan: rapid.SampledFrom([]string{"", "gold"}).Draw(t, "plan")}
		if rapid.Bool().Draw(t, "limited") {
			l := config.Limit{Name: rapid.SampledFrom([]string{"each", "own"}).Draw(t, "limit"), Rate: 2, Burst: 3,
				Identity: rapid.SampledFrom([]string{"", "ip", "none"}).Draw(t, "identity")}
			if rapid.Bool().Draw(t, "of a class") {
				l.Classes = []string{"writes"}
			}
			tenant.Limits = []config.Limit{l}
		}
		if rapid.Bool().Draw(t, "quota") {
			tenant.Quotas = []config.Quota{{Pool: "api", Guaranteed: 1, Max: 5}}
		}
		d.Tenants = append(d.Tenants, tenant)
	}
	return d
}

// compareEngines has both engines decide a request, and tick.
func compareEngines(t *rapid.T, engines [2]*Engine, now int64, r *Request) {
	var got [2]Outcome
	var explained [2]Explanation
	var released [2][]Event
	for i, e := range engines {
		if got[i] = e.Decide(now, r); got[i].Verdict == Wait {
			got[i], _ = e.Enqueue(now, r, uint64(now))
		}
		explained[i] = e.Explain(now, r)
		if f := explained[i].Flow.Flight; f != nil {
			t.Fatal("not an adaptive pool")
		}
		released[i] = e.Tick(now, nil)
	}
	if got[0] != got[1] {
		t.Fatalf("%s at %d: %+v, by the whole %+v", r.Tenant, now, got[0], got[1])
	}
	if !reflect.DeepEqual(explained[0], explained[1]) {
		t.Fatalf("%s at %d: %+v, by the whole %+v", r.Tenant, now, explained[0], explained[1])
	}
	if !reflect.DeepEqual(released[0], released[1]) {
		t.Fatalf("at %d: %+v, by the whole %+v", now, released[0], released[1])
	}
}

// A change that does not fit leaves everything as it is, and a change that fits leaves the other
// tenants as they are.
func TestChangeTouchesWhatItNames(t *testing.T) {
	e := New(Options{Keys: 1024})
	var base *config.BaseError
	if err := e.Change(&config.Delta{Base: 3}); !errors.As(err, &base) || base.Base != 3 || base.InForce != 0 {
		t.Errorf("before any configuration: %v", err)
	}
	c := simple(10, config.Queue{})
	c.Tenants = append(c.Tenants, config.Tenant{Name: "b"})
	mustApply(t, e, c)
	before := e.snap.Load()
	bad := config.Tenant{Name: "a", Limits: []config.Limit{{Name: "l", Rate: -1}}}
	var field *config.FieldError
	for _, tc := range []struct {
		d  *config.Delta
		as any
	}{
		{&config.Delta{Base: 2, Revision: 3}, &base},
		{&config.Delta{Base: 1, Revision: 2, Tenants: []config.Tenant{bad}}, &field},
		{&config.Delta{Base: 1, Revision: 2, Tenants: []config.Tenant{{Name: "a",
			Quotas: []config.Quota{{Pool: "none"}}}}}, &field},
		{&config.Delta{Base: 1, Revision: 2, Shared: &config.Shared{}}, nil},
	} {
		if err := e.Change(tc.d); err == nil || tc.as != nil && !errors.As(err, tc.as) || e.snap.Load() != before {
			t.Errorf("%+v: %v", tc.d, err)
		}
	}
	err := e.Change(&config.Delta{Base: 1, Revision: 2, Removed: []string{"none"},
		Tenants: []config.Tenant{{Name: "a", Weight: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	after := e.snap.Load()
	if after.tenants["b"] != before.tenants["b"] || after.tenants["a"].weight != 3 || before.tenants["a"].weight != 1 {
		t.Errorf("after the change: %+v", after.tenants)
	}
	if after.revision != 2 || after.weight != 4 || before.weight != 2 {
		t.Errorf("revision %d, weight %v after %v", after.revision, after.weight, before.weight)
	}
}

// A whole configuration, and a change of one tenant, among so many tenants, of which one in
// ten has traffic.
func BenchmarkConfigure(b *testing.B) {
	for _, tenants := range []int{1e3, 1e4, 1e5} {
		c := &config.Config{Revision: 1, Seed: 1, Pools: []config.Pool{{Name: "api", Capacity: 1e6}},
			Defaults: []config.Limit{{Name: "each", Rate: 10, Burst: 10}}}
		for i := range tenants {
			c.Tenants = append(c.Tenants, config.Tenant{Name: fmt.Sprintf("t%06d", i), Weight: 1,
				Limits: []config.Limit{{Name: "own", Rate: 10, Burst: 10}},
				Quotas: []config.Quota{{Pool: "api", Guaranteed: 1, Max: 100}}})
		}
		e := New(Options{Keys: 1024})
		mustApply(b, e, c)
		for i := 0; i < tenants; i += 10 {
			e.Decide(sec, &Request{Tenant: c.Tenants[i].Name, Pool: "api", Client: "c", Cost: 1})
		}
		b.Run(fmt.Sprintf("whole/tenants=%d", tenants), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustApply(b, e, c)
			}
		})
		b.Run(fmt.Sprintf("plan/tenants=%d", tenants), func(b *testing.B) {
			on := *c
			on.Plans, on.Tenants = []config.Tenant{{Name: "gold"}}, slices.Clone(c.Tenants)
			for i := range on.Tenants {
				on.Tenants[i].Plan, on.Tenants[i].Limits = "gold", nil
			}
			mustApply(b, e, &on)
			b.ReportAllocs()
			for i := int64(1); b.Loop(); i++ {
				gold := config.Tenant{Name: "gold", Limits: []config.Limit{{Name: "own", Rate: float64(i), Burst: 10}}}
				if err := e.Change(&config.Delta{Base: i, Revision: i + 1, Plans: []config.Tenant{gold}}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("change/tenants=%d", tenants), func(b *testing.B) {
			mustApply(b, e, c)
			b.ReportAllocs()
			for i := int64(1); b.Loop(); i++ {
				changed := c.Tenants[7]
				changed.Limits = []config.Limit{{Name: "own", Rate: float64(i), Burst: 10}}
				if err := e.Change(&config.Delta{Base: i, Revision: i + 1, Tenants: []config.Tenant{changed}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
