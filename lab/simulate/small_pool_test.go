package simulate

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// smallPool is a pool of 60/s behind three gateways: three tenants want less than their share, one has a
// maximum, two want twice the rest.
func smallPool(seed uint64, demand func(rate float64) scenario.Demand) *scenario.Scenario {
	s := scenario.New(2*time.Minute, 3)
	s.Seed, s.Warmup = seed, 10*time.Second
	s.Gossip.Delay, s.Gossip.Jitter = 2*time.Millisecond, time.Millisecond
	s.Resources = []resource.Message{&quotav1.Pool{Name: "pools/api", Capacity: 60},
		&quotav1.Quota{Name: "tenants/capped/quotas/api", Max: proto.Float64(6)}}
	for _, t := range []struct {
		name   string
		weight float64
		rates  []float64
	}{
		{"steady", 3, []float64{8, 7}}, {"heavy", 2, []float64{20, 13}}, {"greedy", 1, []float64{33}},
		{"capped", 2, []float64{12}}, {"limited", 3, []float64{9}}, {"exact", 2, []float64{6}},
	} {
		s.Resources = append(s.Resources, &quotav1.Tenant{Name: "tenants/" + t.name, Weight: t.weight})
		for i, rate := range t.rates {
			s.Clients = append(s.Clients, scenario.Client{
				Name: t.name + string(rune('1'+i)), Tenant: t.name, Pool: "api", Cost: 1, Demand: demand(rate)})
		}
	}
	return s
}

// Gateways lose part of a small share, and small demands are noisy: tenants beyond their
// share get it all the same, and not at the cost of the others.
func TestSmallPoolIsShared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		demand   func(float64) scenario.Demand
		least    float64 // of its fair share, for a tenant that wants more
		wrongful int     // requests of 3300 that are refused of tenants within their share
	}{
		{"constant", scenario.Constant, .95, 60},
		{"poisson", scenario.Poisson, .92, 300},
	} {
		for seed := range uint64(2) {
			r, err := Run(t.Context(), smallPool(seed+1, c.demand), Options{})
			if err != nil {
				t.Fatal(err)
			}
			wrongful := 0
			for _, f := range r.Systems[0].Flows {
				wrongful += f.Wrongful
				if got := f.Served / f.Entitlement; (f.Tenant == "heavy" || f.Tenant == "greedy") &&
					(got < c.least || got > 1.06) {
					t.Errorf("%s, seed %d: %s gets %.3f of its fair share", c.name, seed+1, f.Tenant, got)
				}
			}
			if wrongful > c.wrongful {
				t.Errorf("%s, seed %d: %d wrongful refusals", c.name, seed+1, wrongful)
			}
		}
	}
}
