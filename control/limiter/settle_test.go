package limiter

import (
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

func TestSettleTable(t *testing.T) {
	for what, tc := range map[string]struct {
		estimate, actual float64
		left             float64 // of a burst of 10
		forgiven         float64
	}{
		"as estimated":        {3, 3, 7, 0},
		"dearer":              {3, 5, 5, 0},
		"cheaper":             {3, 1, 9, 0},
		"free after all":      {3, 0, 10, 0},
		"debt":                {3, 13, -3, 0},
		"debt at its bound":   {3, 20, -10, 0},
		"debt is bounded":     {3, 1000, -10, 980},
		"not a number":        {3, math.NaN(), 7, 0},
		"negative":            {3, -5, 7, 0},
		"beyond what is said": {3, math.Inf(1), -10, MaxCost - 20},
	} {
		for _, replicas := range []int{1, 3} {
			e := New(Options{Keys: 1024})
			mustApply(t, e, simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: 1, Burst: 10}))
			e.SetSums(sec, &exchange.Sums{Full: true, Replicas: replicas, TotalWeight: float64(replicas), Weight: 1,
				Lag: 50 * time.Millisecond})
			r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: tc.estimate}
			if out := e.Decide(sec, r); out.Verdict != Admit {
				t.Fatalf("%s: %+v", what, out)
			}
			forgiven := e.Settle(sec, r, Plain, tc.actual)
			one := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}
			out, a := e.Peek(sec, one)
			wait := time.Duration(max(0, (1-tc.left)*1e9))
			if math.Abs(a.Remaining-max(0, tc.left)) > 1e-6 || math.Abs(forgiven-tc.forgiven) > 1e-6 {
				t.Errorf("%s, %d replicas: %v left and %v forgiven, want %v and %v", what, replicas, a.Remaining,
					forgiven, tc.left, tc.forgiven)
			}
			if replicas == 1 && (out.RetryAfter-wait).Abs() > time.Microsecond {
				t.Errorf("%s: the next one waits %v, want %v", what, out.RetryAfter, wait)
			}
		}
	}
}

// The longest silence that one wrong number buys: two bursts at the limit's
// rate, and debtSeconds of the share.
func TestDebtIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.1, 1000).Draw(t, "rate")
		burst := rapid.Float64Range(1, 500).Draw(t, "burst")
		share := rapid.Float64Range(5, 1000).Draw(t, "share")
		e := New(Options{Keys: 1024})
		conf := simple(share, config.Queue{Law: config.Police}, config.Limit{Name: "l", Rate: rate, Burst: burst})
		if err := e.Apply(conf); err != nil {
			t.Fatal(err)
		}
		e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: share}}})
		r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			if e.Decide(sec, r).Verdict == Admit {
				e.Settle(sec, r, Plain, rapid.SampledFrom([]float64{MaxCost, 1e4, 100}).Draw(t, "actual"))
			}
		}
		silent := 2*burst/rate + debtSeconds + 1/rate + 10/share + 0.5
		now := sec
		for limit := sec + int64(silent*1e9); now < limit; now += 5 * ms {
			e.Tick(now, nil)
			if now-sec > int64(60*time.Second) { // the share has forgotten by now
				now = limit
			}
		}
		if out := e.Decide(now, r); out.Verdict != Admit {
			t.Fatalf("rate %v, burst %v, share %v: still silent after %v s: %+v", rate, burst, share, silent, out)
		}
	})
}

// What a tenant is served over a while is its share, in true cost, whatever the
// estimates are.
func TestSettledShareHolds(t *testing.T) {
	for what, tc := range map[string]struct{ estimate, actual float64 }{
		"exact": {4, 4}, "dearer": {1, 5}, "cheaper": {10, 2},
	} {
		e := New(Options{Keys: 1024})
		const share = 200.0
		mustApply(t, e, simple(share, config.Queue{Law: config.DropTail, DelayTarget: time.Second,
			MaxWait: time.Second}))
		e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: share}}})
		r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: tc.estimate}
		served := 0.0
		admitted := func(now int64) {
			served += tc.actual
			e.Settle(now, r, Plain, tc.actual)
		}
		var out []Event
		for now := sec; now < 31*sec; now += 5 * ms {
			if now == 11*sec { // after the transient
				served = 0
			}
			for range 3 {
				if o := e.Decide(now, r); o.Verdict == Admit {
					admitted(now)
				} else if o.Verdict == Wait {
					if o, _ := e.Enqueue(now, r, 1); o.Verdict == Admit {
						admitted(now)
					}
				}
			}
			out = e.Tick(now, out[:0])
			for _, ev := range out {
				if ev.Outcome.Verdict == Admit {
					admitted(now)
				}
			}
		}
		if got := served / 20; math.Abs(got/share-1) > 0.03 {
			t.Errorf("%s: served %.1f cost units/s of a share of %v", what, got, share)
		}
	}
}

