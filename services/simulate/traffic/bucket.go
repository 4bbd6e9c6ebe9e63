package traffic

import "time"

// Bucket is an exact token bucket over any number of gateways: what one central
// counter without delay would decide. Full at first.
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

// slackness absorbs rounding, in parts of a cost.
const slackness = 1e-9

// Fits tells that a request of this cost conforms at t, and charges nothing. Times
// must not run back; one that does counts as the last.
func (b *Bucket) Fits(t time.Duration, cost float64) bool {
	if t > b.last {
		b.spent = max(0, b.spent-b.Rate*(t-b.last).Seconds())
		b.last = t
	}
	return b.spent+cost <= b.Burst+cost*slackness
}

// Charge takes a cost, conforming or not.
func (b *Bucket) Charge(cost float64) { b.spent += cost }

// Count charges a cost at t, conforming or not, and tells whether it conforms. It
// overdraws by one burst at most, so that a client that wanted too much is within
// its limit again after a while.
func (b *Bucket) Count(t time.Duration, cost float64) bool {
	ok := b.Fits(t, cost)
	b.spent = min(b.spent+cost, max(b.spent, 2*b.Burst))
	return ok
}

// Free is what is left for requests, cost units; below 0 when overdrawn.
func (b *Bucket) Free() float64 { return b.Burst - b.spent }
