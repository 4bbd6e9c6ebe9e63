package drc

import "math"

// Sums are the claims on one key, summed over the other live replicas; its own part is
// left out.
type Sums struct {
	Claims      float64 // R: all claims, cost units/s
	Active      float64 // A: weights of the replicas that want more than they get
	Unsaturated float64 // U: claims of the replicas that get all they want, cost units/s
	// Absent is the weight of members that were cut off for longer than T2, whose claims
	// count no more. v_max·w/W is kept for each, since they may live on it.
	Absent float64
}

// Claim is the announcement of a replica for one key.
type Claim struct {
	Claim       float64 // R: the rate claimed, cost units/s
	Active      float64 // A: own weight when saturated, else 0
	Unsaturated float64 // U: the claim when unsaturated, else 0
}

// Isolation says that the controller's replica receives nothing from a majority of the
// weights (strict partition mode).
type Isolation uint8

const (
	// Connected is normal operation.
	Connected Isolation = iota
	// Frozen: cut off for less than T1. The rate in force stays at the last
	// claim that the others surely received: they go on counting it. See Isolate
	// for a replica that was not saturated.
	Frozen
	// Split: T1 has passed. As Frozen, and never above v_max·w/W.
	Split
	// Alone: T2 plus the clock skew has passed. The others now reserve v_max·w/W
	// for this replica, so it may use all of it.
	Alone
)

// DefaultGuarantee is the usual φ: a quarter of the static share at once.
const DefaultGuarantee = 0.25

// Params configures a Controller. Rates are in cost units per second, times in
// seconds. See the package comment for how bad numbers are read.
type Params struct {
	Rate        float64 // v_max, the limit that all replicas hold together; 0 admits nothing
	Weight      float64 // w of this replica; not positive: 1
	TotalWeight float64 // W, sum of the live weights with this one; raised to Weight if less
	Replicas    float64 // N, for the depth of the bucket; 0: W/w
	Guarantee   float64 // φ in [0,1]: part of v_max·w/W usable unannounced. 0 strict, 1 burst responsive
	Lag         float64 // δ = τ_max + P: after it every replica has received a published claim
	Period      float64 // P between two publications
	Bucket      float64 // B in cost units; 0: max(MinBucket, .05·v_max/N)
	MinBucket   float64 // least default depth; 0: 1
	MaxBacklog  float64 // S is clamped to this and the rest dropped; 0: unbounded
	Police      bool    // no queue: S is a virtual backlog that drains at 5/s into Dropped
}

// Controller is the chemical rate controller with announced claims. One per
// key and replica; a value without pointers.
//
//	symbol     identifier
//	E, ES, S   Enzyme
//	Dem, Td    dem, td    measured demand, cost units/s; over so many seconds
//	f, ct      fair; ct = min(v_max, f)
//	need       want
//	Claim, Act claim, active
//	Pub, M0,M1 heard      (announced)
//	Use = u    rate
type Controller struct {
	p         Params
	z         Enzyme
	heard     announced
	dem       float64
	td        float64 // window over which dem was last measured
	fair      float64
	want      float64
	claim     float64
	rate      float64
	dropped   float64
	frozen    float64 // the claim surely received before isolation
	active    bool
	isolation Isolation
}

// New returns a controller with a full bucket, no demand and nothing announced.
func New(p Params) Controller {
	var c Controller
	c.Configure(p)
	return c
}

// Configure installs new parameters: a limit, a share or a membership changed.
// It moves no mass; only when the depth of the bucket changes are E, ES and ET
// scaled by B'/B.
func (c *Controller) Configure(p Params) {
	c.p = p.normal()
	c.z.Resize(c.p.Bucket)
}

// normal returns p with every bad number replaced and every default filled in.
func (p Params) normal() Params {
	p.Rate = clean(p.Rate, maxQuantity)
	p.Weight = cleanWeight(p.Weight)
	p.TotalWeight = max(p.Weight, clean(p.TotalWeight, maxQuantity))
	p.Guarantee = clamp(p.Guarantee, 0, 1)
	p.Lag = clean(p.Lag, maxSeconds)
	p.Period = clean(p.Period, maxSeconds)
	p.MaxBacklog = clean(p.MaxBacklog, maxQuantity)
	if p.Replicas = clean(p.Replicas, maxQuantity); p.Replicas < 1 {
		p.Replicas = p.TotalWeight / p.Weight
	}
	if p.Bucket = clean(p.Bucket, maxQuantity); p.Bucket == 0 {
		p.Bucket = max(cleanWeight(p.MinBucket), 0.05*p.Rate/p.Replicas)
	}
	return p
}

