package grid

import (
	"time"

	"github.com/titrate/titrate/services/judge"
)

// Slack is the stated bound on what may be admitted over rate·t + burst with all
// gateways of a cell active (judge.Limit.Slack), all of which begin cold. A partition
// adds a burst and what the others go on with until it is noticed.
func Slack(rate, burst float64, c Cell, strict bool) float64 {
	slack, cold := judge.Limit{Rate: rate, Burst: burst, Strict: strict}.Slack(c.Replicas, Lag(c))
	if c.Events == "partition" || c.Events == "cut 6s" {
		slack += burst + rate
	}
	return slack + cold
}

// Lag is δ of a cell, whose gossip takes the delay with its jitter of 40 %.
func Lag(c Cell) time.Duration { return judge.Lag(c.Replicas, c.Delay*7/5, c.Loss > 0) }
