package leadership

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/delivery"
)

// leader is a loop with one agent, which does not understand changes.
type leader struct {
	*Loop
	receiver *delivery.Receiver
}

// step is a round, and what the agent is sent then: everything.
func (l *leader) step(now time.Time) *controlv1.Leases {
	l.Step(now)
	messages := l.Next(now, l.receiver)
	return messages[len(messages)-1].Leases()
}

// A leader's estimate of an adaptive pool goes out with its leases, and a new leader
// begins with the leases that agents echo.
func TestEstimateOutlivesItsLeader(t *testing.T) {
	config := &allocation.Config{Revision: 1, Tenants: map[string]float64{"a": 1}, Pools: []allocation.Pool{
		{Name: "api", Capacity: 100, Adaptive: allocation.Range{Min: 10, Max: 1000}}, {Name: "fixed", Capacity: 70}}}
	now := time.Unix(1_700_000_000, 0)
	lead := func(epoch int64, hello *controlv1.Hello) *leader {
		l := New(Options{Params: allocation.Defaults(), Expiry: time.Second})
		l.Configure(config)
		l.Begin(now, epoch, false)
		return &leader{l, l.Hello(now, hello)}
	}
	first := lead(1, &controlv1.Hello{Agent: "gw"})
	// The pool is full, and the upstream keeps up: the estimate rises.
	var leases *controlv1.Leases
	for range 80 {
		now = now.Add(250 * time.Millisecond)
		served := 100.0
		if leases != nil {
			served = leases.Pools[0].Capacity
		}
		first.Report(now, "gw", &controlv1.Report{Interval: durationpb.New(250 * time.Millisecond),
			Flows: []*controlv1.FlowReport{{
				Tenant: "a", Pool: "api", Gateway: "gw", Demand: 5000, Served: served, Limited: true,
				Completed: served, Residence: .05 * served, InFlight: .05 * served}}})
		leases = first.step(now)
	}
	found := leases.Pools[0].Capacity
	if found < 300 || found > 1000 || leases.Pools[1].Capacity != 70 {
		t.Fatalf("after 20 s of a pool that is full: %v", leases.Pools)
	}
	second := lead(2, &controlv1.Hello{Agent: "gw", Epoch: 1, Pools: leases.Pools})
	if got := second.step(now).Pools[0].Capacity; math.Abs(got/found-1) > 1e-9 {
		t.Errorf("the next leader begins at %v, the last one ended at %v", got, found)
	}
	if v := second.View(now); v.Pool("api").Estimate != second.step(now).Pools[0].Capacity {
		t.Errorf("%+v", v.Pool("api"))
	}
}
