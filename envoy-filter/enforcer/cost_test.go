package enforcer

import (
	"math"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

// A response carries a finite number ≥ 0, or no cost; anything else is counted.
func TestParseCost(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, " 12.5\t": 12.5, "1e3": 1000} {
		enf := New(Options{})
		if cost, ok := enf.ParseCost(text); !ok || cost != want || enf.InvalidCosts() != 0 {
			t.Errorf("%q: %v %v, want %v; %d counted", text, cost, ok, want, enf.InvalidCosts())
		}
	}
	for text, counted := range map[string]uint64{
		"": 0, " \t": 0,
		"inf": 1, "+Infinity": 1, "nan": 1, "-1": 1, "1e999": 1, "many": 1, "1 2": 1,
	} {
		enf := New(Options{})
		if cost, ok := enf.ParseCost(text); ok || enf.InvalidCosts() != counted {
			t.Errorf("%q: %v %v, want nothing; %d counted, want %d", text, cost, ok, enf.InvalidCosts(), counted)
		}
	}
	enf := New(Options{})
	for _, text := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.5} {
		if cost, ok := enf.CheckCost(text); ok {
			t.Errorf("%v: %v", text, cost)
		}
	}
	if enf.InvalidCosts() != 4 {
		t.Errorf("%d counted, want 4", enf.InvalidCosts())
	}
}

// FuzzCostOfResponse corrects a charge by any cost that a response may have: the shim reads the cost with
// ParseCost, and corrects. The client owes at most a burst beyond its empty bucket, and is never given more
// than its burst.
func FuzzCostOfResponse(f *testing.F) {
	for _, text := range []string{"0", " 12.5\t", "1e3", "1e308", "0x1p-1074", "-1", "nan", "inf", "9223372036854.775807",
		"1_0", "", "٣", strings.Repeat("9", 400)} {
		f.Add(text, 3.0, 10.0)
	}
	f.Add("1e6", 1e6, 1e12)
	e, revision := limiter.New(limiter.Options{Keys: 64}), int64(0)
	enf := New(Options{Engine: e})
	f.Fuzz(func(t *testing.T, text string, estimate, burst float64) {
		if !(burst >= 1 && burst <= config.MaxRate) {
			return
		}
		revision++
		if err := e.Apply(&config.Config{Revision: revision, Seed: uint64(revision), Tenants: []config.Tenant{{Name: "a",
			Limits: []config.Limit{{Name: "l", Rate: 1, Burst: burst}}}}}); err != nil {
			t.Fatal(err)
		}
		r := limiter.Request{Tenant: "a", Client: "c", Cost: estimate}
		out := enf.Decide(&r)
		cost, ok := enf.ParseCost(text)
		if micros := limiter.Micros(cost); ok && (!(cost >= 0) || micros < 0 || micros > limiter.MaxCost*1e6) {
			t.Fatalf("%q is a cost of %v, %d millionths", text, cost, micros)
		}
		if ok && out.Verdict == limiter.Admit {
			enf.CorrectCharge(&r, limiter.Plain, cost)
		}
		one := limiter.Request{Tenant: "a", Client: "c", Cost: 1}
		out, left := enf.Peek(&one)
		if !(left.Remaining >= 0 && left.Remaining <= burst) || out.RetryAfter < 0 ||
			out.RetryAfter.Seconds() > 2*burst+1 || enf.Panics() != 0 {
			t.Fatalf("a request of %v that costs %q: %v left of %v, %+v, %d panics", estimate, text, left.Remaining, burst,
				out, enf.Panics())
		}
	})
}

// The estimate of a cost is at most the smallest burst of the limits that count it, so that one dear answer does not
// refuse all later requests.
func TestEstimatesPassAFullBucket(t *testing.T) {
	e := limiter.New(limiter.Options{Keys: 64})
	limits := []config.Limit{{Name: "minute", Rate: 10, Burst: 600}, {Name: "hour", Rate: 1, Burst: 3600},
		{Name: "watched", Rate: 1, Burst: 1, Mode: config.Shadow}}
	c := config.Config{Revision: 1, Tenants: []config.Tenant{{Name: "a", Limits: limits}}}
	if err := e.Apply(&c); err != nil {
		t.Fatal(err)
	}
	enf := New(Options{Engine: e})
	r := limiter.Request{Tenant: "a", Client: "c", Cost: 700}
	for estimate, want := range map[float64]float64{700: 600, 600: 600, 5: 5} {
		if got := enf.BoundEstimate(&r, limiter.Plain, estimate); got != want {
			t.Errorf("an estimate of %v is charged as %v, want %v", estimate, got, want)
		}
	}
	r.Cost = enf.BoundEstimate(&r, limiter.Plain, 700)
	if out := enf.Decide(&r); out.Verdict != limiter.Admit {
		t.Errorf("a request with the estimate %v: %+v", r.Cost, out)
	}
	if got := New(Options{}).BoundEstimate(&r, limiter.Plain, 7); got != 7 { // it has no engine, and panics
		t.Errorf("after a panic an estimate of 7 is %v", got)
	}
}

// A request without named costs counts its plain cost at each pool: the engine is not asked. This one has none, and
// would panic.
func TestPoolCostOfPlainRequests(t *testing.T) {
	enf := New(Options{})
	if micros := enf.PoolCost(&limiter.Request{Tenant: "a", Cost: 2.5}); micros != 2.5e6 || enf.Panics() != 0 {
		t.Errorf("%d millionths, %d panics; want 2500000 and none", micros, enf.Panics())
	}
}
