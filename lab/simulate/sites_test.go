package simulate

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// overSites is a scenario of three sites of two gateways each, so far apart, with one limit.
func overSites(duration, apart time.Duration, rate, burst float64, p quotav1.Precision) *scenario.Scenario {
	s := scenario.New(duration, 6)
	s.Gossip.Delay, s.Lead = 250*time.Microsecond, 10*time.Second
	for i := range 3 {
		s.Sites = append(s.Sites, scenario.Site{Name: fmt.Sprintf("site-%d", i+1), Delay: apart, Jitter: apart / 10,
			Loss: .01, Replicas: []string{fmt.Sprintf("gw-%d", 2*i+1), fmt.Sprintf("gw-%d", 2*i+2)}})
	}
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Limit{
		Name: "tenants/acme/limits/each", Rate: fmt.Sprintf("%g/s", rate), Burst: burst, Precision: p}}
	return s
}

var atSite1 = scenario.Route{Weights: map[string]float64{"gw-1": 1, "gw-2": 1}}

// Within a site EXACT limits are exact, whatever the way between sites. Over sites nobody within the limit is refused,
// the excess is within (S−1)·(b + r·δ), and it is repaid.
func TestSites(t *testing.T) {
	for _, apart := range []time.Duration{12500 * time.Microsecond, 40 * time.Millisecond, 125 * time.Millisecond} {
		for _, l := range []struct{ rate, burst float64 }{{10, 10}, {100, 100}, {1000, 200}} {
			for _, p := range []quotav1.Precision{quotav1.Precision_EXACT, quotav1.Precision_PRECISION_UNSPECIFIED,
				quotav1.Precision_LOCAL} {
				name := fmt.Sprintf("%v apart, %g/s, burst %g, %s", apart, l.rate, l.burst, p)
				s := overSites(time.Minute, apart, l.rate, l.burst, p)
				client := func(name string, load float64, r scenario.Route) scenario.Client {
					return scenario.Client{Name: name, Tenant: "acme", Cost: 1, Demand: scenario.Poisson(load * l.rate),
						Route: r}
				}
				s.Clients = []scenario.Client{client("below", .6, scenario.Route{}), client("above", 1.5, scenario.Route{}),
					client("home", 1.5, atSite1), client("calm", .6, atSite1)}
				r, err := Run(t.Context(), s, Options{})
				if err != nil {
					t.Fatal(err)
				}
				line := name
				for _, k := range r.Systems[0].Keys {
					line += fmt.Sprintf(" | %s: excess %.1f, wrongly %d, of one bucket %.3f", k.Client, k.WorstExcess,
						k.Wrongful, float64(k.Admitted)/float64(k.Central))
				}
				t.Log(line, fmt.Sprintf("| gossip %.0f B/s", r.Systems[0].Gossip.Bytes.Mean))
			}
		}
	}
}
