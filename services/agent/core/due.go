package core

import (
	"time"

	"github.com/titrate/titrate/proto/link"
)

// calmTicks bounds the half periods between two ticks. It is less than the time without packets after which a
// gateway is assumed to go on at its last claim. A tick shows that the gateways here live. Each second tick is
// then one at which a report is made.
const calmTicks = 5

// Due returns the time for the next Tick, and Round after it, unless an event comes before: ask again after each
// event. It is half a period after the last tick while something changes, a whole one while something is in use.
// Otherwise it is calmTicks half periods, but always in time for packets and heartbeats.
func (c *Core) Due() time.Duration {
	half := c.o.Period / 2
	next := c.ticked/half + 1 // in half periods, so that ticks fall on the times of other things done each period
	if c.restless() {
		return next * half
	}
	at := (c.ticked/(calmTicks*half) + 1) * calmTicks * half
	if c.aggregator.Contended() {
		at = (next + 1) * half
	}
	at = min(at, c.beat+link.HeartbeatEvery, c.peers.Due(), c.aggregator.Due(), c.ran+longPause/2, c.lapses.due())
	n := (at + half - 1) / half
	if n%calmTicks == calmTicks-1 && n > next+2 {
		n++ // rare packets are due half a period before their time
	}
	return max(next, n) * half
}

// restless reports whether the next tick has something to do that no time is known for.
func (c *Core) restless() bool {
	return c.ran == 0 || len(c.gateways) > len(c.links) || c.peersChanged
}
