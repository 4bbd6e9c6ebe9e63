package keys

import (
	"sync/atomic"

	"github.com/titrate/titrate/control/exchange"
)

// A process may stand still for seconds: it is stopped by a signal, or gets no time of the machine. Meanwhile keys are
// refilled, and other replicas go on to admit. When the process goes on, a ledger is refilled first, to its top at
// most, and then receives all that the others admitted. That is news as after a silence (exchange.KeySum.Gap): refill
// that found the pool full has repaid it.
//
//	Claims ──50 ms── Claims ──────────── longer than stoodStill ──────────── Claims or SetSums
//	                      from                                              to
//	                                                                        └─ newsWithin ─┘  Gap = to − from

const (
	// stoodStill is the time without a call of Claims, which is called every period, after which the process counts as
	// having stood still, in nanoseconds.
	stoodStill = int64(exchange.SilentAfter)
	// newsWithin is the time in which the agent's news of a standstill arrive, in nanoseconds. The agent has given
	// the link up after some seconds, and a new link has to be made.
	newsWithin = int64(1e9)
)

// standstill is a time in which the process did not run, in nanoseconds.
type standstill struct{ from, to int64 }

// running notes when the process runs. Its methods may be called from any thread, but for ran: one caller at a time.
type running struct {
	at   atomic.Int64 // of the last Claims
	last atomic.Pointer[standstill]
}

// ran notes that the process runs, which it does every period.
func (r *running) ran(now int64) {
	if s := r.standstill(now); s.to == now {
		r.last.Store(&s) // before at: standstill reads at first
	}
	r.at.Store(now)
}

// standstill returns the last one, also if Claims has not been called since.
func (r *running) standstill(now int64) standstill {
	if at := r.at.Load(); at != 0 && now-at > stoodStill {
		return standstill{at, now}
	}
	if s := r.last.Load(); s != nil {
		return *s
	}
	return standstill{}
}

// gap returns how long the process stood still, in seconds, while news of that time may arrive.
func (r *running) gap(now int64) float64 {
	if s := r.standstill(now); now-s.to < newsWithin {
		return float64(s.to-s.from) * 1e-9
	}
	return 0
}
