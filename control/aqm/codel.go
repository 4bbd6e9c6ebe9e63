package aqm

import "math"

// CoDel is controlled delay (Nichols and Jacobson; RFC 8289), which a queue may use
// in place of [VSD].
//
//	the sojourn time has stayed ≥ target for an interval → hit one request
//	next hit = last hit + interval/√count          while it stays
//	back within 16 intervals → go on at the count where it was left
//
// It uses the wait of each request that leaves, and needs neither rate nor queue length;
// Step does nothing. It hits more often the longer the wait lasts, and not the larger the
// excess is: against clients that never slow down it needs minutes.
//
//	source            here          source         here
//	target, interval  Delay, Window first_above    above
//	drop_next         next          count, lastcount  count, last
//
// Bad numbers: see the package comment; a queue of one request or less behind
// the head ends the state, as in the source with its MTU.
type CoDel struct {
	// Delay is the target in seconds, > 0; the source has .005 for packets.
	Delay float64
	// Window is the interval in seconds, > 0: a round trip of the slowest
	// clients; the source has .1.
	Window float64
	// Buffer is the most that may wait, cost units; beyond it arrivals drop.
	Buffer float64
	// Mode says whether a hit marks or drops.
	Mode Mode

	above       float64 // when the sojourn will have been too long for a Window
	next        float64
	count, last float64
	rising      bool // above is set
	hitting     bool
}

// Hitting reports whether the wait has been too long for a Window.
func (c *CoDel) Hitting() bool { return c.hitting }

// Step does nothing: the law acts on departure.
func (c *CoDel) Step(_, _, _, _ float64) {}

// Arrive drops only what overflows the buffer.
func (c *CoDel) Arrive(a Arrival) Verdict { return tail(sane(a.Queued), sane(a.Cost), sane(c.Buffer)) }

// Depart gives the verdict on the head of the queue, see the type's comment.
func (c *CoDel) Depart(now, queued, sojourn float64) Verdict {
	if math.IsNaN(now) || math.IsInf(now, 0) {
		return Accept
	}
	long := c.tooLong(now, sane(queued), sane(sojourn))
	switch {
	case !long:
		c.hitting = false
		return Accept
	case c.hitting && now < c.next:
		return Accept
	case c.hitting:
		c.count++
		c.next = c.after(c.next)
	default:
		c.hitting = true
		if fresh := c.count - c.last; fresh > 1 && now-c.next < 16*sane(c.Window) {
			c.count = fresh
		} else {
			c.count = 1
		}
		c.last, c.next = c.count, c.after(now)
	}
	if c.Mode == DropMode {
		return Drop
	}
	return Mark
}

// tooLong reports whether the sojourn time has been too long for a Window.
func (c *CoDel) tooLong(now, queued, sojourn float64) bool {
	switch {
	case sojourn < sane(c.Delay) || queued <= 1:
		c.rising = false
		return false
	case !c.rising || c.above > now+sane(c.Window): // the clock was set back
		c.rising, c.above = true, now+sane(c.Window)
		return false
	default:
		return now >= c.above
	}
}

// after is the control law: the time of the hit that follows one at t.
func (c *CoDel) after(t float64) float64 { return t + sane(c.Window)/math.Sqrt(max(c.count, 1)) }
