package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// limited is a scenario of one client with one limit and no pool.
func limited(n int, d time.Duration, rate, burst float64, demand scenario.Demand,
	route scenario.Route) *scenario.Scenario {
	s := scenario.New(d, n)
	s.Resources = []resource.Message{&quotav1.Tenant{Name: "tenants/acme"}, limit("acme", "each", rate, burst)}
	s.Clients = []scenario.Client{{Name: "app", Tenant: "acme", Cost: 1, Demand: demand, Route: route}}
	return s
}

// limit is a limit of a tenant.
func limit(tenant, name string, rate, burst float64) *quotav1.Limit {
	return &quotav1.Limit{Name: "tenants/" + tenant + "/limits/" + name, Rate: fmt.Sprint(rate, "/s"), Burst: burst}
}

// applied is an event that puts a resource in force.
func applied(at time.Duration, m resource.Message) scenario.Event {
	return scenario.Event{At: at, Kind: scenario.Apply, Resource: m}
}

// shared is a pool of 300 that three tenants of weights 3, 2 and 1 want: two more
// than there is, the last far less than its share.
func shared(n int, d time.Duration) *scenario.Scenario {
	s := scenario.New(d, n)
	s.Resources = []resource.Message{&quotav1.Pool{Name: "pools/api", Capacity: 300}}
	for i, name := range []string{"big", "mid", "low"} {
		s.Resources = append(s.Resources, &quotav1.Tenant{Name: "tenants/" + name, Weight: float64(3 - i)})
		rate := []float64{300, 200, 20}[i]
		s.Clients = append(s.Clients, scenario.Client{Name: "c-" + name, Tenant: name, Pool: "api", Cost: 1,
			Demand: scenario.Poisson(rate)})
	}
	return s
}

// eventful has all that can happen.
func eventful() *scenario.Scenario {
	s := shared(3, 24*time.Second)
	s.Seed = 7
	s.Gossip.Jitter, s.Gossip.Loss = 5*time.Millisecond, .1
	each, all := limit("big", "each", 40, 20), limit("mid", "all", 150, 50)
	each.Queue = &quotav1.Queue{MaxWait: durationpb.New(500 * time.Millisecond)}
	all.Key = quotav1.Key_TENANT
	s.Resources = append(s.Resources, each, all)
	s.Clients[0].Count, s.Clients[0].Demand, s.Clients[0].Patience = 5, scenario.Poisson(60), 200*time.Millisecond
	at := func(seconds float64, e scenario.Event) {
		e.At = time.Duration(seconds * 1e9)
		s.Events = append(s.Events, e)
	}
	at(3, scenario.Event{Kind: scenario.Partition, Groups: [][]string{{"gw-1"},
		{"gw-2", "gw-3", scenario.Coordinator}}})
	at(6, scenario.Event{Kind: scenario.Heal})
	at(8, scenario.Event{Kind: scenario.Join, Replica: "gw-4"})
	at(10, scenario.Event{Kind: scenario.Crash, Replica: "gw-2"})
	at(12, scenario.Event{Kind: scenario.Restart, Replica: "gw-3"})
	at(13, scenario.Event{Kind: scenario.AgentLost, Replica: "gw-3"})
	at(14, scenario.Event{Kind: scenario.CoordinatorLost})
	at(16, scenario.Event{Kind: scenario.CoordinatorBack})
	at(17, scenario.Event{Kind: scenario.AgentBack, Replica: "gw-3"})
	slower := limit("mid", "all", 60, 10)
	slower.Key = quotav1.Key_TENANT
	at(18, applied(0, slower))
	at(20, applied(0, &quotav1.Pool{Name: "pools/api", Capacity: 200}))
	at(22, scenario.Event{Kind: scenario.Leave, Replica: "gw-1"})
	return s
}

func run(t *testing.T, s *scenario.Scenario, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Systems {
		conserved(t, &x)
	}
	return r
}

