// Package pacing turns a rate into decisions "this request goes now": a pacer whose
// mean rate is exact, however late or uneven the ticks are that drive it.
//
// # Model
//
// The rate mismatch controller of De Cicco and Mascolo integrates the
// commanded rate, d_c = ∫r dt, counts what was sent, d_e, and at each tick
// releases k_r·(d_c − d_e). Its pole is 1 − k_r, so it is stable for
// 0 < k_r < 2; with k_r = 1 it is dead-beat: below 1 it lags permanently by
// r·T_s·(1/k_r − 1), above 1 it over-sends. A limiter therefore uses k_r = 1,
// and then only the difference matters: [Pacer] keeps the one number
// Cred = d_c − d_e, which stays small where two accumulators would lose
// precision. The controller for any k_r and the loops of RFC 3448 that the paper
// compares it with are for study and outside of control/, in papers/pacing.
//
//	Cred += r_old·dt ; r_old = r       (7), (8) with the rate that was in force
//	send a request of cost c if Cred ≥ c, then Cred −= c          (9), (10)
//
// # Corrections to the paper
//
// (8) applies the new rate to the interval that has passed; the pacer applies
// the old one. Algorithm 2 dequeues and then breaks, which loses a packet, and
// compares with < where ≤ is meant; Take decides before anything is dequeued.
// The paper's accumulators grow without bound; the credit is bounded.
//
// # Invariants
//
//   - While backlogged and not stalled, 0 ≤ owed − sent < the cost of the
//     request at the head (one request at cost 1); the fraction is carried
//     exactly, never rounded per tick.
//   - An idle pacer holds at most max(1, r·Burst); after a stall at most that
//     much more than the head needs. A fall of the rate clamps at once.
//   - Time runs without drift: the error after 10⁷ steps is the error of one step.
//
// # Bad numbers
//
// A NaN or negative time, rate or cost counts as 0, an infinite
// or larger rate as MaxRate, an infinite burst as MaxBurst. At rate 0 nothing is
// released.
//
// # Cost
//
// Every operation is O(1), allocates nothing and reads no clock: time is
// passed in, in float seconds.
package pacing

import "math"

// DefaultBurst is the burst time of a zero Pacer, in seconds: how much unused
// credit is kept through idleness or a stalled ticker. Larger forgives longer
// stalls, smaller keeps the output smoother.
const DefaultBurst = 0.05

// MaxBurst bounds the burst time, in seconds.
const MaxBurst = 1e6

// MaxRate bounds the commanded rate, in cost units per second. It keeps
// infinite rates from turning the credit into NaN.
const MaxRate = 1e15

// slack absorbs the rounding of many small additions, so that ten tenths pay
// for one request. It is relative to max(1, cost).
const slack = 1e-9

// Pacer is the rate mismatch controller at k_r = 1, reduced to its one state
// variable. The zero value is an idle pacer at rate 0 with DefaultBurst. It is
// a plain value: copy it, embed it, keep it in tables. Not safe for concurrent
// use.
type Pacer struct {
	// Burst is the time T_burst in seconds for which unused credit is kept.
	// Range (0, MaxBurst]; 0, negative and NaN mean DefaultBurst.
	Burst float64

	credit float64 // d_c − d_e, cost units; negative while in debt
	rate   float64 // the rate in force since the last Advance, units/s
	need   float64 // cost of the refused head; 0 when nothing waits
}

// Advance lets dt seconds pass at the rate that was in force, then puts rate
// (cost units per second) in force. Credit beyond the ceiling is forgotten.
func (p *Pacer) Advance(dt, rate float64) {
	p.credit += p.rate * positive(dt)
	p.rate = min(positive(rate), MaxRate)
	p.clamp()
}

// Add hands over credit that a controller has released, in cost units. It is
// how a law that already integrates its own rate (a DRC) feeds the pacer; such
// a caller leaves the rate at 0.
func (p *Pacer) Add(credit float64) {
	p.credit += positive(credit)
	p.clamp()
}

// Take pays for a request of the given cost if the credit covers it and
// reports whether it did. A refusal is remembered: the pacer is then
// backlogged and saves for that cost, however large, until a Take succeeds or
// Idle is called.
func (p *Pacer) Take(cost float64) bool {
	if !p.Affords(cost) {
		return false
	}
	p.credit -= positive(cost)
	return true
}

// Affords reports whether Take would release cost now, and takes nothing. A cost
// that it refuses is what the credit then saves for.
func (p *Pacer) Affords(cost float64) bool {
	cost = positive(cost)
	if p.credit+slack*max(1, cost) < cost {
		p.need = cost
		return false
	}
	p.need = 0
	return true
}

// Charge subtracts cost that was spent without asking, such as the difference
// between an estimated and a true cost. The credit may go negative; later
// credit repays it before anything is released.
func (p *Pacer) Charge(cost float64) { p.credit -= positive(cost) }

// Idle says that nothing waits any more (the queue emptied or its head was
// aborted) and drops credit that only a backlog may hold.
func (p *Pacer) Idle() {
	p.need = 0
	p.clamp()
}

// Credit returns the cost that the pacer may spend now, in cost units; negative in debt.
func (p *Pacer) Credit() float64 { return p.credit }

// Rate is the rate in force, in cost units per second.
func (p *Pacer) Rate() float64 { return p.rate }

// Cap is the most credit an idle pacer keeps: max(1, r·Burst), cost units.
func (p *Pacer) Cap() float64 {
	burst := p.Burst
	if !(burst > 0) {
		burst = DefaultBurst
	}
	return max(1, p.rate*min(burst, MaxBurst))
}

// clamp bounds the credit by Cap above what the head needs. A backlogged pacer
// may hold more than an idle one because clamping its fraction at 1 on every
// tick would lose rate for good.
func (p *Pacer) clamp() {
	p.credit = min(p.credit, p.need+p.Cap())
}

// positive maps NaN and negative numbers to 0 and +Inf to the largest number.
func positive(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, math.MaxFloat64)
}
