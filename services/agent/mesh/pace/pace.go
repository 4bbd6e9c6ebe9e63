// Package pace is when an agent speaks to the others, and what it knows of the way
// to them, without a clock: what of a mesh a simulation needs.
//
// # Model
//
// Each period P the latest state goes out, if there are claims anywhere: here now,
// or here or elsewhere within a hangover. Without any it goes out each Idle·P. A
// fresh announcement goes out at once, but not sooner than P/2 after the last. Each
// packet promises when the next is due.
//
// O(1) per call. Now is any time that does not run back.
package pace

import "time"

const (
	// Idle is how many periods lie between two packets without claims.
	Idle = 10
	// hangover is how long the fast pace goes on after the last claim, so that
	// the slower promise is heard before it is needed.
	hangover = time.Second
)

// Pace is one agent's. Not safe for concurrent use.
type Pace struct {
	Period time.Duration // P

	sent, sentAll time.Duration
	active        time.Duration // when a claim was last seen, + hangover
}

// Due tells at a tick, or when poked by an announcement, whether to speak, and
// whether to all: also to those that are thought to be gone.
func (p *Pace) Due(now time.Duration, poked bool) (due, all bool) {
	if poked && now-p.sent < p.Period/2 {
		return false, false // the tick takes it along
	}
	return true, now-p.sentAll >= Idle*p.Period-p.Period/2
}

// Claims notes that somebody claims something.
func (p *Pace) Claims(now time.Duration) { p.active = now + hangover }

// Speak says what a round that is due promises, ok if it has to be sent: claims
// says that the state to send has any.
func (p *Pace) Speak(now time.Duration, claims, all bool) (promise time.Duration, ok bool) {
	promise = Idle * p.Period
	if claims {
		promise = p.Period
		p.Claims(now)
	}
	if all {
		p.sentAll = now
	}
	if now >= p.active && !all {
		return promise, false
	}
	p.sent = now
	return promise, true
}
