package comparison

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
	"github.com/titrate/titrate/papers/markdown"
)

// Allocators is the table of ways to share three pools of 100 among one tenant that uses
// all three and three that use one each. It also shares one pool among tenants of unlike
// demand.
func Allocators() string {
	row := func(name string, shares []float64) []string {
		low, sum := math.Inf(1), 0.
		for _, v := range shares {
			low, sum = math.Min(low, v), sum+v
		}
		return []string{name, fmt.Sprintf("%.1f", shares[0]), fmt.Sprintf("%.1f", shares[1]), fmt.Sprintf("%.1f", sum),
			fmt.Sprintf("%.1f", low)}
	}
	uses := []fairshare.Use{{Tenant: 0, Pool: 0, Cost: 1}, {Tenant: 0, Pool: 1, Cost: 1}, {Tenant: 0, Pool: 2, Cost: 1},
		{Tenant: 1, Pool: 0, Cost: 1}, {Tenant: 2, Pool: 1, Cost: 1}, {Tenant: 3, Pool: 2, Cost: 1}}
	demands := make([]fairshare.Demand, 4)
	for i := range demands {
		demands[i] = fairshare.Demand{Weight: 1, Cap: 1e6}
	}
	capacity := []float64{100, 100, 100}
	network, err := fairshare.NewNetwork(3, 4, uses)
	if err != nil {
		panic(err) // well formed
	}
	var out fairshare.Allocation
	network.Solve(capacity, demands, fairshare.Minimum, nil, &out)
	rows := [][]string{row("max-min", out.Shares)}
	market, err := pricing.NewMarket(3, 4, uses)
	if err != nil {
		panic(err)
	}
	for _, alpha := range []float64{2, 1, .5} {
		prices, shares := make([]float64, 3), make([]float64, 4)
		market.Solve(capacity, demands, fairshare.Minimum, alpha, prices, shares)
		rows = append(rows, row(fmt.Sprintf("proportional, α = %g", alpha), shares))
	}
	head := []string{"sharing", "tenant of all three pools, /s", "tenant of one, /s", "sum, /s", "least, /s"}
	return markdown.Table(head, append(rows, row("static quota, a half each", []float64{50, 50, 50, 50})))
}
