package grant

import "math"

// report computes the refill that a gateway's bucket would have made of spends that the
// owner has not acknowledged. The owner needs it because its bucket does not refill
// while the owner counts those tokens as unspent.
//
//	spends ──► level ──r──► refilled
//
// It has the times at which that bucket refilled without a break, each from a spend on that
// met a full bucket. Only from then on was there anything to refill. With one time for all of
// them the owner would take back refill of a pause between them, in which a bucket that saw
// all spends was full as well.
type report struct {
	level    int64
	at       int64
	carry    float64
	refilled int64 // in all times
	times    [Refills]refilling
	n        int    // of times
	number   uint32 // of the message that reported it last
	toldAt   int64
	told     int64 // level as of that message
	refillAt int64 // refilled as of that message
}

// refilling is a time without a break.
type refilling struct{ from, refilled int64 }

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
	if whole > 0 {
		r.times[r.n-1].refilled += whole
	}
}

// add takes in a spend; what is not above 0 is none.
func (r *report) add(p Params, now, cost int64) {
	if cost <= 0 {
		return
	}
	r.advance(p, now)
	if r.level == 0 {
		r.at = max(r.at, now)
		r.begin(p, r.at)
	}
	r.level += cost
}

// begin begins another time. If there are too many, the two with the shortest pause between them
// become one.
func (r *report) begin(p Params, now int64) {
	if r.n < len(r.times) {
		r.times[r.n] = refilling{from: now}
		r.n++
		return
	}
	pause := func(i int, next int64) int64 { return next - r.times[i].from - p.time(r.times[i].refilled) }
	last := r.n - 1
	shortest, at := pause(last, now), last
	for i := range last {
		if d := pause(i, r.times[i+1].from); d < shortest {
			shortest, at = d, i
		}
	}
	if at == last {
		return // it goes on
	}
	r.times[at].refilled += r.times[at+1].refilled
	copy(r.times[at+1:], r.times[at+2:])
	r.times[last] = refilling{from: now}
}

// send returns the refills that message number reports. The message does not report spends of so much, the latest:
// hidden. The oldest spends are refilled first, so what is beyond them of the refill is not reported either.
func (r *report) send(p Params, now int64, number uint32, hidden int64) [Refills]Refill {
	r.advance(p, now)
	beyond := max(0, hidden-r.level)
	r.number, r.toldAt, r.told, r.refillAt = number, now, max(0, r.level-hidden), r.refilled-min(beyond, r.refilled)
	all := r.refills(now)
	for i := len(all) - 1; i >= 0 && beyond > 0; i-- {
		off := min(beyond, all[i].Amount)
		all[i].Amount, beyond = all[i].Amount-off, beyond-off
	}
	return all
}

// refills returns what was refilled, oldest first.
func (r *report) refills(now int64) (all [Refills]Refill) {
	for i, t := range r.times[:r.n] {
		if t.refilled > 0 {
			all[i] = Refill{t.refilled, now - t.from}
		}
	}
	return all
}

// acknowledge takes out what the owner has received: all spends up to the latest message.
// Refill goes to the oldest first, so what was refilled since belongs to them too.
func (r *report) acknowledge(seen uint32) {
	if r.number == 0 || seen != r.number {
		return
	}
	after := r.refilled - r.refillAt // since the message
	heard := min(r.told, after)
	r.refilled = after - heard
	r.level = max(0, r.level-(r.told-heard))
	r.n = 0
	if r.level > 0 || r.refilled > 0 {
		r.times[0], r.n = refilling{r.toldAt, r.refilled}, 1
	}
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
