package simulate

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// overSites is a scenario of three sites of two gateways each, so far apart, with one limit that states a precision
// or none. It begins when gateways of one site would have standing parts.
func overSites(duration, apart time.Duration, rate, burst float64, p quotav1.Precision) *scenario.Scenario {
	s := scenario.New(duration, 6)
	s.Gossip.Delay, s.Lead = 250*time.Microsecond, partsLead
	for i := range 3 {
		s.Sites = append(s.Sites, scenario.Site{Name: fmt.Sprintf("site-%d", i+1), Delay: apart, Jitter: apart / 10,
			Loss: .01, Replicas: []string{fmt.Sprintf("gw-%d", 2*i+1), fmt.Sprintf("gw-%d", 2*i+2)}})
	}
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"}, &quotav1.Limit{
		Name: "tenants/acme/limits/each", Rate: fmt.Sprintf("%g/s", rate), Burst: burst, Precision: p}}
	return s
}

var atSite1 = scenario.Route{Weights: map[string]float64{"gw-1": 1, "gw-2": 1}}

// Within a site limits are EXACT, whatever the way between sites. Over sites nobody within the limit is refused, the
// excess is within (S−1)·(b + r·δ), and it is repaid.
func TestSites(t *testing.T) {
	t.Parallel()
	const sites = 3
	precisions := []quotav1.Precision{quotav1.Precision_PRECISION_UNSPECIFIED, quotav1.Precision_LOCAL}
	for _, apart := range []time.Duration{12500 * time.Microsecond, 40 * time.Millisecond, 125 * time.Millisecond} {
		for _, l := range []struct{ rate, burst float64 }{{10, 10}, {100, 100}, {1000, 200}} {
			for _, p := range precisions {
				exact := p != quotav1.Precision_LOCAL
				s := overSites(20*time.Second, apart, l.rate, l.burst, p)
				client := func(name string, load float64, r scenario.Route) scenario.Client {
					return scenario.Client{Name: name, Tenant: "acme", Cost: 1, Demand: scenario.Poisson(load * l.rate),
						Route: r}
				}
				s.Clients = []scenario.Client{client("below", .6, scenario.Route{}), client("above", 1.5, scenario.Route{}),
					client("home", 1.5, atSite1)}
				delta := apart + apart/10 + 250*time.Millisecond
				bound := (sites - 1) * (l.burst + l.rate*delta.Seconds())
				name := fmt.Sprintf("%v apart, %g/s, burst %g, %s", apart, l.rate, l.burst, p)
				for _, k := range run(t, s, Options{}).Systems[0].Keys {
					ratio := float64(k.Admitted) / float64(k.Central)
					t.Logf("%s: %s: excess %.1f, wrongly %d, of one bucket %.3f", name, k.Client, k.WorstExcess, k.Wrongful,
						ratio)
					switch {
					case k.Client == "below" && k.Wrongful > 1, k.WorstExcess > bound, ratio < .98,
						k.Client == "home" && exact && k.WorstExcess > 1+8*l.rate*s.Gossip.Delay.Seconds():
						t.Errorf("%s: %+v", name, k)
					}
				}
			}
		}
	}
}

