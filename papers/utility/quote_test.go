package utility_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/papers/utility"
)

// exchange is pools and tenants that exchange only prices and loads.
type exchange struct {
	a        [][]float64 // cost of tenant i on pool r
	mu       []float64
	ds       []fairshare.Demand
	alpha    float64
	quotes   []utility.Quote
	stale    [][]float64 // loads on their way, oldest first
	x        []float64
	reported []float64 // prices, 0 when slack
}

// open starts an exchange whose loads arrive delay rounds late.
func open(a [][]float64, mu []float64, ds []fairshare.Demand, alpha, gain float64, delay int) *exchange {
	e := &exchange{a: a, mu: mu, ds: ds, alpha: alpha, x: make([]float64, len(ds)), reported: make([]float64, len(mu))}
	for r := range mu {
		sum := 0.0 // the price if the pool were alone
		for i, d := range ds {
			if c := a[r][i]; c > 0 {
				sum += c * math.Pow(d.Weight/c, 1/alpha)
			}
		}
		usual := math.Pow(sum/mu[r], alpha)
		q := utility.Quote{Gain: gain, Alpha: alpha, Floor: 1e-12 * usual}
		q.Start(usual)
		e.quotes = append(e.quotes, q)
	}
	for range delay {
		e.stale = append(e.stale, e.loads())
	}
	return e
}

// loads lets every tenant buy and returns what the pools then carry.
func (e *exchange) loads() []float64 {
	y := make([]float64, len(e.mu))
	for i, d := range e.ds {
		path := 0.0
		for r := range e.mu {
			path += e.a[r][i] * e.quotes[r].Price()
		}
		e.x[i] = utility.Buy(d, path, e.alpha)
		for r := range e.mu {
			y[r] += e.a[r][i] * e.x[i]
		}
	}
	return y
}

// round runs one round and returns the worst overload.
func (e *exchange) round() (excess float64) {
	e.stale = append(e.stale, e.loads())
	for r, y := range e.stale[len(e.stale)-1] {
		excess = math.Max(excess, y/e.mu[r]-1)
	}
	for r := range e.quotes {
		e.reported[r] = e.quotes[r].Step(e.stale[0][r], e.mu[r])
	}
	e.stale = e.stale[1:]
	return excess
}

// The gain's bound is sharp: on one pool a price 1 % off returns just below it
// and runs away just above it, for every delay, α, weight and capacity.
func TestScaleFreeStability(t *testing.T) {
	for delay := range 5 {
		for _, alpha := range []float64{0.5, 1, 2} {
			for _, mu := range []float64{1e-3, 764500} {
				off := func(gain float64) float64 {
					ds := []fairshare.Demand{{Weight: 1, Cap: math.Inf(1)}, {Weight: 1e4, Cap: math.Inf(1)}}
					e := open([][]float64{{1, 30}}, []float64{mu}, ds, alpha, gain, delay)
					right := e.quotes[0].Price()
					e.quotes[0].Start(1.01 * right)
					last := 0.0
					for k := range 2000 {
						e.round()
						if k > 1900 {
							last = math.Max(last, math.Abs(e.quotes[0].Price()/right-1))
						}
					}
					return last
				}
				bound := utility.StableGain(delay)
				if below, above := off(0.97*bound), off(1.03*bound); below > 1e-3 || above < 0.02 {
					t.Errorf("D=%d α=%v C=%v: off by %v below and %v above γ = %v", delay, alpha, mu, below, above,
						bound)
				}
			}
		}
	}
}

// The best gain settles on one pool, from a price 20 % off, within 1, 5, 9 and
// 13 rounds at a delay of 0 to 3, whatever the scale.
func TestScaleFreeSettles(t *testing.T) {
	for delay := range 4 {
		ds := []fairshare.Demand{{Weight: 1, Cap: math.Inf(1)}, {Weight: 7, Cap: math.Inf(1)},
			{Weight: 2, Cap: math.Inf(1)}}
		settled := map[float64]int{}
		for _, mu := range []float64{1e-2, 1, 1e6} {
			e := open([][]float64{{1, 1, 1}}, []float64{mu}, ds, 1, utility.BestGain(delay), delay)
			right := e.quotes[0].Price()
			e.quotes[0].Start(0.8 * right)
			for i := range e.stale {
				e.stale[i] = e.loads()
			}
			for k := range 200 {
				e.round()
				if math.Abs(e.quotes[0].Price()/right-1) > 0.01 {
					settled[mu] = k + 1
				}
			}
		}
		t.Logf("D=%d: within 1 %% after %v rounds", delay, settled)
		if settled[1] > 4*delay+2 || settled[1] != settled[1e6] || settled[1] != settled[1e-2] {
			t.Errorf("D=%d: %v rounds", delay, settled)
		}
	}
}

