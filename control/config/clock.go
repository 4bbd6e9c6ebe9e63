package config

import (
	"math"
	"time"
)

// clockWindow is the time after which a clock follows a sender that has set its own clock back. Until then messages
// that are behind are taken for late ones.
const clockWindow = time.Minute

// Clock is the time of day of a sender, by the instants in its messages. Between messages a receiver counts on by its
// own monotonic clock (now), so that neither its wall clock nor a lost link counts. A message is as late as its way
// was long: of the messages of the last one or two minutes the least late one counts. The zero value knows no time.
type Clock struct {
	state  clockState
	before Instant       // most instant − now of the window before
	recent Instant       // the same of this window
	turned time.Duration // this window's begin
}

type clockState uint8

const (
	unset clockState = iota
	guessed
	received
)

// Guess sets the time of day until the first message.
func (c *Clock) Guess(now time.Duration, at Instant) {
	if c.state != received {
		c.state = guessed
		c.set(now, at-milliseconds(now))
	}
}

// Receive takes in the instant of a message; 0: it has none.
func (c *Clock) Receive(now time.Duration, sent Instant) {
	ahead := sent - milliseconds(now)
	switch {
	case sent <= 0:
	case c.state != received:
		c.state = received
		c.set(now, ahead)
	case now-c.turned >= clockWindow:
		c.before, c.recent, c.turned = c.recent, ahead, now
	default:
		c.recent = max(c.recent, ahead)
	}
}

func (c *Clock) set(now time.Duration, ahead Instant) {
	c.before, c.recent, c.turned = ahead, ahead, now
}

// At returns the time of day, 0 if it is not known.
func (c *Clock) At(now time.Duration) Instant {
	if c.state == unset {
		return 0
	}
	return milliseconds(now) + max(c.before, c.recent)
}

// When returns the time of the receiver's clock at which an instant comes, as far as is known now; without end if the
// time of day is not known.
func (c *Clock) When(at Instant) time.Duration {
	if c.state == unset {
		return math.MaxInt64
	}
	return time.Duration(at-max(c.before, c.recent)) * time.Millisecond
}

func milliseconds(d time.Duration) Instant { return Instant(d.Milliseconds()) }