// One of three sites is cut off. Clients within the limit are hardly refused, and the excess is bounded.
func TestSiteCutOff(t *testing.T) {
	t.Parallel()
	const heals = time.Minute
	for _, c := range []struct {
		cut  time.Duration
		rate float64 // and burst
		quotav1.Precision
		quotav1.Scope
	}{
		{30 * time.Second, 100, quotav1.Precision_PRECISION_UNSPECIFIED, quotav1.Scope_SITE},
		{30 * time.Second, 100, quotav1.Precision_LOCAL, quotav1.Scope_SITE},
		{6 * time.Minute, 100, quotav1.Precision_PRECISION_UNSPECIFIED, quotav1.Scope_SITE},
		{6 * time.Minute, 100, quotav1.Precision_LOCAL, quotav1.Scope_SITE},
		{30 * time.Second, 100, quotav1.Precision_EXACT, quotav1.Scope_GLOBAL},
		{6 * time.Minute, 100, quotav1.Precision_EXACT, quotav1.Scope_GLOBAL},
		{time.Hour, 10, quotav1.Precision_PRECISION_UNSPECIFIED, quotav1.Scope_SITE},
	} {
		t.Run(fmt.Sprintf("%v at %g per second, %s %s", c.cut, c.rate, c.Precision, c.Scope), func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.cut > time.Minute {
				t.Skip("make simulations plays it")
			}
			begins := max(20*time.Second, c.cut/4) // a site counts for five times as long as it was known
			s := overSites(begins+c.cut+heals, 40*time.Millisecond, c.rate, c.rate, c.Precision)
			s.Resources[1].(*quotav1.Limit).Scope = c.Scope
			s.Clients = []scenario.Client{
				{Name: "home", Tenant: "acme", Cost: 1, Demand: scenario.Poisson(.8 * c.rate), Route: atSite1},
				{Name: "below", Tenant: "acme", Cost: 1, Demand: scenario.Poisson(.6 * c.rate)},
				{Name: "above", Tenant: "acme", Cost: 1, Demand: scenario.Poisson(1.5 * c.rate)}}
			s.Events = []scenario.Event{
				{At: begins, Kind: scenario.Partition, Groups: [][]string{{"gw-1", "gw-2"}}},
				{At: begins + c.cut, Kind: scenario.Heal}}
			for _, k := range run(t, s, Options{}).Systems[0].Keys {
				refused := float64(k.Rejected) / float64(k.Offered)
				t.Logf("%s: excess %.1f, refused %.4f, wrongly %d, of one bucket %.3f", k.Client, k.WorstExcess, refused,
					k.Wrongful, float64(k.Admitted)/float64(k.Central))
				if k.Client != "above" && refused > .005 {
					t.Errorf("%s: %.2f %% refused", k.Client, 100*refused)
				}
				if bound := 2*c.rate + .2*c.rate*c.cut.Seconds(); k.WorstExcess > bound {
					t.Errorf("%s: %.0f over, want at most %.0f", k.Client, k.WorstExcess, bound)
				}
			}
		})
	}
}

// A limit of the scope GLOBAL is exact over sites where its burst is 8 times what comes in during the way between them.
func TestGlobalScope(t *testing.T) {
	t.Parallel()
	for _, apart := range []time.Duration{12500 * time.Microsecond, 40 * time.Millisecond, 125 * time.Millisecond} {
		for _, l := range []struct{ rate, burst float64 }{{10, 10}, {100, 100}, {1000, 1000}} {
			if testing.Short() && l.rate != 100 {
				continue
			}
			s := overSites(20*time.Second, apart, l.rate, l.burst, quotav1.Precision_EXACT)
			s.Resources[1].(*quotav1.Limit).Scope = quotav1.Scope_GLOBAL
			client := func(name string, load float64, r scenario.Route) scenario.Client {
				return scenario.Client{Name: name, Tenant: "acme", Cost: 1, Demand: scenario.Poisson(load * l.rate),
					Route: r}
			}
			s.Clients = []scenario.Client{client("below", .6, scenario.Route{}), client("above", 1.5, scenario.Route{}),
				client("calm", .6, atSite1), client("home", 1.5, atSite1)}
			name := fmt.Sprintf("%v apart, %g/s, burst %g", apart, l.rate, l.burst)
			played := run(t, s, Options{}).Systems[0]
			t.Logf("%s: waits %+v", name, played.Waits)
			for _, k := range played.Keys {
				ratio := float64(k.Admitted) / float64(k.Central)
				t.Logf("%s: %s: excess %.1f, wrongly %d of %d, of one bucket %.3f", name, k.Client, k.WorstExcess, k.Wrongful,
					k.Offered, ratio)
				switch spread := k.Client == "below" || k.Client == "above"; {
				case k.Client != "above" && k.Wrongful > 0, 100*k.Wrongful > k.Offered, ratio < .98,
					spread && k.WorstExcess > 1+2*l.rate*apart.Seconds(), !spread && k.WorstExcess > 1:
					t.Errorf("%s: %+v", name, k)
				}
			}
		}
	}
}