// Step advances by h seconds with arrived cost units coming in, given the sums
// over the other live replicas, and returns the (fractional) cost released.
// Any h is stable; a key may be left alone and advanced on its next event.
func (c *Controller) Step(h, arrived float64, others Sums) (released float64) {
	h, arrived = clean(h, maxSeconds), clean(arrived, maxQuantity)
	others = c.reserve(others)
	c.measure(h, arrived, others)
	c.heard.advance(h, c.p.Lag)
	c.rate = c.inForce(others.Claims)
	if c.p.Rate == 0 {
		c.z.s += arrived // a closed limit does not even spend its bucket
	} else {
		released = c.z.Step(h, arrived, c.recharge(arrived))
	}
	c.police(h)
	return released
}

// mostRecharge bounds recharge, in rates in force: where so little of the bucket is spent,
// the enzyme's own proportion may finish.
const mostRecharge = 16

// recharge is the rate that the enzyme is stepped with, so that it recharges at u, the rate
// in force, until its bucket is nearly full. An enzyme recharges in proportion to what is
// spent. Where arrivals come by chance and few may wait, a part of the bucket is free much
// of the time. That part of the rate would be lost, 9 to 15 % of it at 3 to 10 requests/s. B
// − E with what may be spent in this step is at least as much as recharges, so at most u,
// and (1+ε)·u as before, is admitted:
//
//	rate = u·B / ((1+ε)·spent), from u to 16·u     spent = B − E + min(S + a, E)
func (c *Controller) recharge(arrived float64) float64 {
	spent := c.z.bucket - c.z.e + min(c.z.s+arrived, c.z.e)
	return c.rate * clamp(c.z.bucket/((1+epsilon)*spent), 1, mostRecharge)
}

// reserve returns the sums in range. Members that are absent count as claiming their part
// by weight, v_max·w/W, to which they fall back when they are cut off.
func (c *Controller) reserve(o Sums) Sums {
	kept := c.p.Rate * min(1, clean(o.Absent, maxQuantity)/c.p.TotalWeight)
	return Sums{
		Claims:      clean(o.Claims, maxQuantity) + kept,
		Active:      clean(o.Active, maxQuantity),
		Unsaturated: clean(o.Unsaturated, maxQuantity) + kept,
	}
}

// measure updates demand, fair share and claim. The demand filter is written
// without arrived/h, so that h = 0 needs no exception.
func (c *Controller) measure(h, arrived float64, o Sums) {
	w := c.p.Weight
	c.fair = w * max(c.p.Rate-o.Unsaturated, 0) / (o.Active + w)
	ct := min(c.p.Rate, c.fair)
	c.td = c.window(ct)
	c.dem = max(0, c.dem+(arrived-c.dem*h)/(c.td+h))
	c.want = c.dem + max(0, c.z.s-0.05*c.rate)/c.workOff(ct)
	c.active = c.want >= ct
	c.claim = min(c.want, ct)
}

// workOff is ts, the seconds in which a claim asks to have the backlog worked off, and at
// least the time of one request of this replica. Of a share of 1/s, one request that waits
// would else be a claim of 10/s more, and leave the others without what it does not use.
func (c *Controller) workOff(ct float64) float64 {
	part := min(ct, c.p.Rate*c.p.Weight/c.p.TotalWeight)
	return max(0.1, c.p.Lag-c.p.Period, min(1/part, mostWorkOff))
}

// mostWorkOff bounds workOff, seconds: by how late a limit of less than 0.1/s may ask.
const mostWorkOff = 10

// window is Td, the seconds over which demand is measured: the time of about fifty
// requests of this replica, or of its static share where it asks for less. The time of
// fifty requests at ct, the rate it might have, would be too short while others leave much
// unused. The claim would follow every bunch of arrivals, and its announced minimum the
// window with the fewest.
func (c *Controller) window(ct float64) float64 {
	share := c.p.Rate * c.p.Weight / c.p.TotalWeight
	return clamp(50/min(ct, max(c.dem, share)), max(0.05, c.p.Period), 1)
}

// deviation is three standard deviations of a measured demand of lm: the measurement is a
// mean over Td of requests that arrive one by one. So its variance is lm/(2·Td). The
// announced minimum is the lowest of such means in two lags. Limited to 1.5 times that
// minimum, a replica that asks for 50/s of a share of 100/s while the others are
// saturated has 2 to 4 % refused. On average the replica does not exceed its claim, which
// is its mean demand.
func (c *Controller) deviation(lm float64) float64 {
	if c.td == 0 {
		return 0
	}
	return 3 * math.Sqrt(lm/(2*c.td))
}

