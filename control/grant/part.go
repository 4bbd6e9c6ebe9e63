package grant

import "math"

// Standing parts. Each of the n gateways of a fleet has a part of every key's bucket without asking for it:
//
//	part i   burst s·b/n, rate s·r/n      at the gateway
//	rest     burst (1 − s)·b, rate (1 − s)·r      at the owner
//
// The sum is (r, b) although nobody has sent anything, so the bound holds without a message. A gateway decides by
// its part while that has tokens, and asks the owner for more. An owner that is short calls the parts: a gateway
// answers with what it has spent, and does not use its part until the call lapses. The owner's bucket has grown
// by the part until then.
//
//	gateway ◄─ PartCall: the owner's clock says e; keep away from your part for a lease ─── owner, short
//	gateway ── PartAnswer to e: so much of it was spent ──► owner
//	                                                        the part is here until e + lease by my clock
//
// The gateway counts the lease from when the call came, so it keeps away for longer than the owner expects.
// A call that is lost, repeated or late does no harm: an answer to an old call ends in the past. While the key is in
// use the owner calls again before the lease ends. If nobody uses the key and its bucket is full, the owner lets the
// calls lapse. At e + lease its bucket shrinks by the parts, whose tokens it has paid, and a little later
// the parts are full at their gateways. So an owner that is gone needs no successor to give the parts back.
//
// What gateways are granted of called parts lapses before them: Grant.Valid.
//
// # What a part says
//
// To add up the levels of parts would lose the refill that full parts have turned away, though one bucket would have
// used it. So a part keeps what was spent of it and when, and the owner has, with Aᵢ(a) what part i has admitted in the
// last a,
//
//	D = max over a of Σ(Aᵢ(a) − rᵢ·a)
//
// which is the definition of a token bucket's level. Where a part has forgotten, at age w, it knows its level then, and
// stands for no refill before.
const (
	// partShare is s, the part of a bucket that gateways have.
	partShare = 0.8
	// leastPart is the smallest part: one or two tokens cost as many messages as they save. What parts that end had
	// spent is not known. So that gateways seldom end them, they count as fewGateways at least.
	leastPart   = 3 * Token
	fewGateways = 8
	// A call lasts for four times what the bucket takes to fill, within these bounds.
	leastLease, mostLease = 60 * second, 600 * second
	// drift is the part of a time by which two clocks may differ: one in so many.
	drift = 256
)

// Part returns the numbers of the part of one of so many gateways. Not ok: there are no parts of this limit.
func (p Params) Part(gateways int) (part Params, ok bool) {
	if gateways <= 0 {
		return p, false
	}
	least := p.scale(partShare / float64(max(gateways, fewGateways)))
	return p.scale(partShare / float64(gateways)), least.Burst >= leastPart
}

// scale returns the numbers of a part of the bucket.
func (p Params) scale(share float64) Params {
	p.Rate *= share
	p.Burst = int64(share * float64(p.Burst))
	return p
}

// lease returns the duration of a call.
func (p Params) lease() int64 { return max(leastLease, min(4*p.time(p.Burst), mostLease)) }

// Filling returns how long an empty bucket takes to fill, for each part alike.
func (p Params) Filling() float64 { return float64(p.Burst) / (p.Rate * Token / second) }

// Standing is a part at its gateway.
type Standing struct {
	Full int64 // when it is full
	past past
}

// NewStanding returns a part that is full from then on.
func NewStanding(at int64) Standing { return Standing{at, past{from: at, base: at}} }

// Take spends of a part, if it has so much. It remembers so many times of spends at most.
func (s *Standing) Take(part Params, now, cost int64, most int) bool {
	if s.spent(part, now)+cost > part.Burst {
		return false
	}
	s.Charge(part, now, cost, most)
	return true
}

// Charge spends of a part even if it has less; a negative cost gives back.
func (s *Standing) Charge(part Params, now, cost int64, most int) {
	if cost < 0 {
		s.Full = max(min(s.Full, now), s.Full-part.time(-cost))
	} else {
		s.Full = min(max(s.Full, now)+part.time(cost), now+forever)
	}
	s.past.add(part, now, cost, most)
}

func (s *Standing) spent(part Params, now int64) int64 {
	return upTo(part.cost(max(0, s.Full-now)))
}

