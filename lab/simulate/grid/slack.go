package grid

import (
	"time"

	"github.com/titrate/titrate/lab/judge"
)

// Slack returns the stated bound on the excess over rate·t + burst if all gateways of a cell are active and
// begin cold (see judge.Limit). A partition adds a burst, and the rate that the other side uses until it
// notices the partition.
func Slack(rate, burst float64, c Cell, strict bool) float64 {
	slack, cold := judge.Limit{Rate: rate, Burst: burst, Strict: strict}.Slack(c.Replicas, Lag(c))
	if c.Events == "partition" || c.Events == "cut 6s" {
		slack += burst + rate
	}
	return slack + cold
}

// Lag is δ of a cell, whose gossip takes the delay with its jitter of 40 %.
func Lag(c Cell) time.Duration { return judge.Lag(c.Replicas, c.Delay*7/5, c.Loss > 0) }
