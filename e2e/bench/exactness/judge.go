package exactness

import "math"

// arrival is a request at its gateway, in seconds of the run.
type arrival struct {
	t        float64
	admitted bool
}

// limit is a token bucket's.
type limit struct{ rate, burst float64 }

// regime is the limit over a run: another one from changed on.
type regime struct {
	before, after limit
	changed       float64 // s; +Inf: never
}

// settling is how long after a change nothing is judged, in seconds.
const settling = 1

func (r regime) at(t float64) limit {
	if t < r.changed {
		return r.before
	}
	return r.after
}

// settled tells whether a time is judged.
func (r regime) settled(t float64) bool { return t < r.changed || t >= r.changed+settling }

// ideal is one token bucket for all gateways.
type ideal struct {
	regime
	room        float64 // that it has beyond the burst
	spent, last float64
}

// take tells whether a request at time t conforms, and then charges it. Times
// must not decrease.
func (b *ideal) take(t float64) bool {
	l := b.at(t)
	b.spent = min(max(0, b.spent-l.rate*(t-b.last)), l.burst+b.room)
	b.last = t
	if b.spent+1 > l.burst+b.room+1e-6 {
		return false
	}
	b.spent++
	return true
}

// Figures are what is judged of a cell.
type Figures struct {
	Mean     float64 `json:"mean"`     // admitted above, over what the rate allows
	Excess   float64 `json:"excess"`   // requests, of both clients the worst
	Sliding  float64 `json:"sliding"`  // most in a second, over the rate
	Wrongful float64 `json:"wrongful"` // part of the requests below
	Failed   int     `json:"failed"`
}

// above judges the client that asks for too much; arrivals are in order of time.
func (f *Figures) above(r regime, arrivals []arrival) {
	bucket := ideal{regime: r, room: 1}
	var admitted, should float64
	for _, a := range arrivals {
		if bucket.take(a.t) {
			should++
		}
		if a.admitted {
			admitted++
		}
	}
	f.Mean = admitted / should
	f.worst(r, arrivals)
	f.Sliding = sliding(r, arrivals)
}

// below judges the client that asks for little enough.
func (f *Figures) below(r regime, arrivals []arrival) {
	bucket := ideal{regime: r}
	var refused float64
	for _, a := range arrivals {
		if bucket.take(a.t) && !a.admitted && r.settled(a.t) {
			refused++
		}
	}
	f.Wrongful = refused / float64(max(len(arrivals), 1))
	f.worst(r, arrivals)
}

// worst follows the worst excess of all windows with one number, the level of a
// bucket without a rim: level ← max(0, level − rate·dt) + 1; excess = level − burst.
func (f *Figures) worst(r regime, arrivals []arrival) {
	level, last := 0.0, math.Inf(-1)
	for _, a := range arrivals {
		if !a.admitted || !r.settled(a.t) {
			continue
		}
		l := r.at(a.t)
		if last < r.changed && a.t >= r.changed {
			level = 0 // windows do not span a change
		}
		level = max(0, level-l.rate*(a.t-last)) + 1
		last = a.t
		f.Excess = max(f.Excess, level-l.burst)
	}
}

// sliding is the most that was admitted in a second, before a change, over the
// rate.
func sliding(r regime, arrivals []arrival) float64 {
	var times []float64
	best, first := 0, 0
	for _, a := range arrivals {
		if !a.admitted || a.t >= r.changed {
			continue
		}
		times = append(times, a.t)
		for times[first] <= a.t-1 {
			first++
		}
		best = max(best, len(times)-first)
	}
	return float64(best) / r.before.rate
}
