package limiter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

const rateAt = 3

func rateNames() (n Names) {
	n = planNames()
	n.Identities[rateAt] = config.RateIdentity
	return n
}

// stating is a request of a client that states its rate, and perhaps a plan.
func stating(client, rate, plan string) *Request {
	r := ofPlan(client, plan)
	r.Identities[rateAt] = rate
	return r
}

// stated is a limit of 1/ks and a burst of 2, for which requests may state .5/ks to 10/ks, so up to a burst of 20.
func stated(p config.Precision) config.Limit {
	l := planned(p)
	l.Rate, l.RequestedRate = 1e-3, config.RateBounds{Least: .5e-3, Most: 10e-3, Per: 1000}
	return l
}

// The rate that a request states holds within the bounds, with a burst in proportion. It comes after an override and
// before a plan. What cannot be read leaves the plan's numbers, or the limit's own. All but a rate that is taken as it
// is are counted.
func TestStatedRates(t *testing.T) {
	for _, c := range []struct {
		rate, plan string
		want       int
		rateOf     float64
	}{
		{"", "", 2, 1e-3}, {"1", "", 2, 1e-3}, {"4", "", 8, 4e-3}, {"0.0045/s", "", 9, 4.5e-3}, {"10", "", 20, 10e-3},
		{"500", "", 20, 10e-3}, {"0", "", 1, .5e-3}, {"much", "", 2, 1e-3}, {"", "gold", 4, 1e-6}, {"3", "gold", 6, 3e-3},
		{"much", "gold", 4, 1e-6},
	} {
		e := New(Options{Keys: 1024})
		e.Name(rateNames())
		mustApply(t, e, simple(1e6, config.Queue{}, stated(config.Local)))
		r := stating("a", c.rate, c.plan)
		x := e.Explain(sec, r).Limits[0]
		if !near(x.Rate, c.rateOf) || !near(x.Free, float64(c.want)) && c.rate != "" || x.Stated == (c.rate == "" || c.rate == "much") {
			t.Errorf("%+v is explained as %+v", c, x)
		}
		got := 0
		for range 30 {
			out := e.Decide(sec, r)
			a := e.Allowance(sec, r, None)
			if out.Verdict == Admit {
				got++
			} else if b, ok := e.RefusedAllowance(r, out); !ok || !near(b.Rate, c.rateOf) || !near(b.Burst, a.Burst) {
				t.Fatalf("%+v: refused with %+v", c, b)
			}
			if !near(a.Rate, c.rateOf) || a.Cost != 1 || !near(a.Burst-a.Remaining, float64(got)) {
				t.Fatalf("%+v: %+v after %d", c, a, got)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %d admitted", c, got)
		}
		if got := admittedOf(e, sec, stating("vip", c.rate, c.plan)); got != 3 {
			t.Errorf("%+v: %d admitted of a client with an override of 3", c, got)
		}
		want := map[string][3]uint64{"": {50, 0, 0}, "much": {0, 50, 0}, "500": {0, 0, 50}, "0": {0, 0, 50}}[c.rate]
		if s := stats(e, sec); [3]uint64{s.RateMissing, s.RateMalformed, s.RateBounded} != want {
			t.Errorf("%+v: counted as %d, %d, %d", c, s.RateMissing, s.RateMalformed, s.RateBounded)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b)) }

// Without the filter's setting each request has the limit's own rate.
func TestNoSettingOfStatedRates(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e6, config.Queue{}, stated(config.Local)))
	if got := admittedOf(e, sec, stating("a", "10", "")); got != 2 {
		t.Errorf("%d admitted", got)
	}
}

// A client that states several rates by turns has at most what the highest of them allows.
func TestSeveralStatedRatesGainNothing(t *testing.T) {
	for _, p := range []config.Precision{config.Local, config.Exact} {
		e := New(Options{Keys: 1024})
		e.Name(rateNames())
		l := config.Limit{Name: "l", Rate: 1, Burst: 2, Precision: p, RequestedRate: config.RateBounds{Least: .5, Most: 100, Per: 1}}
		mustApply(t, e, simple(1e6, config.Queue{}, l))
		random, now, admitted := rand.New(rand.NewPCG(1, 2)), sec, 0
		const ticks = 3000
		for range ticks {
			for range random.IntN(4) {
				admitted += admittedOf(e, now, stating("a", []string{"1", "20", "", "7.3", "20", "x"}[random.IntN(6)], ""))
			}
			now += 10 * ms
		}
		if most := 40 + 20*ticks/100; admitted > most || admitted < most*3/10 {
			t.Errorf("%v: %d admitted, at most %d are allowed", p, admitted, most)
		}
	}
}

