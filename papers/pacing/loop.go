package pacing

import "math"

// Loop is one of the send loops that the paper compares: the step at each wake-up of the sender. Without a
// positive rate and size nothing is sent. A time that is not finite counts as the last one, and a granularity
// below 1 µs as 1 µs: a loop always sleeps.
type Loop interface {
	// Wake is called at time now (s) with the commanded rate (units/s) and the packet
	// size. It returns the units sent and the time in seconds to sleep for, before the
	// operating system's error.
	Wake(now, rate, size float64) (sent, sleep float64)
}

// leastSleep replaces a granularity that is not positive, seconds.
const leastSleep = 1e-6

// granularity is a timer granularity or period as it is used, in seconds.
func granularity(g float64) float64 {
	if !(g >= leastSleep) {
		return leastSleep
	}
	return min(g, 1e6)
}

// RFC3448NoBurst sends one packet per wake-up and sleeps t_ipi = size/rate, at least the
// timer granularity. Its error has nothing to cancel it, and beyond size/Granularity it
// cannot go any faster.
type RFC3448NoBurst struct{ Granularity float64 }

// Wake sends one packet.
func (l RFC3448NoBurst) Wake(_, rate, size float64) (sent, sleep float64) {
	rate, size, sleep = usable(rate), usable(size), granularity(l.Granularity)
	if rate == 0 || size == 0 {
		return 0, sleep
	}
	return size, max(size/rate, sleep)
}

// RFC3448Burst is the paper's reading of the RFC with bursts. When t_ipi is below the
// granularity t_g it sends a burst b = rate·t_g (whole packets, at least one) and sleeps
// t_g. Every late wake-up is lost for good.
type RFC3448Burst struct{ Granularity float64 }

// Wake sends one packet or a burst.
func (l RFC3448Burst) Wake(_, rate, size float64) (sent, sleep float64) {
	rate, size, sleep = usable(rate), usable(size), granularity(l.Granularity)
	if rate == 0 || size == 0 {
		return 0, sleep
	}
	if gap := size / rate; gap >= sleep {
		return size, gap
	}
	return max(size, whole(rate*sleep, size)), sleep
}

// RFC3448Nominal is the rule that RFC 3448 §4.6 actually states: a nominal send time t_nom advances by t_ipi
// per packet, independent of the real time. So a late wake-up is made up for. It is as accurate as the paper's
// controller. A clock that is set back starts it afresh.
type RFC3448Nominal struct {
	Granularity float64

	next    float64 // t_nom of the next packet
	clock   clock
	started bool
}

// Wake sends every packet whose nominal time, less half the granularity, has
// come.
func (l *RFC3448Nominal) Wake(now, rate, size float64) (sent, sleep float64) {
	rate, size, sleep = usable(rate), usable(size), granularity(l.Granularity)
	now, _, back := l.clock.read(now)
	if rate == 0 || size == 0 {
		return 0, sleep
	}
	if !l.started || back {
		l.started, l.next = true, now
	}
	gap, due := size/rate, now+sleep/2
	if n := math.Floor((due - l.next) / gap); n >= 0 {
		sent = (n + 1) * size
		l.next += (n + 1) * gap
	}
	return sent, max(l.next-now, sleep)
}

// Controlled is the paper's send loop around a [Sender]: wake every Period.
type Controlled struct {
	Sender
	// Period is T_s in seconds.
	Period float64

	clock clock
}

// Wake sends the packets that the controller allows.
func (l *Controlled) Wake(now, rate, size float64) (sent, sleep float64) {
	_, dt, _ := l.clock.read(now)
	return l.Step(dt, rate, size), granularity(l.Period)
}

// clock makes a usable time out of any number.
type clock struct {
	last    float64
	started bool
}

// read returns the time, within ±huge, what has passed since the last reading, and
// whether it runs backwards.
func (c *clock) read(now float64) (t, dt float64, back bool) {
	if now != now || math.Abs(now) > huge {
		now = c.last
	}
	if c.started {
		dt = now - c.last
	}
	c.last, c.started = now, true
	return now, max(dt, 0), dt < 0
}
