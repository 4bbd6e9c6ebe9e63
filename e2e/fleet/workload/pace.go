package workload

import (
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// remembered is for how long at least a gap counts after its end. An agent that was not heard is
// taken to have gone on as it claimed, for up to a second after it is heard again
// (claims.CatchUp), and then it takes the lag until everybody knows.
const remembered = 2 * time.Second

// pace is how regularly something happens that is due each period.
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

// late is by how much the longest gap of this interval and of the one before, or the present one,
// exceeds a period.
func (p *pace) late(now time.Duration) time.Duration {
	p.roll(now)
	return max(p.now, p.before, now-p.last, exchange.DefaultPeriod) - exchange.DefaultPeriod
}
