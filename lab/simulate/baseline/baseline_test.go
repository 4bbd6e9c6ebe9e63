package baseline_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/lab/simulate"
	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/read"
	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

// play plays one baseline alone on a scenario.
func play(t rapid.TB, name, text string) *measure.System {
	t.Helper()
	s, err := read.Parse([]*document.File{document.Open("scenario", strings.NewReader(text))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate.Run(context.Background(), s, simulate.Options{Alone: true, Baselines: []string{name},
		Series: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Systems) != 1 || r.Systems[0].Name != name {
		t.Fatalf("played %+v", r.Systems)
	}
	return &r.Systems[0]
}

// admitted returns the mean rate that a gateway admitted between two times, units/s.
func admitted(s *measure.System, gateway int, from, to float64) float64 {
	sum, n := 0.0, 0
	for i, v := range s.Series.Gateways[gateway].Admitted {
		if at := float64(i) * s.Series.StepSeconds; at >= from && at < to {
			sum += v
			n++
		}
	}
	return sum / float64(n)
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %.3f, want %.3f ± %.3f", what, got, want, within)
	}
}

// uneven loads three gateways with 60, 30 and 10/s against a limit of 50/s.
const uneven = `- {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/a}
- {apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/a/limits/all, spec: {key: TENANT, rate: 50/s, burst: 40}}
- apiVersion: titrate.dev/v1alpha1
  kind: Scenario
  spec:
    duration: 40s
    replicas: 3
    gossip: {delay: 20ms, jitter: 5ms}
    clients:
      - {name: x, demand: {constant: 60/s}, route: {pinned: gw-1}}
      - {name: y, demand: {constant: 30/s}, route: {pinned: gw-2}}
      - {name: z, demand: {constant: 10/s}, route: {pinned: gw-3}}
`

// shared has two tenants that want 300 and 50 of 200/s.
const shared = `- {apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 200}}
- {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/big}
- {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/small}
- apiVersion: titrate.dev/v1alpha1
  kind: Scenario
  spec:
    duration: 40s
    replicas: 2
    clients:
      - {name: x, tenant: big, demand: {constant: 300/s}}
      - {name: y, tenant: small, demand: {constant: 50/s}}
`

// Each gateway has min(demand, r·w/W): 16.7, 16.7 and 10; tenants have half each.
func TestStaticHoldsItsPart(t *testing.T) {
	s := play(t, "static", uneven)
	for g, want := range []float64{50. / 3, 50. / 3, 10} {
		near(t, fmt.Sprint("gateway ", g), admitted(s, g, 5, 40), want, .1)
	}
	s = play(t, "static", shared)
	near(t, "big", s.Flows[0].Served, 100, 1)
	near(t, "small", s.Flows[1].Served, 50, 1)
	if s.Waits.MaxMs != 0 {
		t.Error("something waited")
	}
}

// Two gateways of weights 3 and 1: 15 and 5 of 20. A third of weight 1 that joins
// has 4, and when the first leaves the others have 10 each.
func TestStaticFollowsTheConfiguration(t *testing.T) {
	s := play(t, "static", `- {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/t}
- {apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/t/limits/all, spec: {key: TENANT, rate: 20/s, burst: 4}}
- apiVersion: titrate.dev/v1alpha1
  kind: Scenario
  spec:
    duration: 60s
    replicas: [{name: a, weight: 3}, {name: b}]
    clients: [{name: x, demand: {constant: 300/s}, route: {roundRobin: true}}]
    events: [{at: 20s, join: c}, {at: 40s, leave: a}]
`)
	for _, c := range []struct {
		gateway        int
		from, to, want float64
	}{{0, 5, 20, 15}, {1, 5, 20, 5}, {0, 25, 40, 12}, {1, 25, 40, 4}, {2, 25, 40, 4}, {0, 41, 60, 0}, {1, 45, 60, 10},
		{2, 45, 60, 10}} {
		near(t, fmt.Sprint(c), admitted(s, c.gateway, c.from, c.to), c.want, .2)
	}
}

// Whatever the demand, a static split never admits more than rate·t + burst and one
// unit for each gateway.
func TestStaticNeverExceeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		s := play(t, "static", fmt.Sprintf(`- {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/t}
- {apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/t/limits/each, spec: {rate: %d/s, burst: %d}}
- apiVersion: titrate.dev/v1alpha1
  kind: Scenario
  spec:
    duration: 5s
    replicas: %d
    seed: %d
    clients: [{name: x, count: 2, demand: {poisson: %d/s}}]
`, rapid.IntRange(1, 50).Draw(t, "rate"), rapid.IntRange(1, 50).Draw(t, "burst"), n,
			rapid.IntRange(0, 1000).Draw(t, "seed"), rapid.IntRange(1, 200).Draw(t, "demand")))
		for _, k := range s.Keys {
			if k.WorstExcess > float64(n)+1e-6 {
				t.Fatalf("%+v", k)
			}
		}
	})
}

// Central is the reference, a round trip later.
func TestCentralIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := play(t, "central", fmt.Sprintf(`- {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/t}
- {apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/t/limits/each, spec: {rate: %d/s, burst: %d}}
- {apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/t/limits/all, spec: {key: TENANT, rate: 60/s, burst: 20}}
- apiVersion: titrate.dev/v1alpha1
  kind: Scenario
  spec:
    duration: 6s
    replicas: 3
    seed: %d
    gossip: {delay: 30ms}
    clients: [{name: x, count: 3, demand: {onOff: {rate: %d/s, on: 1s, off: 500ms}, arrivals: POISSON}}]
`, rapid.IntRange(1, 50).Draw(t, "rate"), rapid.IntRange(1, 50).Draw(t, "burst"),
			rapid.IntRange(0, 1000).Draw(t, "seed"), rapid.IntRange(1, 100).Draw(t, "demand")))
		for _, k := range s.Keys {
			if k.Wrongful > 0 || k.WorstExcess > 1e-6 || k.Admitted > k.Central ||
				k.Admitted < k.Central-s.Requests.Waiting {
				t.Fatalf("%+v, %d waiting", k, s.Requests.Waiting)
			}
		}
		if s.Requests.Admitted > 0 && (s.Waits.MaxMs > 60.1 || s.Waits.P50Ms < 58) {
			t.Fatalf("%+v, want 60 ms", s.Waits)
		}
	})
}

