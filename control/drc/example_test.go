package drc_test

import (
	"fmt"

	"github.com/titrate/titrate/control/drc"
)

// Two replicas hold 100 requests/s together. The first is offered 300/s, the second 20/s.
// Each announces its claim to the other, 50 ms late.
func ExampleController() {
	p := drc.Params{Rate: 100, Weight: 1, TotalWeight: 2, Replicas: 2, Guarantee: drc.DefaultGuarantee,
		Lag: .1, Period: .05, Police: true}
	a, b := drc.New(p), drc.New(p)
	var fromA, fromB drc.Claim
	passedA, passedB := 0., 0.
	for k := range 6000 { // 30 s in steps of 5 ms
		if k%10 == 0 {
			fromA, fromB = a.Publish(), b.Publish()
		}
		outA, outB := a.Step(.005, 300*.005, sums(fromB)), b.Step(.005, 20*.005, sums(fromA))
		if k >= 4000 { // the last 10 s
			passedA, passedB = passedA+outA/10, passedB+outB/10
		}
	}
	fmt.Printf("first %.0f/s, second %.0f/s\n", passedA, passedB)
	// Output: first 80/s, second 20/s
}

// sums of one other replica.
func sums(c drc.Claim) drc.Sums {
	return drc.Sums{Claims: c.Claim, Active: c.Active, Unsaturated: c.Unsaturated}
}

// A key that only one replica uses needs one integer: 10 requests/s with a burst of 3.
func ExampleTake() {
	const rate, burst, second = 10, 3, 1_000_000_000
	var tat int64
	for range 5 {
		next, ok := drc.Take(tat, second, rate, burst, 1)
		fmt.Print(ok, " ")
		tat = next
	}
	_, ok := drc.Take(tat, second+second/10, rate, burst, 1)
	fmt.Println("and a tenth of a second later", ok)
	// Output: true true true false false and a tenth of a second later true
}
