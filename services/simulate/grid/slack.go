package grid

import (
	"math"
	"time"
)

// Slack is the stated bound on what may be admitted over rate·t + burst with all
// gateways of a cell active (docs/control.md):
//
//	(Lc − b) + (N−1) + 2^p·r·δ, and OPTIMISTIC r·δ more and once (N−1)·b
//
// with δ = gossip delay + period, and what loss adds to it; Lc = max(b, 3 + r·δ).
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
	slack := math.Max(0, 3+perLag-burst) + n - 1 + math.Pow(2, order)*perLag
	if !strict {
		slack += perLag + (n-1)*burst
	}
	if c.Events == "partition" || c.Events == "cut 6s" {
		slack += burst + rate
	}
	return slack
}

// Lag is δ of a cell: delay with its jitter, the period, and up to five lost
// packets in a row.
func Lag(c Cell) time.Duration {
	const period = 50 * time.Millisecond
	lag := c.Delay*7/5 + period
	if c.Loss > 0 {
		lag += 5 * period
	}
	return max(lag, 2*period)
}
