package grid

import (
	"math"
	"time"
)

// Slack is the stated bound on what may be admitted over rate·t + burst with all
// gateways of a cell active (docs/control.md):
//
//	(Lc − b) + (N−1) + 2^p·r·δ, and OPTIMISTIC r·δ more and once (N−1)·Lc
//
// with δ as in Lag and Lc = max(b, 3 + r·δ).
// A partition adds a burst and what the others go on with until it is noticed.
func Slack(rate, burst float64, c Cell, strict bool) float64 {
	n := float64(c.Replicas)
	delta := Lag(c).Seconds()
	perLag := rate * delta
	order := 1.0
	switch {
	case perLag <= .25:
		order = 3
	case perLag <= 1:
		order = 2
	}
	top := math.Max(burst, 3+perLag)
	slack := top - burst + n - 1 + math.Pow(2, order)*perLag
	if !strict {
		slack += perLag + (n-1)*top
	}
	if c.Events == "partition" || c.Events == "cut 6s" {
		slack += burst + rate
	}
	return slack
}

// Lag is δ of a cell: delay with its jitter, two and a half periods, and up to five
// lost packets in a row.
func Lag(c Cell) time.Duration {
	const period = 50 * time.Millisecond
	lag := c.Delay*7/5 + 5*period/2
	if c.Loss > 0 {
		lag += 5 * period
	}
	return lag
}