// Any topology, cost, weight, capacity, α and delay: the exchange comes to the optimum. Since tenants buy by
// their prices, the optimum means feasibility and complementary slackness, Σ p·(C−y) = 0. Single shares may
// take longer: the prices of pools with nearly the same tenants separate slowly.
func TestScaleFreeFindsTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools, tenants := rapid.IntRange(1, 4).Draw(t, "pools"), rapid.IntRange(1, 6).Draw(t, "tenants")
		log := func(lo, hi float64, label string) float64 {
			return math.Pow(10, rapid.Float64Range(lo, hi).Draw(t, label))
		}
		a, mu, ds := make([][]float64, pools), make([]float64, pools), make([]fairshare.Demand, tenants)
		for r := range a {
			mu[r], a[r] = log(-2, 5, "capacity"), make([]float64, tenants)
			for i := range a[r] {
				if (i+r)%pools == 0 || rapid.Bool().Draw(t, "uses") {
					a[r][i] = log(-1, 1, "cost")
				}
			}
		}
		for i := range ds {
			ds[i] = fairshare.Demand{Weight: log(-3, 3, "weight"), Cap: math.Inf(1)}
		}
		alpha, delay := log(-0.3, 0.5, "α"), rapid.IntRange(0, 3).Draw(t, "delay")
		for i := range ds { // everybody must be on some pool, or it is unbounded
			on := false
			for r := range a {
				on = on || a[r][i] > 0
			}
			if !on {
				a[0][i] = 1
			}
		}
		e, excess := open(a, mu, ds, alpha, utility.BestGain(delay), delay), 0.0
		for range 4000 {
			excess = e.round()
		}
		if excess > 0.01 {
			t.Fatalf("overload of %v after 4000 rounds", excess)
		}
		gap, value := 0.0, 0.0
		for r, y := range e.loads() {
			gap += e.reported[r] * math.Abs(mu[r]-y)
			value += e.reported[r] * mu[r]
		}
		if gap > 0.01*value {
			t.Fatalf("gap %v of %v", gap, value)
		}
	})
}

// Two pools in a row (vectors C03 and C04): the exchange ends at the market's
// prices and shares.
func TestScaleFreeOnALine(t *testing.T) {
	a, mu := [][]float64{{1, 1, 0}, {1, 0, 1}}, []float64{1, 1}
	ds := []fairshare.Demand{{Weight: 1, Cap: 10}, {Weight: 1, Cap: 10}, {Weight: 1, Cap: 10}}
	for alpha, want := range map[float64][]float64{1: {1. / 3, 2. / 3, 1.5},
		2: {math.Sqrt2 - 1, 2 - math.Sqrt2, 2.914213562}} {
		for delay := range 4 {
			e := open(a, mu, ds, alpha, utility.BestGain(delay), delay)
			for range 1000 {
				e.round()
			}
			got := []float64{e.x[0], e.x[1], e.quotes[0].Price()}
			for i := range got {
				if math.Abs(got[i]-want[i]) > 1e-6 {
					t.Errorf("α=%v D=%d: %v, want %v", alpha, delay, got, want)
				}
			}
		}
	}
}

func TestGains(t *testing.T) {
	for d, want := range [][2]float64{{2, 1}, {1, 0.25}, {0.6180339887, 4. / 27}, {0.4450418679, 27. / 256}} {
		if s, b := utility.StableGain(d), utility.BestGain(d); math.Abs(s-want[0]) > 1e-9 ||
			math.Abs(b-want[1]) > 1e-12 {
			t.Errorf("D=%d: bound %v, best %v, want %v", d, s, b, want)
		}
	}
}

// A slack pool reports 0 and comes back when it is needed; bad numbers leave a
// finite positive price.
func TestQuoteEdges(t *testing.T) {
	q := utility.Quote{Gain: 0.25, Alpha: 1, Floor: 1e-3}
	q.Start(1)
	for range 100 {
		q.Step(10, 100)
	}
	if p := q.Step(10, 100); p != 0 || q.Price() != 1e-3 {
		t.Errorf("slack: reports %v, asks %v", p, q.Price())
	}
	rounds := 0
	for ; q.Price() < 1; rounds++ {
		q.Step(200, 100)
	}
	if rounds > 28 { // ln(1000)/.25
		t.Errorf("%d rounds to come back", rounds)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0} {
		for _, other := range []float64{math.NaN(), math.Inf(1), -1, 0, 5} {
			z := utility.Quote{Gain: bad, Alpha: bad, Floor: bad}
			z.Start(bad)
			z.Step(bad, other)
			z.Step(other, bad)
			if p := z.Price(); !(p > 0) || math.IsInf(p, 1) {
				t.Errorf("%v, %v: price %v", bad, other, p)
			}
			if x := utility.Buy(fairshare.Demand{Weight: bad, Guaranteed: other, Cap: 7}, bad, bad); !(x >= 0 &&
				x <= 7) {
				t.Errorf("%v, %v: buys %v", bad, other, x)
			}
		}
	}
}

func TestQuoteAllocatesNothing(t *testing.T) {
	q := utility.Quote{Gain: 0.25, Alpha: 2, Floor: 1e-3}
	if n := testing.AllocsPerRun(100, func() {
		q.Step(utility.Buy(fairshare.Demand{Weight: 1, Cap: 10}, q.Price(), 2), 5)
	}); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
}

func BenchmarkQuote(b *testing.B) {
	q := utility.Quote{Gain: 0.25, Alpha: 1, Floor: 1e-3}
	b.ReportAllocs()
	for b.Loop() {
		q.Step(utility.Buy(fairshare.Demand{Weight: 1, Cap: 10}, q.Price(), 1), 5)
	}
}
