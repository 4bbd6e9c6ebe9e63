package load

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/lab/dev/upstream"
)

func demo(t *testing.T, seed uint64) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Demo(time.Minute, 3, seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlanIsAFunctionOfTheSeed(t *testing.T) {
	a, b, c := NewPlan(demo(t, 1)), NewPlan(demo(t, 1)), NewPlan(demo(t, 2))
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed gave two plans")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("two seeds gave the same plan")
	}
}

func TestPlanKeepsItsRates(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := demo(t, rapid.Uint64().Draw(rt, "seed"))
		if rapid.Bool().Draw(rt, "constant") {
			for i := range s.Tenants {
				for k := range s.Tenants[i].Clients {
					s.Tenants[i].Clients[k].Process = scenario.Constant
				}
			}
		}
		plan := NewPlan(s)
		if s.Planned != len(plan) {
			rt.Fatalf("planned %d, plan has %d", s.Planned, len(plan))
		}
		if !slices.IsSortedFunc(plan, func(a, b Shot) int { return int(math.Copysign(1, a.T-b.T)) }) {
			rt.Fatal("plan is not in order of time")
		}
		type key struct{ tenant, client, phase int }
		counts := map[key]float64{}
		for _, shot := range plan {
			counts[key{shot.Tenant, shot.Client, s.PhaseAt(shot.T)}]++
		}
		for ti, tenant := range s.Tenants {
			for ci, c := range tenant.Clients {
				for pi, p := range s.Phases {
					want, got := c.Rates[pi]*(p.End-p.Start), counts[key{ti, ci, pi}]
					room := 7*math.Sqrt(want) + 1 // seven sigmas of a Poisson count
					switch c.Process {
					case scenario.Constant:
						room = 1
					case scenario.Hop:
						room = c.Limit.Burst
					case scenario.Rush:
						room = c.Limit.Burst * float64(len(s.Gateways))
					}
					if math.Abs(got-want) > room {
						rt.Fatalf("%s in %s: %v requests, want %v ± %v", c.Name, p.Name, got, want, room)
					}
				}
			}
		}
	})
}

func TestClientsAreSpreadSixThreeOne(t *testing.T) {
	s := demo(t, 3)
	counts := map[[2]int][]float64{}
	for _, shot := range NewPlan(s) {
		k := [2]int{shot.Tenant, shot.Client}
		if p := s.Tenants[shot.Tenant].Clients[shot.Client].Process; p == scenario.Hop || p == scenario.Rush {
			continue
		}
		if counts[k] == nil {
			counts[k] = make([]float64, len(s.Gateways))
		}
		counts[k][shot.Gateway]++
		n := counts[k][0] + counts[k][1] + counts[k][2]
		for g, w := range []float64{.6, .3, .1} {
			if math.Abs(counts[k][g]-w*n) > 2 {
				t.Fatalf("client %v after %v requests: gateway %d has %v, want %v", k, n, g, counts[k][g], w*n)
			}
		}
	}
}

// Clients that hop send a whole burst at once, each burst through the next gateway. In a rush the next burst
// comes after RushGap until all gateways have had one; otherwise it comes at the client's rate.
func TestBurstsHopBetweenGateways(t *testing.T) {
	s := demo(t, 3)
	shots := map[string][]Shot{}
	for _, shot := range NewPlan(s) {
		name := s.Tenants[shot.Tenant].Clients[shot.Client].Name
		shots[name] = append(shots[name], shot)
	}
	for name, gaps := range map[string][3]float64{
		"exact":  {scenario.RushGap, scenario.RushGap, 1 - 2*scenario.RushGap},
		"within": {10. / 9, 10. / 9, 10. / 9},
	} {
		burst := int(s.Client(name).Limit.Burst)
		for i, shot := range shots[name] {
			if want := i / burst % len(s.Gateways); shot.Gateway != want {
				t.Fatalf("request %d of %s at gateway %d, want %d", i, name, shot.Gateway, want)
			}
			want := 0.
			if i > 0 && i%burst == 0 {
				want = gaps[(i/burst-1)%len(s.Gateways)]
			}
			if i > 0 && math.Abs(shot.T-shots[name][i-1].T-want) > 1e-9 {
				t.Fatalf("request %d of %s %v s after the one before, want %v", i, name, shot.T-shots[name][i-1].T, want)
			}
		}
		if len(shots[name]) < 5*burst {
			t.Errorf("%s: %d requests", name, len(shots[name]))
		}
	}
}

