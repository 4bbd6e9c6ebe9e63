package workload

import (
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// remembered is the least time that a gap counts after its end. The others assume that a late agent goes on at
// its claimed rate, for up to a second after its packets arrive again (claims.CatchUp). Then it takes the lag
// until every agent knows.
const remembered = 2 * time.Second

// pace measures how regularly something happens that is due each period.
type pace struct {
	last        time.Duration // when it happened last
	since       time.Duration // when now was begun
	now, before time.Duration // the longest gaps of this interval, and of the one before
}

// happened notes that it happens now.
func (p *pace) happened(now time.Duration) {
	if p.last > 0 {
		p.roll(now)
		p.now = max(p.now, now-p.last)
	}
	p.last = max(now, 1)
}

// roll begins another interval if this one is over.
func (p *pace) roll(now time.Duration) {
	if now-p.since >= remembered {
		p.since, p.now, p.before = now, 0, p.now
	}
}

// late returns the time by which the longest gap of this interval and of the one before, or the present
// gap, exceeds a period.
func (p *pace) late(now time.Duration) time.Duration {
	p.roll(now)
	return max(p.now, p.before, now-p.last, exchange.DefaultPeriod) - exchange.DefaultPeriod
}
