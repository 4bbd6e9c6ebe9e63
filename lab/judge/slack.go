package judge

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// Limit is a limit of one key over all gateways together.
type Limit struct {
	Rate, Burst float64 // cost units/s, cost units
	Strict      bool    // STRICT; otherwise OPTIMISTIC, the default
}

// ExactSlack returns the cost that all gateways together may admit beyond rate·t + burst in any window of a
// limit with `precision: EXACT`, while the owner of the key can be reached. In the equation τ is the delay
// between two agents:
//
//	1 + 8·r·τ
func (l Limit) ExactSlack(way time.Duration) float64 { return 1 + 8*l.Rate*way.Seconds() }

// Lag is δ, the time in which a gateway's claim is known to all others. It is the gossip's
// delay, with five periods more while packets are lost, and two and a half periods. With more
// than 16 agents a claim goes by way of the key's owner, so the delay counts twice.
func Lag(agents int, delay time.Duration, losses bool) time.Duration {
	if losses {
		delay += 5 * exchange.DefaultPeriod
	}
	if agents > exchange.DefaultEverybody {
		delay *= 2
	}
	return delay + 5*exchange.DefaultPeriod/2
}

// Slack returns the cost that k gateways may admit beyond rate·t + burst in any window while claims take the
// given lag. cold is the cost that they may admit in addition once, and then repay, if all begin cold within
// one lag (docs/guarantees.md). With r the rate and b the burst:
//
//	STRICT      (Lc − b) + (k − 1) + 2^p·r·δ      Lc = max(b, 3 + r·δ)
//	OPTIMISTIC  the same + r·δ, cold (k − 1)·Lc   p = 3 if r·δ ≤ 1/4, 2 if ≤ 1, else 1
//
// One gateway is a token bucket and has no slack.
func (l Limit) Slack(k int, lag time.Duration) (slack, cold float64) {
	if k <= 1 {
		return 0, 0
	}
	perLag := l.Rate * lag.Seconds()
	order := 1.0
	switch {
	case perLag <= .25:
		order = 3
	case perLag <= 1:
		order = 2
	}
	most, others := math.Max(l.Burst, 3+perLag), float64(k-1)
	slack = most - l.Burst + others + math.Exp2(order)*perLag
	if l.Strict {
		return slack, 0
	}
	return slack + perLag, others * most
}
