package pacing_test

import (
	"fmt"

	"github.com/titrate/titrate/control/pacing"
)

// Requests of cost 1 leave at 30/s although the ticker is late now and then: what a late
// wake-up missed is made up for.
func ExamplePacer() {
	var p pacing.Pacer
	sent, now := 0, 0.
	for k := range 200 {
		tick := .005
		if k%10 == 9 {
			tick = .055 // ten times too late
		}
		now += tick
		p.Advance(tick, 30)
		for p.Take(1) {
			sent++
		}
	}
	fmt.Printf("%d sent in %.1f s\n", sent, now)
	// Output: 59 sent in 2.0 s
}
