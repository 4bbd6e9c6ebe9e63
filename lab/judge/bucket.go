package judge

import (
	"slices"
	"time"
)

// Bucket is an exact token bucket over any number of gateways: the decisions of one central counter without
// delay. Full at first.
type Bucket struct {
	Rate, Burst float64 // cost units/s, cost units
	spent       float64
	last        time.Duration
}

// Set changes rate and burst from now on. What was spent beyond the new burst is
// forgiven: the bucket is empty then, as a GCRA's is.
func (b *Bucket) Set(t time.Duration, rate, burst float64) {
	b.Fits(t, 0)
	b.Rate, b.Burst = rate, burst
	b.spent = min(b.spent, burst)
}

// rounding is forgiven, in parts of a cost: sums of floats, and times that are whole
// nanoseconds, up to a rate of 1000/s.
const rounding = 1e-6

// Fits reports whether a request of this cost conforms at t, and charges nothing. A time
// before the last one counts as the last one.
func (b *Bucket) Fits(t time.Duration, cost float64) bool {
	if t > b.last {
		b.spent = max(0, b.spent-b.Rate*(t-b.last).Seconds())
		b.last = t
	}
	return b.spent+cost <= b.Burst+cost*rounding
}

// Charge takes a cost, conforming or not.
func (b *Bucket) Charge(cost float64) { b.spent += cost }

// Take reports whether a request of this cost conforms at t, and charges it if so.
func (b *Bucket) Take(t time.Duration, cost float64) bool {
	ok := b.Fits(t, cost)
	if ok {
		b.Charge(cost)
	}
	return ok
}

// Count charges a cost at t, conforming or not, and reports whether it conforms. It
// overdraws by one burst at most, so that a client that wanted too much is within
// its limit again after a while.
func (b *Bucket) Count(t time.Duration, cost float64) bool {
	ok := b.Fits(t, cost)
	b.spent = min(b.spent+cost, max(b.spent, 2*b.Burst))
	return ok
}

// Free returns the tokens left, cost units; below 0 when overdrawn.
func (b *Bucket) Free() float64 { return b.Burst - b.spent }

// Central asks a bucket about all requests of one client. It keeps enough state to find wrongful refusals when
// the client's last request is known.
type Central struct {
	Bucket
	over     []time.Duration // turned away by the bucket
	suspects []suspect       // refused though the bucket admits
}

type suspect struct {
	id int
	at time.Duration
}

// Offer takes in a request, under a number of the caller's, and whether it was refused with 429.
// It reports whether the bucket admits it.
func (c *Central) Offer(id int, t time.Duration, cost float64, refused bool) bool {
	ok := c.Take(t, cost)
	switch {
	case !ok:
		c.over = append(c.over, t)
	case refused:
		c.suspects = append(c.suspects, suspect{id, t})
	}
	return ok
}

// Wrongful returns the numbers of the requests that were refused although the bucket admits
// them and turns away no other within margin before and after.
func (c *Central) Wrongful(margin time.Duration) (ids []int) {
	for _, s := range c.suspects {
		i, _ := slices.BinarySearch(c.over, s.at-margin)
		if i == len(c.over) || c.over[i] > s.at+margin {
			ids = append(ids, s.id)
		}
	}
	return ids
}
