package core

import (
	"log/slog"
	"math"
	"time"

	"github.com/titrate/titrate/control/config"
)

// GuessClock sets the time of day until a coordinator says it: the agent's own, corrected by what was saved last.
func (c *Core) GuessClock(now time.Duration, at config.Instant) { c.lapses.clock.Guess(now, at) }

// ReceiveClock takes in the time of day of a coordinator's message; 0: it has none.
func (c *Core) ReceiveClock(now time.Duration, sent int64) {
	c.lapses.clock.Receive(now, config.Instant(sent))
}

// Clock returns the coordinators' time of day, 0 if it is not known.
func (c *Core) Clock(now time.Duration) config.Instant { return c.lapses.clock.At(now) }

// lapses is the state of what lapses by itself.
type lapses struct {
	clock config.Clock   // by coordinators
	next  config.Instant // 0: nothing lapses
	after time.Duration  // not before: the time of the last one, and a second
	count int64
}

// lapse notes what has lapsed of the configuration. Gateways let the same lapse by themselves. Owners of keys look up
// again what they may grant, as after a change of the configuration.
func (c *Core) lapse(now time.Duration) {
	l := &c.lapses
	if at := l.clock.At(now); l.next.Over(at) && now >= l.after {
		var has bool
		if has, l.next = c.applied.Lapse(at); has {
			l.count, l.after = l.count+1, now+time.Second // as at gateways, one a second
			c.slots.Configured(c.ran)
			c.quotas.Configured(c.ran)
			c.log(slog.LevelInfo, "something in the configuration has lapsed", "revision", c.logged)
		}
	}
}

// due returns the time of the next lapse.
func (l *lapses) due() time.Duration {
	if l.next == 0 {
		return math.MaxInt64
	}
	return max(l.after, l.clock.When(l.next))
}