// Unknown has a part remember no more than it would if it had been unknown since then, being full.
func (s *Standing) Unknown(since int64) {
	if s.past.from < since && s.Full <= since && len(s.past.list) == 0 {
		s.past = past{from: since, base: since}
	}
}

// upTo rounds up, within the bounds of a count.
func upTo(n float64) int64 { return int64(min(math.Ceil(n), float64(mostCount))) }

// Resize carries a part over to another number of gateways: it has the tokens that it had, and no more than the
// part holds. A part that there was not, or that was too small to be one, is empty.
func (s *Standing) Resize(p Params, at int64, from, to int) {
	if _, ok := p.Part(from); ok && from == to {
		return
	}
	filling := p.Filling()
	left := 0.0
	if _, had := p.Part(from); had || p.without&ruleSmall != 0 && from > 0 {
		left = (filling - float64(max(0, s.Full-at))) / float64(from)
	}
	if missing := math.Ceil(filling - left*float64(to)); missing > 0 {
		s.put(at, missing)
	}
}

// Rescale carries a part over to another rate and burst of its limit, or of the part. As much is spent, or of a smaller
// burst as large a share.
func (s *Standing) Rescale(at int64, fromRate, fromBurst, toRate, toBurst float64) {
	missing := float64(max(0, s.Full-at)) * fromRate / toRate * min(1, toBurst/fromBurst)
	s.put(at, math.Ceil(missing))
}

// put has the part be full so long after at. What was before is forgotten.
func (s *Standing) put(at int64, missing float64) {
	s.Full = at + int64(min(missing, float64(forever)))
	s.past = past{from: at, base: s.Full}
}

// Pause carries a part over a time in which its gateway, one of so many, had none. Owners may have counted the gateway
// as gone meanwhile, and their bucket, which was larger then, was refilled at the rate of the limit: as much is spent.
func (s *Standing) Pause(p Params, from, to int64, gateways int) {
	missing := float64(max(0, s.Full-from)) + float64(max(0, to-from))*float64(gateways)/partShare
	s.put(to, math.Ceil(min(missing, p.Filling())))
}

// AtLeast has a part be as much spent as the whole bucket is, or more.
func (s *Standing) AtLeast(p, part Params, at, spent int64) {
	of := float64(min(max(0, spent), p.Burst)) / float64(p.Burst) * float64(part.Burst)
	if d := int64(math.Ceil(of)); d > s.spent(part, at) {
		s.put(at, float64(part.time(d)))
	}
}

// Empty makes it a part that is empty at a time.
func (s *Standing) Empty(p Params, at int64) { s.put(at, math.Ceil(p.Filling())) }

// Away is a part that its owner has called.
type Away struct {
	Until    int64 // the gateway does not use it before
	State    Standing
	Gateways int    // by which the gateway divided when it gave the part
	Owner    uint64 // the life of the owner that it was given to
}

// Give takes in a call. given: the part is away already.
func (a *Away) Give(now int64, c *PartCall, s Standing, gateways int, given bool) {
	if !given {
		*a = Away{State: s, Gateways: gateways, Owner: c.Owner}
	}
	lease := min(c.Lease, mostLease)
	a.Until = max(a.Until, now+lease+lease/drift)
}

// Back is the part when the call has lapsed. What its owner has paid for is full then. But the call may have come so
// late that no owner has counted it: so the part has no more than if it had stayed here.
func (a *Away) Back() Standing {
	s := NewStanding(a.Until)
	if missing := a.State.Full - a.Until; missing > 0 {
		s.put(a.Until, float64(missing))
	}
	return s
}

// Answer answers a call of a part of a limit that is away. If the gateway has had no parts yet, nothing is spent of its
// part, however large it is; if they were too small, its size is 0.
func (a *Away) Answer(now int64, c *PartCall, p Params) PartAnswer {
	m := PartAnswer{Owner: c.Owner, At: c.At, Given: a.Owner}
	if a.Gateways == 0 {
		m.Size = p.Burst
	} else if part, ok := p.Part(a.Gateways); ok {
		m.Size, m.Spent = part.Burst, a.State.spent(part, now)
		m.Full = max(0, now-a.State.Full)
		a.State.past.report(part, now, &m)
	}
	return m
}
