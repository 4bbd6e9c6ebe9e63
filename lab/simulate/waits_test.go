package simulate

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// However requests come together by chance, a tenant that asks for more than its share waits for its delay
// target at most in the mean of five seconds. It is the load of the demo, 30 times.
func TestWaitsOfSaturatedTenants(t *testing.T) {
	t.Parallel()
	const target = 200 * time.Millisecond
	for seed := range uint64(30) {
		s := scenario.New(10*time.Second, 3)
		s.Seed, s.Warmup = seed+1, 5*time.Second
		s.Gossip.Delay, s.Gossip.Jitter = time.Millisecond, time.Millisecond
		s.Resources = []resource.Message{&quotav1.Pool{Name: "pools/api", Capacity: 300,
			Queue: &quotav1.Queue{DelayTarget: durationpb.New(target), MaxWait: durationpb.New(time.Second)}}}
		for _, x := range []struct {
			name         string
			weight, rate float64 // rate of a client, requests/s
			clients      int
		}{{"acme", 3, 30, 5}, {"bolt", 2, 25, 4}, {"core", 3, 15, 4}, {"dart", 1, 25, 4}} {
			s.Resources = append(s.Resources, &quotav1.Tenant{Name: "tenants/" + x.name, Weight: x.weight})
			s.Clients = append(s.Clients, scenario.Client{Name: x.name, Count: x.clients, Tenant: x.name, Pool: "api",
				Cost: 1, Demand: scenario.Poisson(x.rate),
				Route: scenario.Route{Weights: map[string]float64{"gw-1": 6, "gw-2": 3, "gw-3": 1}}})
		}
		r, err := Run(t.Context(), s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Systems[0].Flows {
			if most := target.Seconds() * 1e3; f.Waits.MeanMs > most {
				t.Errorf("seed %d, %s: waits %.0f ms in the mean, want at most %v", s.Seed, f.Tenant, f.Waits.MeanMs, most)
			}
		}
	}
}
