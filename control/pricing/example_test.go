package pricing_test

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
)

// A tenant's requests use two pools of 100/s; each pool has one more tenant that uses no
// other. Proportional sharing (α = 1) gives less than max-min's 50/s to the tenant of both
// pools, and more in all. Every tenant pays 1: the share times the prices of its pools.
func ExampleMarket() {
	uses := []fairshare.Use{{Tenant: 0, Pool: 0, Cost: 1}, {Tenant: 0, Pool: 1, Cost: 1},
		{Tenant: 1, Pool: 0, Cost: 1}, {Tenant: 2, Pool: 1, Cost: 1}}
	m, err := pricing.NewMarket(2, 3, uses)
	if err != nil {
		panic(err)
	}
	one := fairshare.Demand{Weight: 1, Cap: math.Inf(1)}
	prices, shares := make([]float64, 2), make([]float64, 3)
	m.Solve([]float64{100, 100}, []fairshare.Demand{one, one, one}, fairshare.Minimum, 1, prices, shares)
	fmt.Printf("shares %.1f, prices %.3f\n", shares, prices)
	// Output: shares [33.3 66.7 66.7], prices [0.015 0.015]
}
