package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// large is a minute of 20 replicas and 100 keys at moderate rates: every client reaches all replicas, and a
// third of the clients ask for more than their limit.
func large() *scenario.Scenario {
	s := scenario.New(time.Minute, 20)
	s.Resources = []resource.Message{
		&quotav1.Pool{Name: "pools/api", Capacity: 1200},
		&quotav1.Tenant{Name: "tenants/acme", Weight: 2}, &quotav1.Tenant{Name: "tenants/beta"},
		&quotav1.Limit{Name: "tenants/-/limits/each", Rate: "20/s", Burst: 20},
	}
	s.Clients = []scenario.Client{
		{Name: "calm", Count: 34, Tenant: "acme", Pool: "api", Cost: 1, Demand: scenario.Poisson(8)},
		{Name: "busy", Count: 33, Tenant: "acme", Pool: "api", Cost: 1, Demand: scenario.Poisson(30)},
		{Name: "other", Count: 33, Tenant: "beta", Pool: "api", Cost: 1, Demand: scenario.Poisson(12)},
	}
	return s
}

// BenchmarkLarge measures the time that a user waits for a run.
func BenchmarkLarge(b *testing.B) {
	for b.Loop() {
		if _, err := Run(context.Background(), large(), Options{Series: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSmall is one cell of a grid: ten seconds, three replicas, one key.
func BenchmarkSmall(b *testing.B) {
	s := scenario.New(10*time.Second, 3)
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"},
		&quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "10/s", Burst: 10}}
	s.Clients = []scenario.Client{{Name: "app", Tenant: "acme", Cost: 1, Demand: scenario.Poisson(20)}}
	for b.Loop() {
		if _, err := Run(context.Background(), s, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
