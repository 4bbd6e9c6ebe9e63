package allocation

import (
	"math"
	"time"
)

// estimate is an unbiased mean of a rate that is sampled in windows.
//
//	σ² = D·mean/h    of a window of length h: a Poisson stream's, times dispersion
//	mean jumps to the sample when it is beyond 4σ, or twice running beyond 2.5σ
//	otherwise mean += g·(sample − mean), g = max(1/n, 1 − e^(−dt/τ))
//	D += .05·(min((sample − mean)²/σ², 16)·D − D), D ≥ 1
//
// n counts samples since the last jump. A mean that leaned to one side, rising
// fast and falling slowly, would reserve capacity that nobody uses.
type estimate struct {
	mean       float64 // units/s
	dispersion float64
	samples    int
	streak     int     // significant samples in a row, signed by their side
	pending    float64 // the first sample of the streak
}

const (
	jumpSigma   = 4
	streakSigma = 2.5
	spreadGain  = .05
)

// observe takes a sample, the mean rate of a window of length span; dt is the
// time since the last sample. It reports whether the mean jumped.
func (e *estimate) observe(sample float64, span, dt, tau time.Duration) bool {
	if e.samples == 0 {
		*e = estimate{mean: sample, dispersion: 1, samples: 1}
		return sample > 0
	}
	h := span.Seconds()
	sigma := math.Sqrt(e.dispersion * math.Max(e.mean, 1/h) / h)
	gap := (sample - e.mean) / sigma
	e.dispersion = math.Max(1, e.dispersion*(1+spreadGain*(math.Min(gap*gap, jumpSigma*jumpSigma)-1)))
	if e.significant(gap, sample) {
		return true
	}
	e.samples++
	gain := math.Max(1/float64(e.samples), -math.Expm1(-dt.Seconds()/tau.Seconds()))
	e.mean += gain * (sample - e.mean)
	return false
}

// significant tells whether the mean changed, and moves it if so.
func (e *estimate) significant(gap, sample float64) bool {
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

func (e *estimate) jump(to float64) {
	e.mean, e.samples, e.streak = to, 1, 0
}

// deviation is the standard deviation of what arrives in one second, units/s.
func (e *estimate) deviation() float64 { return math.Sqrt(math.Max(e.dispersion, 1) * e.mean) }