// With any bounds, a request that states the least passes an idle bucket, also the owner's. The owner has the numbers
// of the gateway: it takes them from its own configuration.
func TestLeastStatedRatePasses(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		rate := math.Exp(10 * (random.Float64() - .5))
		l := config.Limit{Name: "l", Rate: rate, Burst: 1 + 50*random.Float64(), Precision: config.Exact}
		l.RequestedRate = config.RateBounds{Least: rate / l.Burst, Most: rate * (1 + 1000*random.Float64()), Per: 1}
		c := simple(1e6, config.Queue{}, l)
		e := New(Options{Keys: 64})
		e.Name(rateNames())
		mustApply(t, e, c)
		r := stating("a", "0", "")
		cl := newCall(sec, r, e.route(e.snap.Load(), e.snap.Load().tenants["a"], "api"))
		var in config.Set
		in.Replace(c)
		of := cl.route.limits[0]
		k := cl.tokenKey(of)
		key, params, ok := ExactKey(&in, 0, &exchange.KeyName{Tenant: "a", Limit: "l", Client: "a"})
		if !ok || key != k.Hash || params.Burst != int64(k.Burst*grant.Token) || params.Rate != k.Rate || params.Rate != l.RequestedRate.Most {
			t.Fatalf("%+v: the owner has %+v, the gateway %+v", l, params, k)
		}
		if cost := cl.costOf(of); cost > params.Burst {
			t.Fatalf("%+v: a request counts %d of a burst of %d", l, cost, params.Burst)
		}
		if out := e.Decide(sec, r); out.Verdict != Admit {
			t.Fatalf("%+v: %+v", l, out)
		}
	}
}

// The owner's bucket is one for all gateways, whatever rates a client states at each.
func TestOwnersOfStatedRates(t *testing.T) {
	c := simple(1e6, config.Queue{}, stated(config.Exact))
	f := newExactFleet(t, 2, c)
	for _, e := range f.engines {
		e.Name(rateNames())
		mustApply(t, e, c)
	}
	admit := func(i int, rate string) (n int) {
		for range 8 {
			e, r := f.engines[i], stating("a", rate, "")
			if out := e.Decide(2*sec, r); out.Verdict == Wait {
				e.Enqueue(2*sec, r, uint64(1000+i))
				f.events = nil
				f.settle(2 * sec)
				for _, ev := range f.events {
					if ev.Outcome.Verdict == Admit {
						n++
					}
				}
			} else if out.Verdict == Admit {
				n++
			}
		}
		return n
	}
	for _, s := range []struct {
		at   int
		rate string
		want int
	}{{0, "5", 8}, {1, "5", 2}, {0, "5", 0}, {1, "10", 0}} { // 10 of 10 at rate 5 are all of the bucket
		if got := admit(s.at, s.rate); got != s.want {
			t.Errorf("gateway %d, %s: %d admitted, want %d", s.at, s.rate, got, s.want)
		}
	}
}

// What a cost turns out to be counts with the weight of its estimate.
func TestSettleOfAStatedRate(t *testing.T) {
	e := New(Options{Keys: 1024})
	e.Name(rateNames())
	mustApply(t, e, simple(1e6, config.Queue{}, stated(config.Local)))
	r := stating("a", "5", "") // a burst of 10
	left := func(want float64) {
		t.Helper()
		if a := e.Allowance(sec, r, None); !near(a.Remaining, want) || !near(a.Burst, 10) {
			t.Errorf("%+v, want %v left", a, want)
		}
	}
	e.Decide(sec, r)
	left(9)
	e.Settle(sec, r, Plain, 4)
	left(6)
	e.Decide(sec, r)
	e.Settle(sec, r, Plain, 0)
	left(6)
	e.Decide(sec, r)
	if forgiven := e.Settle(sec, r, Plain, 100); !near(forgiven, 84) { // of 99 the 5 that are left, and a burst of 10
		t.Errorf("%v forgiven", forgiven)
	}
	if got := e.LeastBurst(r, Plain); !near(got, 10) {
		t.Errorf("the least burst is %v", got)
	}
}

