package main

import (
	"fmt"

	"github.com/titrate/titrate/control/pricing"
)

// utility draws figures 6 to 10: three sources on a cluster of 764500 packets/s, by the
// gains k and R.
func utility() []figure {
	const capacity = 764500.0
	f := figure{name: "pricing-6-10", title: "Fig. 6–10: three sources by gains k and R; Fig. 7 never settles", x: "round", y: "sum of the rates (packets/s)"}
	for _, c := range []struct {
		name string
		k, r float64
	}{{"Fig. 6", 1e5, 5e11}, {"Fig. 7", 1e5, 1.5e11}, {"Fig. 8", 1e5, 1e12}, {"Fig. 9", 2e4, 5e11}, {"Fig. 10", 1.5e5, 5e11}} {
		law := pricing.Published{K: c.k, R: c.r, Weight: 1, Capacity: capacity, Rates: make([]float64, 3)}
		l := line{name: fmt.Sprintf("%s: k = %.3g, R = %.3g", c.name, c.k, c.r)}
		for round := range 150 {
			law.Step()
			l.add(float64(round+1), law.Rates[0]+law.Rates[1]+law.Rates[2])
		}
		f.lines = append(f.lines, l)
	}
	return []figure{f}
}
