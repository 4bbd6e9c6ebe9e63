package leadership

import (
	"fmt"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

// The configuration is named each round: one that has not changed is not read again. One
// that comes while the loop is frozen is in force with the next leadership.
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
