package pacing

import "math"

// Sender is the rate mismatch controller as published, for any gain k_r:
//
//	d_c += r_old·dt                     (8), with the rate that was in force
//	y    = k_r·(d_c − d_e)              (10): what may go in this iteration
//	send whole packets while their sum ≤ y;  d_e += sum     (9)
//
// where d_c are the bytes due and d_e the bytes sent. d_c − d_e is kept as one number, so that it does not lose
// bytes after hours. k_r > 1 over-sends by design; the product uses the law at k_r = 1 (package
// control/pacing). The unit of sizes and rates is the caller's: bytes, or requests.
//
// Step serves an endless queue of packets of one size; for a queue of packets of many sizes call Allow once per
// iteration, and Sent with the size sent.
//
// Bad numbers: a time, rate, gain or size that is NaN or negative counts as 0; a rate or
// size below 1e-15 counts as 0, and anything above 1e15 as 1e15. The mismatch is held
// within ±1e30.
type Sender struct {
	// Gain is k_r ≥ 0. Stable for 0 < k_r < 2, dead-beat at 1; 0 sends nothing.
	Gain float64

	mismatch float64 // d_c − d_e
	rate     float64
}

const (
	// mostOwed bounds the mismatch, in units: a gain above 2 diverges.
	mostOwed = 1e30
	// tiny and huge bound sizes, gains, rates and times; a size or rate below tiny
	// counts as 0.
	tiny, huge = 1e-15, 1e15
	// slack absorbs the rounding of many small additions, in packets.
	slack = 1e-9
)

// Allow lets dt seconds pass, puts rate (units/s) in force and returns y, the units
// that may go in this iteration.
func (s *Sender) Allow(dt, rate float64) float64 {
	s.mismatch = min(s.mismatch+s.rate*min(positive(dt), huge), mostOwed)
	s.rate = min(positive(rate), huge)
	return max(0, min(positive(s.Gain), huge)*s.mismatch)
}

// Sent counts units that went.
func (s *Sender) Sent(units float64) { s.mismatch = max(s.mismatch-positive(units), -mostOwed) }

// Step is Allow and Sent for an endless queue of packets of the given size. It
// returns how many units went.
func (s *Sender) Step(dt, rate, size float64) float64 {
	sent := whole(s.Allow(dt, rate), size)
	s.Sent(sent)
	return sent
}

// Mismatch is d_c − d_e, the units owed; negative when too much was sent.
func (s *Sender) Mismatch() float64 { return s.mismatch }

// whole is the most units within y that are whole packets.
func whole(y, size float64) float64 {
	if size = usable(size); size == 0 {
		return 0
	}
	return math.Floor(y/size+slack) * size
}

// usable is a size or a rate as it is used: 0 below tiny, at most huge.
func usable(v float64) float64 {
	if !(v >= tiny) {
		return 0
	}
	return min(v, huge)
}

// positive maps NaN and negative numbers to 0 and +Inf to the largest number.
func positive(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, math.MaxFloat64)
}
