package grant

import "math"

// report is what a bucket of a gateway's own would have refilled of spends that the
// owner has not acknowledged. The owner needs it because its bucket does not refill
// while it takes the tokens for unspent.
//
//	spends ──► level ──r──► refilled        since = time of the first
type report struct {
	level    int64
	at       int64
	carry    float64
	refilled int64
	since    int64
	number   uint32 // of the message that told it last
	toldAt   int64
	told     int64 // level as of that message
	refillAt int64 // refilled as of that message
}

// advance refills up to now; an earlier time changes nothing, as threads may read the clock in one
// order and come here in another.
func (r *report) advance(p Params, now int64) {
	if now <= r.at {
		return
	}
	gain := p.cost(now-r.at) + r.carry
	r.at = now
	whole := int64(min(gain, float64(r.level)))
	r.carry = 0
	if whole < r.level {
		r.carry = gain - float64(whole)
	}
	r.level -= whole
	r.refilled += whole
}

// add takes in a spend.
func (r *report) add(p Params, now, cost int64) {
	if r.level == 0 && r.refilled == 0 {
		r.at, r.since = now, now
	}
	r.advance(p, now)
	r.level += cost
}

// send returns what message number tells: refilled, and since how long.
func (r *report) send(p Params, now int64, number uint32) (refilled, age int64) {
	r.advance(p, now)
	r.number, r.toldAt, r.told, r.refillAt = number, now, r.level, r.refilled
	if r.refilled == 0 {
		return 0, 0
	}
	return r.refilled, now - r.since
}

// acknowledge takes out what the owner has heard: all spends up to the latest message.
// Refill goes to the oldest first, so what was refilled since belongs to them too.
func (r *report) acknowledge(seen uint32) {
	if r.number == 0 || seen != r.number {
		return
	}
	after := r.refilled - r.refillAt // since the message
	heard := min(r.told, after)
	r.refilled = after - heard
	r.level = max(0, r.level-(r.told-heard))
	r.since = r.toldAt
	r.number, r.told, r.refillAt = 0, 0, 0
}

// rate is a mean over the last second or so, cost per second.
type rate struct {
	value float64
	last  int64
}

func (r *rate) at(now int64) float64 {
	if now <= r.last {
		return r.value
	}
	return r.value * math.Exp(-float64(now-r.last)/second)
}

func (r *rate) add(now, cost int64) {
	r.value = r.at(now) + float64(cost)
	r.last = max(r.last, now)
}