// Requests over a queued limit wait by the rates that they state.
func TestStatedRatesInAQueue(t *testing.T) {
	wait := config.Queue{Law: config.DropTail, MaxRequests: 10, MaxWait: 10 * time.Second, DelayTarget: 10 * time.Second}
	for rate, want := range map[string]string{"10": "[1 2 3 4]", "1": "[1]"} {
		e := New(Options{Keys: 1024})
		e.Name(rateNames())
		l := config.Limit{Name: "l", Rate: 1, Burst: 1, Queue: wait, RequestedRate: config.RateBounds{Least: 1, Most: 10, Per: 1}}
		mustApply(t, e, simple(1e6, wait, l))
		e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: 1e6}}})
		if rate == "10" { // a burst of 10
			for range 10 {
				e.Decide(sec, stating("a", rate, ""))
			}
		} else {
			e.Decide(sec, stating("a", rate, ""))
		}
		for i := range 4 {
			e.Enqueue(sec, stating("a", rate, ""), uint64(i+1))
		}
		var released []uint64
		for now := sec; now < 2*sec+500*ms; now += 5 * ms {
			for _, ev := range e.Tick(now, nil) {
				released = append(released, ev.Ticket)
			}
		}
		if fmt.Sprint(released) != want {
			t.Errorf("%s: released %v, want %s", rate, released, want)
		}
	}
}

// The bounds are changed while the limit is in use: a client keeps the part of its burst that it has spent.
func TestBoundsChangedInUse(t *testing.T) {
	e := New(Options{Keys: 1024})
	e.Name(rateNames())
	l := stated(config.Local)
	c := simple(1e6, config.Queue{}, l)
	mustApply(t, e, c)
	if got := admittedOf(e, sec, stating("a", "10", "")); got != 20 {
		t.Fatalf("%d admitted", got)
	}
	for i, most := range []float64{5e-3, 2e-3, 10e-3, 4e-3} {
		next := *c
		next.Revision += int64(i) + 1
		next.Tenants = append([]config.Tenant(nil), c.Tenants...)
		l.RequestedRate.Most = most
		next.Tenants[0].Limits = []config.Limit{l}
		mustApply(t, e, &next)
		got := admittedOf(e, sec, stating("a", "10", ""))
		if wants := []int{0, 0, 16, 0}; got != wants[i] {
			t.Errorf("most %v: %d admitted, want %d", most, got, wants[i])
		}
	}
}

// A proxy that decides by a rate has the rate that its requests state.
func TestAccountOfStatedRates(t *testing.T) {
	e := New(Options{Keys: 1024})
	e.Name(rateNames())
	mustApply(t, e, simple(1e6, config.Queue{}, stated(config.Local)))
	r := stating("a", "5", "")
	e.Account(sec, r, Usage{Admitted: 3})
	parts, _ := e.Parts(sec, r, nil)
	if p := parts[0]; !near(p.Weight, 2) || !near(p.Rate/p.Weight, 5e-3) || !near(p.Free/p.Weight, 7) {
		t.Errorf("%+v", p)
	}
	e.Account(sec, stating("a", "", ""), Usage{Admitted: 1})
	if s := stats(e, sec); s.RateMissing != 1 {
		t.Errorf("%d counted", s.RateMissing)
	}
}

// Stated rates cost only where a limit has bounds.
func BenchmarkDecideStated(b *testing.B) {
	for _, rate := range []string{"", "5", "5/min"} {
		b.Run("rate="+rate, func(b *testing.B) {
			e := New(Options{Keys: 1024})
			e.Name(rateNames())
			l := config.Limit{Name: "l", Rate: 1e8, RequestedRate: config.RateBounds{Least: 1e8, Most: 2e8, Per: 1}}
			mustApply(b, e, simple(1e9, config.Queue{}, l))
			r, now := stating("a", rate, ""), sec
			b.ReportAllocs()
			for b.Loop() {
				now += 1000
				e.Decide(now, r)
			}
		})
	}
}