// short is a scenario of one client for one moment.
func short(rate, seconds float64) *scenario.Scenario {
	return &scenario.Scenario{
		Version:  scenario.Version,
		Pool:     scenario.Pool{Name: "api", Capacity: 1},
		Gateways: []scenario.Gateway{{Name: "gw-1", Weight: 1}},
		Tenants: []scenario.Tenant{{Name: "acme", Weight: 1, Clients: []scenario.Client{
			{Name: "acme-1", Process: scenario.Constant, Rates: []float64{rate}},
		}}},
		Phases: []scenario.Phase{{Name: "only", Start: 0, End: seconds}},
	}
}

func TestRunRecordsEveryRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(TenantHeader) != "acme" || r.Header.Get(ClientHeader) != "acme-1" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set(upstream.ArrivalHeader, strconv.FormatInt(time.Now().UnixNano(), 10))
		w.Header().Set("x-titrate-wait-ms", "12.5")
		w.Header().Set("x-titrate-congestion", "1")
	}))
	defer server.Close()
	s := short(200, .2)
	plan := NewPlan(s)
	var seen atomic.Int64
	g := Generator{URLs: []string{server.URL}, Observe: func(*trace.Record) { seen.Add(1) }}
	records, err := g.Run(context.Background(), s, plan, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != len(plan) || int(seen.Load()) != len(plan) {
		t.Fatalf("%d records, %d observed, %d planned", len(records), seen.Load(), len(plan))
	}
	for _, r := range records {
		if r.Status != 200 || r.WaitMs != 12.5 || !r.Mark || r.At <= 0 || r.Latency <= 0 {
			t.Fatalf("%+v", r)
		}
	}
}

// A server that does not answer must not slow the generator down.
func TestRunNeverWaitsForAnswers(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	s := short(500, .1)
	plan := NewPlan(s)
	const bound = 20
	var ended atomic.Int64
	g := Generator{URLs: []string{server.URL}, MaxInFlight: bound, Observe: func(*trace.Record) {
		// The dropped end at once; when they have, let the others go.
		if int(ended.Add(1)) == len(plan)-bound {
			close(release)
		}
	}}
	records, err := g.Run(context.Background(), s, plan, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dropped := 0
	for _, r := range records {
		if r.Error == trace.Dropped {
			dropped++
		}
	}
	if len(records) != len(plan) || dropped != len(plan)-bound {
		t.Errorf("%d records, %d dropped; want %d and %d", len(records), dropped, len(plan), len(plan)-bound)
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	defer server.Close()
	s := short(10, 3600)
	records, err := (&Generator{URLs: []string{server.URL}}).Run(ctx, s, NewPlan(s), time.Now())
	if !errors.Is(err, context.Canceled) || len(records) == s.Planned {
		t.Errorf("err %v, %d records", err, len(records))
	}
}

func TestRunWantsAURLPerGateway(t *testing.T) {
	s := short(10, 1)
	if _, err := (&Generator{}).Run(context.Background(), s, nil, time.Now()); err == nil {
		t.Error("no error")
	}
}

func TestLoopGoesOnWithoutAGap(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	s := short(100, .05) // five requests a round
	var seen atomic.Int64
	g := Generator{URLs: []string{server.URL}, Observe: func(r *trace.Record) {
		if r.Status == 200 && seen.Add(1) == 17 {
			cancel()
		}
	}}
	g.Loop(ctx, *s, time.Now())
	if seen.Load() < 17 {
		t.Errorf("%d requests", seen.Load())
	}
}
