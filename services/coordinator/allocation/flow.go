package allocation

import (
	"math"
	"time"
)

// Bound is what holds a share where it is.
type Bound uint8

// The bounds.
const (
	ByDemand    Bound = iota + 1 // it has all that it asks for
	ByGuarantee                  // it has its guarantee and no more
	ByMax                        // it has its maximum
	ByPool                       // the pool is full: its fair share
)

// flow is what the loop remembers of one flow.
type flow struct {
	key      Flow
	demand   estimate
	admitted float64 // smoothed over admittedSmoothing, units/s
	waiting  float64 // units
	limited  bool    // in the last windows
	arrived  time.Time
	probe    probe
	terms    terms

	share float64 // leased in the last round, units/s
	bound Bound

	// Sums over agents while a round is gathered.
	sample, out, queued float64
	held                bool
}

// admittedSmoothing is short: it tells whether a share just given is used.
const admittedSmoothing = 500 * time.Millisecond

// update takes the windows that were gathered: span long, dt after the last.
func (f *flow) update(now time.Time, span, dt time.Duration, p *Params) {
	if f.sample > 0 || f.queued > 0 {
		f.arrived = now
	}
	f.waiting, f.limited = f.queued, f.held
	jumped := f.demand.observe(f.sample, span, dt, p.Smoothing)
	gain := -math.Expm1(-dt.Seconds() / admittedSmoothing.Seconds())
	if jumped {
		gain = 1
		f.probe = probe{}
	}
	f.admitted += gain * (f.out - f.admitted)
	f.probe.step(f.admitted, f.share, f.limited, f.bound == ByPool || f.bound == ByGuarantee)
}

// drain is what is to be served on top of demand so that the queue goes, units/s.
func (f *flow) drain(p *Params) float64 { return f.waiting / p.Drain.Seconds() }
