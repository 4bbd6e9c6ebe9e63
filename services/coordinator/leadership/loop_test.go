package leadership

import (
	"fmt"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

// The configuration is named each round, and not read again if it has not changed. A configuration that comes while the
// loop is frozen is in force with the next leadership.
func TestConfigurationIsReadOnce(t *testing.T) {
	config := func(revision int64) *allocation.Config {
		c := &allocation.Config{Revision: revision, Pools: []allocation.Pool{{Name: "api", Capacity: float64(revision)}},
			Tenants: map[string]float64{}, Quotas: map[allocation.Flow]allocation.Quota{}}
		for i := range 100 {
			name := fmt.Sprintf("t%d", i)
			c.Tenants[name], c.Quotas[allocation.Flow{Tenant: name, Pool: "api"}] = 1, allocation.Quota{Guaranteed: .1}
		}
		return c
	}
	now := time.Unix(1_700_000_000, 0)
	l := New(Options{Params: allocation.Defaults(), Expiry: time.Second})
	l.Begin(now, 1, false)
	first, second := config(100), config(200)
	l.Configure(first)
	if n := testing.AllocsPerRun(10, func() { l.Configure(first) }); n > 0 {
		t.Errorf("the same configuration again: %v allocations, want 0", n)
	}
	l.Hello(now, &controlv1.Hello{Agent: "gw"})
	capacity := func() float64 {
		now = now.Add(time.Second)
		l.Step(now)
		v := l.View(now)
		return v.Pool("api").Capacity
	}
	if got := capacity(); got != 100 {
		t.Errorf("capacity %v, want 100", got)
	}
	l.Freeze()
	l.Configure(second)
	l.Configure(second)
	l.Begin(now, 2, true)
	if got := capacity(); got != 200 {
		t.Errorf("capacity %v after a configuration that came while frozen, want 200", got)
	}
}

// A leader that has lost etcd says at once that its shares are stale. It renews them, so agents do not.
func TestFrozenSharesAreStale(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := New(Options{Params: allocation.Defaults(), Expiry: time.Minute})
	l.Begin(now, 1, false)
	l.Configure(&allocation.Config{Revision: 1, Pools: []allocation.Pool{{Name: "api", Capacity: 100}}})
	receiver := l.Hello(now, &controlv1.Hello{Agent: "gw", Changes: true})
	step := func(stale bool, when string) {
		t.Helper()
		now = now.Add(time.Second)
		if sent := l.Step(now); !sent || len(l.Next(now, receiver)) == 0 {
			t.Errorf("%s: nothing is sent to agents", when)
		}
		if v := l.View(now); v.Stale != stale {
			t.Errorf("%s: stale %v, want %v", when, v.Stale, stale)
		}
	}
	step(false, "leading")
	l.Freeze()
	step(true, "without etcd")
	l.Begin(now, 2, true)
	step(false, "leading again")
}

// A leader that has lost etcd computes no shares, so what is taken of the unused capacity is not measured: it
// takes that back. A leadership that goes on gives it again.
func TestFrozenHasNoUnusedCapacity(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := New(Options{Params: allocation.Defaults(), Expiry: time.Second})
	l.Begin(now, 1, false)
	l.Configure(&allocation.Config{Revision: 1, Pools: []allocation.Pool{{Name: "api", Capacity: 100}}})
	receiver := l.Hello(now, &controlv1.Hello{Agent: "gw", Changes: true})
	round := func(want float64) {
		t.Helper()
		now = now.Add(time.Second)
		l.Step(now)
		got := -1.0
		for _, m := range l.Next(now, receiver) {
			for _, p := range m.Leases().GetPools() {
				got = p.GetUnused()
			}
		}
		if got != want {
			t.Errorf("unused capacity %v, want %v (-1: nothing sent)", got, want)
		}
	}
	round(100)
	l.Freeze()
	round(0)
	round(-1)
	l.Begin(now, 1, true)
	round(100)
}
