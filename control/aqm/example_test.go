package aqm_test

import (
	"fmt"

	"github.com/titrate/titrate/control/aqm"
)

// A queue is served at 200 requests/s and may delay them by 50 ms. Clients send 240/s and do
// not slow down when marked: a sixth of what they send must be dropped.
func ExampleVSD() {
	const rate = 200.
	law := aqm.VSD{Delay: .05, Mode: aqm.DropMode}
	every := aqm.Interval(rate)
	queued, dropped, offered, due := 0., 0., 0., 0.
	for now := 0.; now < 60; now += every {
		law.Step(now, queued, rate, 10)
		for due += 240 * every; due >= 1; due-- {
			random := offered*.618 - float64(int(offered*.618)) // evenly spread over [0, 1)
			offered++
			if law.Arrive(aqm.Arrival{Now: now, Cost: 1, Queued: queued, Rand: random}) == aqm.Drop {
				dropped++
			} else {
				queued++
			}
		}
		queued = max(0, queued-rate*every)
	}
	delay := 1000 * queued / rate
	fmt.Printf("dropped %.0f %%, delay of 40 to 60 ms: %v\n", 100*dropped/offered, delay > 40 && delay < 60)
	// Output: dropped 17 %, delay of 40 to 60 ms: true
}
