// Package capacity estimates what a pool can serve and turns it into the
// capacity that is shared out: the outer loop around an exact allocator.
//
// # Model
//
// An upstream serves at an unknown, changing rate μ. Every interval T shows the cost that
// it served, and q, the cost that waits *behind* the limiter (in flight − μ·RTT₀, or
// requests that wait for a concurrency slot). Never feed the limiter's own queue: that
// measures unmet demand, and a loop on it pins the pool at .19–.43 of its capacity.
//
// [Measured] is the law for one such pool, and [Upstream] feeds it with what gateways
// see of the answers. papers/maxmin compares Measured with the proportional-integral
// law of Ryu, Cho and Chong for a known μ.
//
// # Invariants
//
//   - Floor ≤ capacity ≤ 1.2·Max (Max wins); 0 < estimate ≤ Max.
//   - Load below the capacity moves no estimate.
//   - No step allocates; each is O(1).
//
// # Bad numbers
//
// Measurements, rates and floors that are NaN or negative count as 0, above 1e15 as
// that. A period below 1 µs counts as 0.25 s, a delay below 0 as 0. A pool
// of Max 0 has no capacity and is given none.
package capacity

import "math"

// Measured is the measured-service loop MS(r), run each T seconds:
//
//	S   = served/T;  qT = max(.02·ĉ, 3);  aP = .7·sin(π/(2(2d+1)))
//	q > .25·qT and q' > .25·qT : ĉ += r·(S − ĉ)    the pool is busy: S is its rate
//	else q > qT                : ĉ  = min(ĉ, S)     a queue has just formed
//	else binding               : ĉ  = min(1.03·ĉ, μmax)   limited by us: grow
//	c = clip(ĉ − aP/T·max(q − qT, −qT), Σm, 1.2·μmax);  q' = q
//
//	symbol   here                 symbol  here
//	r, T, d  Gain, Period, Delay  ĉ, q'   estimate, queued
//	μmax     Max                  Σm      floor (argument)
type Measured struct {
	// Period is T in seconds, > 0, default 0.25; ≤ 0.25 where μ is unknown.
	Period float64
	// Delay is d, the rounds until a new capacity shows in q; ≥ 0. Larger is
	// slower and survives more delay.
	Delay int
	// Max is μmax in units/s, > 0: no estimate exceeds it.
	Max float64
	// Gain is r in (0,1]; 0 means 0.5. Larger follows μ faster and noise too.
	Gain float64

	estimate, queued float64
}

// Start sets the estimate, in units/s: the configured capacity, or the
// estimate that agents echo after a failover. It is brought into (0, Max].
func (m *Measured) Start(estimate float64) { m.estimate = m.bound(estimate) }

// Estimate is ĉ, what the pool is believed to serve, in units/s.
func (m *Measured) Estimate() float64 { return m.estimate }

// Observation holds the measurements of one period.
type Observation struct {
	Served  float64 // cost served in the period
	Queued  float64 // cost waiting behind the limiter at its end
	Binding bool    // shares, not demand, limited the load
}

// Step adds one period's observation and returns the capacity to share in the
// next, at least floor (Σ of the guarantees, units/s) and at most 1.2·Max.
func (m *Measured) Step(o Observation, floor float64) float64 {
	if m.estimate == 0 {
		m.Start(m.Max)
	}
	t := seconds(m.Period)
	rate, q := sane(o.Served)/t, sane(o.Queued)
	target := max(0.02*m.estimate, 3)
	switch {
	case q > 0.25*target && m.queued > 0.25*target:
		m.estimate += m.gain() * (rate - m.estimate)
	case q > target:
		m.estimate = min(m.estimate, rate)
	case o.Binding:
		m.estimate *= 1.03
	}
	m.estimate, m.queued = m.bound(m.estimate), q
	drain := 0.7 * math.Sin(math.Pi/(2*(2*float64(max(m.Delay, 0))+1)))
	c := m.estimate - drain/t*max(q-target, -target)
	return min(max(c, sane(floor)), 1.2*sane(m.Max))
}

// bound brings an estimate into (0, Max]: a pool that has served nothing keeps
// a thousandth of Max, or its estimate could never grow again.
func (m *Measured) bound(estimate float64) float64 {
	most := sane(m.Max)
	return min(max(sane(estimate), 1e-3*most), most)
}

// gain is r.
func (m *Measured) gain() float64 {
	if !(m.Gain > 0 && m.Gain <= 1) {
		return 0.5
	}
	return m.Gain
}

// seconds is a period as it is used.
func seconds(period float64) float64 {
	if !(period >= 1e-6) {
		return 0.25
	}
	return min(period, 1e9)
}

// sane maps NaN and negative numbers to 0 and bounds the rest.
func sane(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, 1e15)
}