// The small tenant gets its demand, the big tenant the rest except the spare part.
func TestCentralAndWaterfillShareByMaxMin(t *testing.T) {
	for _, name := range []string{"central", "waterfill"} {
		s := play(t, name, shared)
		near(t, name+" big", s.Flows[0].Served, 200-50*1.1-1, 2.5)
		near(t, name+" small", s.Flows[1].Served, 50, 1)
	}
}

// One bucket for all tenants gives in proportion to demand.
func TestSharedDoesNotTellTenantsApart(t *testing.T) {
	s := play(t, "shared", strings.NewReplacer("capacity: 200", "capacity: 120", "constant", "poisson").Replace(shared))
	offered := s.Flows[0].Wanted + s.Flows[1].Wanted
	near(t, "big", s.Flows[0].Served, 120*s.Flows[0].Wanted/offered, 5)
	near(t, "small", s.Flows[1].Served, 120*s.Flows[1].Wanted/offered, 5)
}

func TestCentralLosesAndAbandons(t *testing.T) {
	s := play(t, "central", `- {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/t}
- {apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/t/limits/each, spec: {rate: 10/s}}
- apiVersion: titrate.dev/v1alpha1
  kind: Scenario
  spec:
    duration: 10s
    replicas: 2
    gossip: {delay: 200ms}
    clients:
      - {name: patient, demand: {constant: 5/s}, route: {pinned: gw-1}}
      - {name: hasty, patience: 100ms, demand: {constant: 5/s}, route: {pinned: gw-2}}
    events: [{at: 5s, crash: gw-1}]
`)
	if q := s.Requests; q.Lost != 2 || q.Abandoned < 49 ||
		q.Offered != q.Admitted+q.Rejected+q.Abandoned+q.Lost+q.Waiting {
		t.Errorf("%+v, want two lost: 0.4 s of 5/s", q)
	}
	// Cut off from the service, everything passes.
	s = play(t, "central", strings.Replace(uneven, "clients:",
		"events: [{at: 10s, coordinator: LOST}, {at: 20s, coordinator: BACK}]\n    clients:", 1))
	near(t, "without the service", admitted(s, 0, 11, 20), 60, .2)
}

// Parts follow arrivals: 30, 15 and 5 of 50.
func TestFPSFollowsArrivals(t *testing.T) {
	s := play(t, "fps", uneven)
	for g, want := range []float64{30, 15, 5} {
		near(t, fmt.Sprint("gateway ", g), admitted(s, g, 10, 40), want, .05*want)
	}
	// A gateway without messages from the others for a second takes the whole limit: 50, and 30 + 10.
	s = play(t, "fps", strings.Replace(uneven, "clients:",
		"events: [{at: 20s, partition: [[gw-1], [gw-2, gw-3]]}]\n    clients:", 1))
	near(t, "alone", admitted(s, 0, 25, 40), 50, 1)
	near(t, "the others", admitted(s, 1, 25, 40)+admitted(s, 2, 25, 40), 40, 1)
}

// The sawtooth stays between three quarters and a little above the limit.
func TestAIMDHoversBelowTheLimit(t *testing.T) {
	s := play(t, "aimd", strings.Replace(strings.Replace(uneven, "60/s", "100/s", 1), "30/s", "100/s", 1))
	total := 0.0
	for g := range 3 {
		total += admitted(s, g, 10, 40)
	}
	if total < .75*50 || total > 1.1*50 {
		t.Errorf("%.1f/s of 50", total)
	}
	near(t, "two alike", admitted(s, 0, 10, 40)/admitted(s, 1, 10, 40), 1, .1)
}

// 10·1.1 + 2·f = 50: 19.5, 19.5, and all that the third wants.
func TestWaterfillIsMaxMin(t *testing.T) {
	s := play(t, "waterfill", uneven)
	for g, want := range []float64{19.5, 19.5, 10} {
		near(t, fmt.Sprint("gateway ", g), admitted(s, g, 10, 40), want, .3)
	}
	if s.Keys[0].WorstExcess > 4 {
		t.Errorf("%+v", s.Keys[0])
	}
	// Without a coordinator the last parts hold.
	s = play(t, "waterfill", strings.Replace(uneven, "clients:", "events: [{at: 10s, coordinator: LOST}]\n    clients:", 1))
	near(t, "frozen", admitted(s, 1, 15, 40), 19.5, .3)
}

func TestTooManyBucketsAreRefused(t *testing.T) {
	s := scenario.New(time.Second, 1000)
	s.Warmup = 0
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/t"},
		&quotav1.Limit{Name: "tenants/t/limits/l", Rate: "1/s"}}
	s.Clients = []scenario.Client{{Name: "c", Tenant: "t", Count: 5000, Cost: 1, Demand: scenario.Constant(1. / 3600)}}
	_, err := simulate.Run(t.Context(), s, simulate.Options{Alone: true, Baselines: []string{"fps"}})
	if err == nil || !strings.Contains(err.Error(), "5000 limited clients and flows on 1000 gateways") {
		t.Error(err)
	}
}