// inForce returns u, the rate in force: what was announced before (lm), and what needs no
// announcement. That is this replica's part of the unclaimed rest, 1.5 times lm with three
// standard deviations of the measurement, or the guaranteed share. An isolated replica is
// not held to its fair share. The sums are old, and where the others had claimed all of the
// limit they cannot receive the claim of this replica on a part of it.
func (c *Controller) inForce(claims float64) float64 {
	ct := min(c.p.Rate, c.fair)
	share := c.p.Rate * c.p.Weight / c.p.TotalWeight
	least := c.p.Guarantee * share
	switch c.isolation {
	case Frozen:
		return min(c.p.Rate, max(c.frozen, least))
	case Split:
		return min(c.p.Rate, share, max(c.frozen, least))
	case Alone:
		return min(c.p.Rate, share)
	}
	lm := c.counted()
	rest := max(0, c.p.Rate-claims-c.heard.pub) * c.p.Weight / c.p.TotalWeight
	return min(ct, max(lm+rest, 1.5*lm+c.deviation(lm), least))
}

// longestMean is the lag up to which counted is a mean, seconds.
const longestMean = 0.5

// counted is lm, what the others have surely counted for this replica: the announced
// minimum. Of a replica that gets all it wants it is the announced mean, if that is more and
// the lag is short. Its claims follow chance, and their minimum is a rate that it does not
// have.
func (c *Controller) counted() float64 {
	least := c.heard.least()
	if c.active || c.p.Lag > longestMean {
		return least
	}
	return max(least, c.heard.mean())
}

// police drains the virtual backlog of a controller without a queue and
// enforces MaxBacklog.
func (c *Controller) police(h float64) {
	const kd = 5 // 1/s
	drop := 0.0
	if c.p.Police {
		drop = c.z.s * h * kd / (1 + h*kd)
	}
	if limit := c.p.MaxBacklog; limit > 0 {
		drop = max(drop, c.z.s-limit)
	}
	c.dropped += c.z.Remove(drop)
}

// Publish returns the claim to gossip now; it counts as announced from then on. Call it
// every Period.
func (c *Controller) Publish() Claim {
	c.heard.publish(c.claim)
	if c.active {
		return Claim{Claim: c.claim, Active: c.p.Weight}
	}
	return Claim{Claim: c.claim, Unsaturated: c.claim}
}

// Isolate sets the partition mode. The argument is the last own claim that the others surely
// have: acknowledged, or published more than a lag before they became unreachable. If it is
// negative or NaN, it is what the others have counted as of now. An unsaturated replica may
// use 1.5 times that and three standard deviations of its measurement, as when it is
// connected. Its claim is a mean, and a rate limited to the mean of a random demand would
// refuse much of it. The argument matters only in the step from Connected; a longer isolation
// keeps it.
func (c *Controller) Isolate(mode Isolation, heard float64) {
	if c.isolation == Connected && mode != Connected {
		c.frozen = c.counted()
		if !c.active { // a need fluctuates about its claim; as when connected
			c.frozen = 1.5*c.frozen + c.deviation(c.frozen)
		}
		if heard >= 0 {
			c.frozen = min(heard, maxQuantity)
		}
	}
	c.isolation = mode
}

// Free returns E, the cost that could pass at once.
func (c *Controller) Free() float64 { return c.z.e }

// Backlog returns S, the cost that waits (virtually, when policing).
func (c *Controller) Backlog() float64 { return c.z.s }

// Remove removes cost that will not be served (abort, deadline, AQM drop) from the
// backlog and returns what it removed, never more than the backlog. Otherwise the
// controller would release credit for work that no longer exists.
func (c *Controller) Remove(cost float64) float64 {
	r := c.z.Remove(cost)
	c.dropped += r
	return r
}

// Dropped returns all cost that left the backlog unserved: arrivals = released
// + Backlog + Dropped.
func (c *Controller) Dropped() float64 { return c.dropped }

// Rate returns u, the rate in force since the last Step, cost units/s.
func (c *Controller) Rate() float64 { return c.rate }

// Fair returns f, the weighted max-min share by the sums last received.
func (c *Controller) Fair() float64 { return c.fair }

// Want returns the demand with the backlog to be worked off, cost units/s.
func (c *Controller) Want() float64 { return c.want }

// Enzyme returns a copy of the bucket's state, for inspection.
func (c *Controller) Enzyme() Enzyme { return c.z }

// Params returns the parameters in force, with defaults filled in.
func (c *Controller) Params() Params { return c.p }
