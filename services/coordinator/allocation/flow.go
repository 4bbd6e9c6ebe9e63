package allocation

import (
	"math"
	"time"
)

// Bound names the rule that limits a share.
type Bound uint8

// The bounds.
const (
	ByDemand    Bound = iota + 1 // the flow has all that it asks for
	ByGuarantee                  // the flow has its guarantee and no more
	ByMax                        // the flow has its maximum
	ByPool                       // the pool is full: the flow has its fair share
)

// Lease is the share of a flow as agents were sent it. The publisher keeps it.
type Lease struct {
	Flow
	Share     float64
	Demand    float64 // measured then
	Bound     Bound
	Published time.Duration // when, on the publisher's clock
	Round     uint64        // in which Share changed last; 0: it was not published yet
}

// flow is the allocator's state of one flow.
type flow struct {
	key      Flow
	settings settings
	demand   estimate
	admitted float64   // smoothed over admittedSmoothing, units/s
	waiting  float64   // units
	limited  bool      // in the last windows
	arrived  time.Time // last arrival
	gone     bool      // the allocator has forgotten it
	epoch    int64     // of the leader whose estimate this one continues
	agents   int       // with a recent report of the flow
	lease    Lease

	// Since the flow is known, units: what was admitted, and what its guarantee entitled it to.
	admittedCost, guaranteedCost float64

	share float64 // in this round, units/s
	bound Bound

	reported usageNow
}

// usageNow is the sum of all agents' reports of a flow for this round, units/s and units.
type usageNow struct {
	demand, served, waiting float64
	limited                 bool
	marked, refused         float64
}

// admittedSmoothing is the time constant of what OFF flows are served, which comes off the capacity.
const admittedSmoothing = 500 * time.Millisecond

// add takes what one agent reported.
func (f *flow) add(e *entry) {
	f.agents++
	f.reported.demand += e.rate.demand
	f.reported.served += e.rate.served
	f.reported.waiting += e.waiting
	f.reported.limited = f.reported.limited || e.rate.limited
	f.reported.marked += e.rate.marked
	f.reported.refused += e.rate.refused
}

// update takes the sums over windows of length span.
func (f *flow) update(now time.Time, span time.Duration, p *Params) {
	in := &f.reported
	if in.demand > 0 || in.waiting > 0 {
		f.arrived = now
	}
	f.waiting, f.limited = in.waiting, in.limited
	g := gain(span, admittedSmoothing)
	if f.demand.observe(in.demand, span, p.Smoothing) {
		g = 1
	}
	f.admitted += g * (in.served - f.admitted)
	f.admittedCost += in.served * span.Seconds()
	f.guaranteedCost += math.Min(f.demand.mean, math.Min(f.settings.guaranteed, f.settings.max)) * span.Seconds()
}

// await notes the sums while the flow's demand is still collected: they are part of it only, as not
// all agents report yet.
func (f *flow) await(now time.Time) {
	if f.reported.demand > 0 || f.reported.waiting > 0 {
		f.arrived = now
	}
}

// queueRate is the rate that serves the flow's queue within the drain time, units/s.
func (f *flow) queueRate(p *Params) float64 { return f.waiting / p.Drain.Seconds() }

// gain is the weight of a new sample in an exponential mean with time constant tau.
func gain(dt, tau time.Duration) float64 { return -math.Expm1(-dt.Seconds() / tau.Seconds()) }
