package allocation

import (
	"math"
	"time"
)

// estimate is an unbiased mean of a rate that is sampled in windows.
//
//	σ² = D·mean/h    of a window of h seconds: that of a Poisson stream times the dispersion D
//	mean jumps to the sample that differs by more than 4σ, or twice in a row by more than 2.5σ
//	otherwise mean += g·(sample − mean), g = max(1/n, 1 − e^(−h/τ))
//	D += .05·(min((sample − mean)²/σ², 16)·D − D), D ≥ 1
//
// n counts samples since the last jump. The gain is by the length of the window and not by the time since the last one.
// A coordinator that stood still for seconds has one short window then, which says little. The mean has no bias: a mean
// that rises fast and falls slowly would reserve capacity that nobody uses.
type estimate struct {
	mean       float64 // units/s
	dispersion float64
	samples    int
	resumed    bool    // from an earlier leader, and nothing was added since
	streak     int     // significant samples in a row, signed by their side
	pending    float64 // the first sample of the streak
}

const (
	jumpSigma      = 4
	streakSigma    = 2.5
	dispersionGain = .05
)

// observe adds a sample, the mean rate of a window of length span. It reports whether the mean jumped.
func (e *estimate) observe(sample float64, span, tau time.Duration) (jumped bool) {
	if e.samples == 0 {
		*e = estimate{mean: sample, dispersion: 1, samples: 1}
		return sample > 0
	}
	h := span.Seconds()
	sigma := math.Sqrt(e.dispersion * math.Max(e.mean, 1/h) / h)
	gap := (sample - e.mean) / sigma
	e.dispersion = math.Max(1, e.dispersion*(1+dispersionGain*(math.Min(gap*gap, jumpSigma*jumpSigma)-1)))
	if e.jumps(gap, sample) {
		return true
	}
	e.samples++
	g := gain(span, tau)
	if e.resumed { // the first window of a leader is long, but one among the samples before it
		g, e.resumed = 0, false
	}
	e.mean += math.Max(1/float64(e.samples), g) * (sample - e.mean)
	return false
}

// jumps reports whether the sample shows that the rate has changed, and then moves the mean.
func (e *estimate) jumps(gap, sample float64) bool {
	if gap > jumpSigma {
		e.jump(sample)
		return true
	}
	side := 0
	if math.Abs(gap) > streakSigma {
		side = int(math.Copysign(1, gap))
	}
	if side != 0 && e.streak == side {
		e.jump((sample + e.pending) / 2)
		return true
	}
	e.streak, e.pending = side, sample
	return false
}

// variance returns the variance of the arrivals in one second, (units/s)².
func (e *estimate) variance() float64 { return e.dispersion * e.mean }

func (e *estimate) jump(to float64) {
	e.mean, e.samples, e.streak = to, 1, 0
}
