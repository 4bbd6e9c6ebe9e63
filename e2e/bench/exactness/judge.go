package exactness

import (
	"math"
	"time"

	"github.com/titrate/titrate/lab/judge"
)

// arrival is a request at its gateway, since the start of the run.
type arrival struct {
	t        time.Duration
	admitted bool
}

// limit is a token bucket's.
type limit struct{ rate, burst float64 }

// regime is the limit over a run: another one from changed on.
type regime struct {
	before, after limit
	changed       time.Duration // never: no other one
}

// never changes a limit: after all runs.
const never = math.MaxInt64 - settling

// settling is the time after a change in which nothing is judged.
const settling = time.Second

// settled reports whether a time is judged.
func (r regime) settled(t time.Duration) bool { return t < r.changed || t >= r.changed+settling }

// bucket is one token bucket for all gateways that follows the change; room is its capacity beyond the burst.
type bucket struct {
	judge.Bucket
	regime
	room float64
}

func (r regime) bucket(room float64) *bucket {
	return &bucket{judge.Bucket{Rate: r.before.rate, Burst: r.before.burst + room}, r, room}
}

// take reports whether a request at time t conforms, and then charges it.
func (b *bucket) take(t time.Duration) bool {
	if t >= b.changed {
		b.Set(b.changed, b.after.rate, b.after.burst+b.room)
		b.changed = never
	}
	return b.Take(t, 1)
}

// Figures are the judged figures of a cell.
type Figures struct {
	Mean     float64 `json:"mean"`     // admitted above, over the admitted of one token bucket
	Excess   float64 `json:"excess"`   // requests, of both clients the worst
	Sliding  float64 `json:"sliding"`  // most in a second, over the rate
	Wrongful float64 `json:"wrongful"` // part of the requests below
	Failed   int     `json:"failed"`
}

// above judges the client that asks for too much; arrivals are in order of time.
func (f *Figures) above(r regime, arrivals []arrival) {
	bucket := r.bucket(1)
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
	bucket := r.bucket(0)
	var refused float64
	for _, a := range arrivals {
		if bucket.take(a.t) && !a.admitted && r.settled(a.t) {
			refused++
		}
	}
	f.Wrongful = refused / float64(max(len(arrivals), 1))
	f.worst(r, arrivals)
}

// worst follows the worst excess of all windows. They do not span a change.
func (f *Figures) worst(r regime, arrivals []arrival) {
	level := judge.Level{Rate: r.before.rate, Burst: r.before.burst}
	changed := false
	for _, a := range arrivals {
		if !a.admitted || !r.settled(a.t) {
			continue
		}
		if !changed && a.t >= r.changed {
			level, changed = judge.Level{Rate: r.after.rate, Burst: r.after.burst}, true
		}
		f.Excess = max(f.Excess, level.Admit(a.t, 1))
	}
}

// sliding is the most that was admitted in a second, before a change, over the
// rate.
func sliding(r regime, arrivals []arrival) (most float64) {
	second := judge.Window{Width: time.Second}
	for _, a := range arrivals {
		if a.admitted && a.t < r.changed {
			most = max(most, second.Admit(a.t, 1)/r.before.rate)
		}
	}
	return most
}
