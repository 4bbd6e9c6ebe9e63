package pricing_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
)

// poolOracle is the slow, obvious α-fair pool. It has the definition of a share, and
// bisection on the logarithm of the price, so that no weight W^(1/α) is too large or too
// small for it.
func poolOracle(mu float64, ds []fairshare.Demand, g fairshare.Guarantee, alpha float64) []float64 {
	at := func(logPrice float64) (xs []float64, sum float64) {
		for _, d := range ds {
			base := math.Min(d.Guaranteed, d.Cap)
			x := base
			if wanted := math.Exp((math.Log(d.Weight) - logPrice) / alpha); d.Weight > 0 && g == fairshare.Additive {
				x = math.Min(base+wanted, d.Cap)
			} else if d.Weight > 0 {
				x = math.Min(math.Max(base, wanted), d.Cap)
			}
			xs, sum = append(xs, x), sum+x
		}
		return xs, sum
	}
	lo, hi := -2000.0, 2000.0 // the load is largest at lo
	if xs, sum := at(math.Inf(1)); sum > mu {
		for i := range xs {
			xs[i] *= mu / sum
		}
		return xs
	}
	if xs, sum := at(math.Inf(-1)); sum <= mu {
		return xs
	}
	for range 100 {
		mid := (lo + hi) / 2
		if _, sum := at(mid); sum > mu {
			lo = mid
		} else {
			hi = mid
		}
	}
	xs, _ := at(hi)
	return xs
}

// decades draws from 10^lo to 10^hi, and 0 in one of nothing draws.
func decades(r *rand.Rand, lo, hi float64, nothing int) float64 {
	if r.IntN(nothing) == 0 {
		return 0
	}
	return math.Pow(10, lo+(hi-lo)*r.Float64())
}

func TestPoolAgreesWithOracle(t *testing.T) {
	const cases, mostPasses = 100_000, 120
	r := rand.New(rand.NewPCG(7, 11))
	var scratch [6]fairshare.Demand
	var xs [6]float64
	worst, passes := 0.0, 0
	for range cases {
		ds := make([]fairshare.Demand, 1+r.IntN(len(xs)))
		for i := range ds {
			ds[i] = fairshare.Demand{
				Weight: decades(r, -3, 6, 20), Guaranteed: decades(r, -3, 3, 2), Cap: decades(r, -3, 4, 10),
			}
			if r.IntN(3) == 0 {
				ds[i].Cap = math.Inf(1)
			}
		}
		mu, g := decades(r, -3, 4, 10), fairshare.Guarantee(r.IntN(2))
		alpha := []float64{.1, .25, .5, 1, 2, 10}[r.IntN(6)]
		warm := []float64{0, 1e-6, 1, 1e6}[r.IntN(4)]
		got := pricing.Pool(mu, ds, g, alpha, warm, scratch[:], xs[:len(ds)])
		passes = max(passes, got.Passes)
		for i, want := range poolOracle(mu, ds, g, alpha) {
			off := math.Abs(xs[i]-want) / max(mu, want, 1e-9)
			if worst = max(worst, off); off > 1e-11 || got.Passes > mostPasses {
				t.Fatalf("x[%d] = %v, oracle %v, %d passes: pool %v, guarantee %v, α %v, warm %v, %+v",
					i, xs[i], want, got.Passes, mu, g, alpha, warm, ds)
			}
		}
	}
	t.Logf("%d cases: at most %.2g of the pool off, %d passes", cases, worst, passes)
}
