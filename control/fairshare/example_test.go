package fairshare_test

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/fairshare"
)

// 300 requests/s among three tenants: by weight, but nobody gets more than he asks for, and
// the third has 30/s guaranteed.
func ExampleFill() {
	tenants := []fairshare.Demand{
		{Weight: 3, Cap: math.Inf(1)},
		{Weight: 2, Cap: 60},
		{Weight: 0, Guaranteed: 30, Cap: math.Inf(1)},
	}
	shares := make([]float64, len(tenants))
	r := fairshare.Fill(300, tenants, fairshare.Minimum, 0, shares)
	fmt.Println(shares, "fair rate per weight:", r.FairRate)
	// Output: [210 60 30] fair rate per weight: 70
}
