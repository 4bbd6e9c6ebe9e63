package rmc

import "math"

// Sender is the rate mismatch controller as published, for any gain k_r:
//
//	d_c += r_old·dt                     (8), with the rate that was in force
//	y    = k_r·(d_c − d_e)              (10): what may go in this iteration
//	send whole packets while their sum ≤ y;  d_e += sum     (9)
//
// It exists to study the law. d_c − d_e is kept as one number, so that it does
// not lose bytes after hours. k_r > 1 over-sends by design: the limiter uses
// [Pacer]. The size unit is the caller's: bytes, or requests.
type Sender struct {
	// Gain is k_r. Stable for 0 < k_r < 2, dead-beat at 1; 0 sends nothing.
	Gain float64

	mismatch float64 // d_c − d_e
	rate     float64
}

// Step lets dt seconds pass, puts rate (units/s) in force and sends packets of
// the given size from an endless queue. It returns how many units went.
func (s *Sender) Step(dt, rate, size float64) float64 {
	s.mismatch += s.rate * positive(dt)
	s.rate = math.Min(positive(rate), MaxRate)
	if !(size > 0) {
		return 0
	}
	allowed := s.Gain * s.mismatch
	if !(allowed > 0) {
		return 0
	}
	sent := math.Floor(allowed/size+slack) * size
	s.mismatch -= sent
	return sent
}

// Mismatch is d_c − d_e, the units owed.
func (s *Sender) Mismatch() float64 { return s.mismatch }

// Loop is one of the send loops that the paper compares: what happens each
// time the sender wakes.
type Loop interface {
	// Wake is called at time now (s) with the commanded rate (units/s) and
	// the packet size; it returns the units sent and the time in seconds to
	// sleep for, before the operating system's error.
	Wake(now, rate, size float64) (sent, sleep float64)
}

// RFC3448NoBurst sends one packet per wake-up and sleeps t_ipi = size/rate, at
// least the timer granularity: its error has nothing to cancel it, and beyond
// size/Granularity it cannot go any faster.
type RFC3448NoBurst struct{ Granularity float64 }

// Wake sends one packet.
func (l RFC3448NoBurst) Wake(_, rate, size float64) (sent, sleep float64) {
	if !(rate > 0 && size > 0) {
		return 0, l.Granularity
	}
	return size, math.Max(size/rate, l.Granularity)
}

// RFC3448Burst is the paper's reading of the RFC with bursts: when t_ipi is
// below the granularity t_g it sends a burst b = rate·t_g (whole packets, at
// least one) and sleeps t_g. Every late wake-up is lost for good.
type RFC3448Burst struct{ Granularity float64 }

// Wake sends one packet or a burst.
func (l RFC3448Burst) Wake(_, rate, size float64) (sent, sleep float64) {
	if !(rate > 0 && size > 0) {
		return 0, l.Granularity
	}
	if gap := size / rate; gap >= l.Granularity {
		return size, gap
	}
	return math.Max(1, math.Floor(rate*l.Granularity/size+slack)) * size, l.Granularity
}

// RFC3448Nominal is the rule that RFC 3448 §4.6 actually states: a nominal
// send time t_nom advances by t_ipi per packet, whatever the real time was, so
// a late wake-up is made up for. It is as accurate as the paper's controller.
type RFC3448Nominal struct {
	Granularity float64

	next    float64 // t_nom of the next packet
	started bool
}

// Wake sends every packet whose nominal time, less half the granularity, has
// come.
func (l *RFC3448Nominal) Wake(now, rate, size float64) (sent, sleep float64) {
	if !(rate > 0 && size > 0) {
		return 0, l.Granularity
	}
	if !l.started {
		l.started, l.next = true, now
	}
	gap, due := size/rate, now+l.Granularity/2
	if n := math.Floor((due - l.next) / gap); n >= 0 {
		sent = (n + 1) * size
		l.next += (n + 1) * gap
	}
	return sent, math.Max(l.next-now, l.Granularity)
}

// Controlled is the paper's send loop around a [Sender]: wake every Period.
type Controlled struct {
	Sender
	// Period is T_s in seconds.
	Period float64

	last    float64
	started bool
}

// Wake sends what the controller allows.
func (l *Controlled) Wake(now, rate, size float64) (sent, sleep float64) {
	dt := now - l.last
	if !l.started {
		dt = 0
	}
	l.last, l.started = now, true
	return l.Step(dt, rate, size), l.Period
}
