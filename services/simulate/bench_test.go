package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/simulate/scenario"
)

// large is a minute of 20 replicas and 100 keys at moderate rates: every client
// reaches all replicas, a third of them want more than their limit.
func large() *scenario.Scenario {
	s := scenario.New(time.Minute, 20)
	s.Pools = []scenario.Pool{{Name: "api", Capacity: 1200}}
	s.Tenants = []scenario.Tenant{
		{Name: "acme", Weight: 2, Limits: []config.Limit{{Name: "each", Rate: 20, Burst: 20}}},
		{Name: "beta", Weight: 1, Limits: []config.Limit{{Name: "each", Rate: 20, Burst: 20}}},
	}
	s.Clients = []scenario.Client{
		{Name: "calm", Count: 34, Tenant: "acme", Pool: "api", Cost: 1, Demand: scenario.Poisson(8)},
		{Name: "busy", Count: 33, Tenant: "acme", Pool: "api", Cost: 1, Demand: scenario.Poisson(30)},
		{Name: "other", Count: 33, Tenant: "beta", Pool: "api", Cost: 1, Demand: scenario.Poisson(12)},
	}
	return s
}

// BenchmarkLarge is what a user waits for.
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
	s.Tenants = []scenario.Tenant{{Name: "acme", Weight: 1,
		Limits: []config.Limit{{Name: "each", Rate: 10, Burst: 10}}}}
	s.Clients = []scenario.Client{{Name: "app", Tenant: "acme", Cost: 1, Demand: scenario.Poisson(20)}}
	for b.Loop() {
		if _, err := Run(context.Background(), s, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
