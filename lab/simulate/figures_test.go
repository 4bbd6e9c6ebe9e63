package simulate

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
)

// rule is a system that decides each request at once.
type rule struct {
	stage  system.Stage
	decide func(r *traffic.Request) limiter.Reason
}

func (s rule) Offer(id int, r *traffic.Request) {
	a := system.Answer{ID: id, At: r.At}
	if a.Reason = s.decide(r); a.Reason != limiter.None {
		a.Fate = system.Rejected
	}
	s.stage.Answer(a)
}

func (rule) Happen(*scenario.Event) {}
func (rule) Advance(time.Duration)  {}

// ruled plays a rule.
func ruled(t *testing.T, s *scenario.Scenario, decide func(r *traffic.Request) limiter.Reason) measure.System {
	t.Helper()
	report := progress{passes: 2}
	reference, err := rehearse(context.Background(), s, &report)
	if err != nil {
		t.Fatal(err)
	}
	make := func(stage system.Stage) (system.System, error) { return rule{stage, decide}, nil }
	x, err := perform(context.Background(), s, contender{"rule", make}, reference, true, &report)
	if err != nil {
		t.Fatal(err)
	}
	conserved(t, &x)
	return x
}

func open(*traffic.Request) limiter.Reason { return limiter.None }

func central(r *traffic.Request) limiter.Reason {
	if r.Central {
		return limiter.None
	}
	return limiter.ClientLimit
}

func near(got, want, off float64) bool { return math.Abs(got-want) <= off }

// Who admits everything is over by all that is too much.
func TestFiguresOfOpen(t *testing.T) {
	t.Parallel()
	k := ruled(t, limited(1, 20*time.Second, 100, 50, scenario.Constant(150), scenario.Route{}), open).Keys[0]
	if !near(k.WorstExcess, 50*20-50, 2) || !near(k.HighestSecond, 150, 1) || !near(k.AboveMean, 150, .1) ||
		!near(k.AboveCentral, 102.5, .1) || k.AboveSeconds != 20 || k.Wrongful != 0 {
		t.Errorf("%+v", k)
	}
	p := ruled(t, shared(1, 20*time.Second), open).Pools[0]
	if p.WantedUse < 1.6 || p.WorstExcess < 3500 {
		t.Errorf("%+v", p)
	}
}

// The central bucket is the reference: nothing is wrong with it.
func TestFiguresOfCentral(t *testing.T) {
	t.Parallel()
	s := limited(3, 20*time.Second, 100, 50, scenario.Poisson(150), scenario.Route{})
	s.Events = []scenario.Event{applied(10*time.Second, limit("acme", "each", 30, 5))}
	x := ruled(t, s, central)
	k := x.Keys[0]
	if k.Admitted != k.Central || k.WorstExcess > 1e-6 || k.Wrongful != 0 || k.AboveMean != k.AboveCentral {
		t.Errorf("%+v", k)
	}
	if after := x.Settling[0].Seconds; after == nil || *after != 0 {
		t.Errorf("settling %s", mustJSON(t, x.Settling))
	}
}

// Who rejects everything is wrong each time that the client is within its limit.
func TestFiguresOfClosed(t *testing.T) {
	t.Parallel()
	closed := func(*traffic.Request) limiter.Reason { return limiter.ClientLimit }
	k := ruled(t, limited(1, 20*time.Second, 100, 50, scenario.Constant(50), scenario.Route{}), closed).Keys[0]
	if k.Within != 1000 || k.Wrongful != 1000 || k.WrongfulShare != 1 || k.WorstExcess != -50 {
		t.Errorf("%+v", k)
	}
	refused := func(*traffic.Request) limiter.Reason { return limiter.TenantShare }
	for _, f := range ruled(t, shared(1, 20*time.Second), refused).Flows {
		if f.LeastServed != 0 || (f.Tenant == "low") != (f.Wrongful > 0) || f.Tenant != "low" && f.WorstDeviation != 1 {
			t.Errorf("%+v", f)
		}
	}
}

// Entitlements are the weighted max-min shares; if two are swapped, the check fails.
func TestFiguresOfShares(t *testing.T) {
	t.Parallel()
	s := shared(1, 30*time.Second)
	for i, rate := range []float64{300, 200, 20} {
		s.Clients[i].Demand = scenario.Constant(rate)
	}
	n := [3]int{}
	// big 3, mid 2 of the 280 that low leaves: 168 and 112.
	fair := func(r *traffic.Request) limiter.Reason {
		n[r.Client]++
		part := []float64{168. / 300, 112. / 200, 1}[r.Client]
		if math.Floor(part*float64(n[r.Client])) > math.Floor(part*float64(n[r.Client]-1)) {
			return limiter.None
		}
		return limiter.TenantShare
	}
	x := ruled(t, s, fair)
	for i, want := range []float64{168, 112, 20} {
		f := x.Flows[i]
		if !near(f.Entitlement, want, .5) || !near(f.Served, want, .5) || f.WorstDeviation > .005 ||
			f.LeastServed < .99 || f.Wrongful != 0 {
			t.Errorf("%+v", f)
		}
	}
	if p := x.Pools[0]; !near(p.WantedUse, 1, .005) || p.WantedSeconds != 27 {
		t.Errorf("%+v", p)
	}
	if f := x.Series.Flows[0]; len(f.Fair) != len(f.Admitted) || !near(f.Fair[100], 168, .5) {
		t.Errorf("series: %d and %d points, fair %v", len(f.Fair), len(f.Admitted), f.Fair[100])
	}
}
