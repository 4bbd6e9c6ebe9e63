package coordinator

import (
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/leadership"
)

// Guarantees that exceed a pool's capacity are reported before anybody asks for them.
func TestInfeasibleGuarantees(t *testing.T) {
	for guaranteed, want := range map[float64]bool{50: false, 51: true} {
		loop := leadership.New(leadership.Options{Params: allocation.Defaults(), Expiry: time.Second})
		loop.Configure(&allocation.Config{Revision: 1, Pools: []allocation.Pool{{Name: "api", Capacity: 100}},
			Tenants: map[string]float64{"a": 1, "b": 1}, Quotas: map[allocation.Flow]allocation.Quota{
				{Tenant: "a", Pool: "api"}: {Guaranteed: 50}, {Tenant: "b", Pool: "api"}: {Guaranteed: guaranteed}}})
		now := time.Now()
		loop.Begin(now, 1, false)
		loop.Hello(now, &controlv1.Hello{Agent: "gw"})
		loop.Step(now)
		status := (&live{&Coordinator{loop: loop, elector: election.New(election.Config{})}}).ownStates([]string{"pools/api"}, nil).Pools["pools/api"]
		if got := status.GetInfeasibleGuarantees(); got != want {
			t.Errorf("50 and %v guaranteed of 100: infeasible %v, want %v", guaranteed, got, want)
		}
	}
}