// conserved: offered = admitted + rejected + abandoned + lost + waiting, everywhere.
func conserved(t *testing.T, s *measure.System) {
	t.Helper()
	sum := measure.Requests{}
	for _, f := range s.Flows {
		if f.Requests.Waiting < 0 {
			t.Errorf("%s: flow %s/%s: more answers than requests: %+v", s.Name, f.Tenant, f.Pool, f.Requests)
		}
		sum.Offered += f.Requests.Offered
		sum.Admitted += f.Requests.Admitted
		sum.Rejected += f.Requests.Rejected
		sum.Abandoned += f.Requests.Abandoned
		sum.Lost += f.Requests.Lost
		sum.Waiting += f.Requests.Waiting
	}
	all := s.Requests
	all.Marked, all.Reasons = 0, nil
	if got, _ := json.Marshal(sum); string(got) != mustJSON(t, all) {
		t.Errorf("%s: flows together %s, the run %s", s.Name, got, mustJSON(t, all))
	}
	reasons := 0
	for _, n := range s.Requests.Reasons {
		reasons += n
	}
	if reasons != s.Requests.Rejected {
		t.Errorf("%s: %d rejects with a reason of %d", s.Name, reasons, s.Requests.Rejected)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSameSeedSameBytes(t *testing.T) {
	t.Parallel()
	s := eventful()
	first := mustJSON(t, run(t, s, Options{Series: true}))
	for range 3 {
		if again := mustJSON(t, run(t, s, Options{Series: true})); again != first {
			t.Fatal("another run of the same scenario gives another result")
		}
	}
	s.Seed++
	if other := mustJSON(t, run(t, s, Options{Series: true})); other == first {
		t.Error("another seed gives the same result")
	}
}

// All that can happen happens, and every request has its fate.
func TestEventful(t *testing.T) {
	t.Parallel()
	x := run(t, eventful(), Options{}).Systems[0]
	if x.Requests.Abandoned == 0 || x.Requests.Lost == 0 || x.Requests.Rejected == 0 || len(x.Settling) != 12 {
		t.Errorf("%+v, %d events", x.Requests, len(x.Settling))
	}
}

// One replica is an exact GCRA: it agrees with the central bucket on every request.
func TestOneReplicaIsExact(t *testing.T) {
	t.Parallel()
	for _, demand := range []scenario.Demand{scenario.Poisson(15), scenario.Constant(30),
		scenario.OnOff(60, time.Second, 3*time.Second)} {
		k := run(t, limited(1, 30*time.Second, 10, 10, demand, scenario.Route{}), Options{}).Systems[0].Keys[0]
		if k.Admitted != k.Central || k.WorstExcess > 1e-6 || k.Wrongful != 0 {
			t.Errorf("%+v", k)
		}
	}
}

// A limit over three gateways with loads 6:3:1 keeps both sides of the guarantee.
func TestLimitOverThree(t *testing.T) {
	t.Parallel()
	route := scenario.Route{Weights: map[string]float64{"gw-1": 6, "gw-2": 3, "gw-3": 1}}
	above := run(t, limited(3, time.Minute, 100, 100, scenario.Poisson(200), route), Options{}).Systems[0].Keys[0]
	if off := above.AboveMean/above.AboveCentral - 1; math.Abs(off) > .02 {
		t.Errorf("mean %.2f/s, the central bucket %.2f/s", above.AboveMean, above.AboveCentral)
	}
	// (N−1) + (2^p+1)·r·δ with N = 3, p = 1, r = 100/s, δ = 135 ms: docs/guarantees.md
	if above.WorstExcess > 42.5 {
		t.Errorf("%.1f requests over rate·t + burst", above.WorstExcess)
	}
	below := run(t, limited(3, time.Minute, 100, 100, scenario.Poisson(80), route), Options{}).Systems[0].Keys[0]
	if below.WrongfulShare > .001 {
		t.Errorf("%d of %d wrongly rejected", below.Wrongful, below.Within)
	}
}

// A pool is shared by weighted max-min within 5 %, and used.
func TestPoolShared(t *testing.T) {
	t.Parallel()
	x := run(t, shared(3, 30*time.Second), Options{}).Systems[0]
	for _, f := range x.Flows {
		if f.WorstDeviation > .05 || f.LeastServed < .9 {
			t.Errorf("%s: off by %.3f, least served %.3f", f.Tenant, f.WorstDeviation, f.LeastServed)
		}
	}
	if p := x.Pools[0]; p.WantedUse < .97 || p.WantedUse > 1.03 {
		t.Errorf("%+v", p)
	}
}

// settles plays events with five seeds. It wants the shares within the tolerance soon after each event in most
// runs, and meanwhile in enough seconds of all runs. In one run of ten, chance alone takes a tenant out of the
// tolerance again, for one second of the ten that are judged.
func settles(t *testing.T, s *scenario.Scenario, within float64, events ...scenario.Event) {
	t.Helper()
	s.Events = events
	const seeds = 5
	took, by := make([][]float64, len(events)), ""
	for range seeds {
		x := run(t, s, Options{}).Systems[0]
		for i, e := range x.Settling {
			seconds := math.Inf(1)
			if e.Seconds != nil {
				seconds = *e.Seconds
			}
			took[i], by = append(took[i], seconds), e.By
		}
		for _, f := range x.Flows {
			if f.WorstDeviation > .05 || f.LeastServed < .85 {
				t.Errorf("seed %d: %s: off by %.3f at %g s, least served %.3f", s.Seed, f.Tenant, f.WorstDeviation,
					f.WorstAtSeconds, f.LeastServed)
			}
		}
		s.Seed++
	}
	for i, e := range events {
		slices.Sort(took[i])
		if took[i][seeds/2] > within {
			t.Errorf("%s: settles after %.1f s, last %q; want %g s", e.String(), took[i], by, within)
		}
	}
}

func TestPartitionAndHeal(t *testing.T) {
	t.Parallel()
	settles(t, shared(3, 30*time.Second), 3,
		scenario.Event{At: 10 * time.Second, Kind: scenario.Partition,
			Groups: [][]string{{"gw-1"}, {"gw-2", "gw-3", scenario.Coordinator}}},
		scenario.Event{At: 18 * time.Second, Kind: scenario.Heal})
}

func TestJoin(t *testing.T) {
	t.Parallel()
	settles(t, shared(3, 24*time.Second), 3, scenario.Event{At: 10 * time.Second, Kind: scenario.Join, Replica: "gw-4"})
}

func TestLeave(t *testing.T) {
	t.Parallel()
	settles(t, shared(4, 24*time.Second), 3, scenario.Event{At: 10 * time.Second, Kind: scenario.Leave,
		Replica: "gw-4"})
}

func TestRestart(t *testing.T) {
	t.Parallel()
	settles(t, shared(3, 24*time.Second), 3, scenario.Event{At: 10 * time.Second, Kind: scenario.Restart,
		Replica: "gw-2"})
}

// A limit stays shared by a gateway whose agent is dead: its filter counts the others with their last claims.
// Otherwise this gateway would admit the whole limit, 10/s more. For the five seconds after T2 the others use
// the whole limit, and this gateway has its part by weight.
func TestAgentLost(t *testing.T) {
	t.Parallel()
	s := limited(3, 40*time.Second, 10, 10, scenario.Poisson(90), scenario.Route{})
	s.Events = []scenario.Event{
		{At: 10 * time.Second, Kind: scenario.AgentLost, Replica: "gw-1"},
		{At: 30 * time.Second, Kind: scenario.AgentBack, Replica: "gw-1"},
	}
	x := run(t, s, Options{}).Systems[0]
	const part = 10. / 3 * 5
	if k := x.Keys[0]; float64(k.Admitted) > 1.03*float64(k.Central)+part || float64(k.Admitted) < .8*float64(k.Central) {
		t.Errorf("%+v", k)
	}
}

func TestCoordinatorLost(t *testing.T) {
	t.Parallel()
	settles(t, shared(3, 30*time.Second), 3,
		scenario.Event{At: 10 * time.Second, Kind: scenario.CoordinatorLost},
		scenario.Event{At: 18 * time.Second, Kind: scenario.CoordinatorBack})
}

func TestCapacityChange(t *testing.T) {
	t.Parallel()
	settles(t, shared(3, 24*time.Second), 3, applied(10*time.Second, &quotav1.Pool{Name: "pools/api", Capacity: 150}))
}

// A limit that changes is in force within two seconds, in both directions.
func TestLimitChange(t *testing.T) {
	t.Parallel()
	s := limited(3, 30*time.Second, 200, 50, scenario.Poisson(600), scenario.Route{})
	s.Events = []scenario.Event{
		applied(10*time.Second, limit("acme", "each", 400, 50)),
		applied(20*time.Second, limit("acme", "each", 100, 50)),
	}
	x := run(t, s, Options{Series: true}).Systems[0]
	if k := x.Keys[0]; k.Rate != 100 || math.Abs(k.AboveMean/k.AboveCentral-1) > .03 {
		t.Errorf("%+v", k)
	}
	l := x.Series.Limits[0]
	for from, rate := range map[float64]float64{2: 200, 12: 400, 22: 100} {
		sum, points := 0.0, int(8/x.Series.StepSeconds)
		for _, v := range l.Admitted[int(from/x.Series.StepSeconds):][:points] {
			sum += v
		}
		if mean := sum / float64(points); math.Abs(mean/rate-1) > .03 {
			t.Errorf("from %g s on %.1f/s, want %g/s", from, mean, rate)
		}
	}
}

// The rates of a crashed gateway are reserved until ForgetAfter, and its part of the shares until the
// coordinator removes it from the members, half a minute later. Until then the others keep their own shares.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := shared(3, 60*time.Second)
	s.Events = []scenario.Event{{At: 10 * time.Second, Kind: scenario.Crash, Replica: "gw-2"}}
	x := run(t, s, Options{}).Systems[0]
	if after := x.Settling[0].Seconds; after == nil || *after > 31 {
		t.Errorf("settles after %s", mustJSON(t, after))
	}
	for _, f := range x.Flows {
		if f.LeastServed < .75 {
			t.Errorf("%s: least served %.3f", f.Tenant, f.LeastServed)
		}
	}
}

func TestProgressAndCancel(t *testing.T) {
	s := limited(2, 10*time.Second, 10, 10, scenario.Poisson(5), scenario.Route{})
	var reported []float64
	if _, err := Run(context.Background(), s,
		Options{Progress: func(f float64) { reported = append(reported, f) }}); err != nil {
		t.Fatal(err)
	}
	if len(reported) < 50 || reported[len(reported)-1] != 1 || !slices.IsSorted(reported) {
		t.Errorf("reported %v", reported)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, s, Options{Progress: func(f float64) {
		if f > .3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	s := limited(1, 2*time.Second, 1, 1, scenario.Constant(1), scenario.Route{})
	if _, err := Run(context.Background(), s, Options{Baselines: []string{"magic"}}); err == nil ||
		!bytes.Contains([]byte(err.Error()), []byte(`"magic"`)) {
		t.Errorf("%v", err)
	}
	s.Clients[0].Tenant = "nobody"
	field := new(scenario.FieldError)
	if _, err := Run(context.Background(), s, Options{}); !errors.As(err, &field) ||
		field.Field != "clients[0].tenant" {
		t.Errorf("%v", err)
	}
}