// Reports never fall, and their sum is the truth once later traffic has made up
// for what was given back.
func TestRefundsInReports(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e6, config.Queue{}))
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 100}
	sum := 0.0
	tell := func() {
		var rep exchange.Report
		e.Report(2*sec, &rep)
		for _, f := range rep.Flows {
			if f.Demand < 0 || f.Served < 0 {
				t.Fatalf("a report tells of %+v", f)
			}
			sum += f.Served
		}
	}
	e.Decide(sec, r)
	tell()
	e.Settle(sec, r, Plain, 10)
	tell()
	for range 2 {
		e.Decide(2*sec, r)
		tell()
	}
	if math.Abs(sum-210) > 1e-6 {
		t.Fatalf("reported %v, want 10 + 2·100", sum)
	}
}

// oneLedger is an engine whose only limit never refills, and counts all requests of its tenant.
func oneLedger(t *testing.T) *Engine {
	e := New(Options{Keys: 1024})
	conf := simple(1e9, config.Queue{}, config.Limit{Name: "all", PerTenant: true, Rate: ledgerRate,
		Burst: ledgerBurst})
	conf.Tenants[0].Quotas = []config.Quota{{Pool: "api", Max: config.Unbounded, Mode: config.Off}}
	mustApply(t, e, conf)
	return e
}

// among sets the number of replicas of an engine, and returns what it announces then.
func among(e *Engine, now int64, replicas int) *exchange.Claims {
	e.SetSums(now, &exchange.Sums{Full: true, Replicas: replicas, TotalWeight: float64(replicas), Weight: 1,
		Lag: 50 * time.Millisecond})
	var c exchange.Claims
	e.Claims(now, &c)
	return &c
}

// What a key was charged and has announced while a replica was not alone is given back after the
// replica was alone for a moment, too. No more is given back than was spent.
func TestRefundAfterBeingAlone(t *testing.T) {
	e := oneLedger(t)
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 3}
	left := func(want float64) {
		t.Helper()
		if got := e.Allowance(sec, r, None).Remaining; math.Abs(got-want) > 1e-3 {
			t.Errorf("%v left, want %v", got, want)
		}
	}
	among(e, sec, 2)
	for range 3 {
		e.Decide(sec, r)
	}
	if c := among(e, sec, 2); len(c.Keys) != 1 || math.Abs(c.Keys[0].Admitted-9) > 1e-3 {
		t.Fatalf("announced: %+v, want 9 admitted", c)
	}
	among(e, sec, 1)
	if c := among(e, sec, 2); len(c.Keys) != 0 {
		t.Fatalf("the key is contended yet: %+v", c)
	}
	e.Settle(sec, r, Plain, 4)
	left(ledgerBurst - 10)
	e.Settle(sec, r, Plain, 1)
	e.Settle(sec, r, Plain, 1)
	left(ledgerBurst - 6)
	if c := among(e, sec, 2); len(c.Keys) != 1 || math.Abs(c.Keys[0].Admitted-6) > 1e-3 {
		t.Errorf("announced: %+v, want 6 admitted", c)
	}
	for range 10 { // more than there was
		e.Settle(sec, r, Plain, 0)
	}
	left(ledgerBurst)
	if c := among(e, sec, 2); len(c.Keys) != 1 || math.Abs(c.Keys[0].Admitted) > 1e-3 {
		t.Errorf("announced: %+v, want nothing admitted", c)
	}
}

// Settlements and looks race with decisions, ticks and a changing membership;
// what was charged in the end is what was admitted, in true cost.
func TestSettleConcurrently(t *testing.T) {
	e := oneLedger(t)
	var wg sync.WaitGroup
	const workers, each = 4, 100
	for w := range workers {
		wg.Go(func() {
			r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 3}
			for i := range each {
				if out := e.Decide(sec+int64(i), r); out.Verdict != Admit {
					t.Errorf("not admitted: %+v", out)
					return
				}
				e.Settle(sec+int64(i), r, Plain, float64(w+1)) // 1 to 4
				e.Peek(sec+int64(i), r)
			}
		})
	}
	wg.Go(func() {
		for i := range 20 {
			among(e, sec+int64(i), 1+i%2)
			e.Tick(sec+int64(i), nil)
		}
	})
	wg.Wait()
	left := e.Allowance(2*sec, &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}, None).Remaining
	if want := float64(ledgerBurst - each*(1+2+3+4)); math.Abs(left-want) > 1e-3 {
		t.Errorf("%v left, want %v", left, want)
	}
}
