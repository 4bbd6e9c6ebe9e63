// Package schedule is the part of the gossip that needs neither socket nor clock: when the
// agent sends its state and to whom, which agents it hears, and how long packets take. The
// simulator runs the same code.
//
// # Model
//
// Each period P the latest state is sent, if there are claims anywhere: here now, or here
// or elsewhere within the last second. Without claims it is sent each Idle·P. A fresh
// claim is sent at once, but not sooner than P/2 after the last packet. Each packet
// promises when the next one is due.
//
// Each packet acknowledges the latest one received from its addressee, and says how long
// ago that was. The round trip is measured with the sender's clock alone:
// τ = (now − sent − held)/2. Per peer the maximum is kept, decaying slowly ([Delay]).
//
// Now is any time that does not run back. O(1) per packet, O(peers) per round.
package schedule

import "time"

const (
	// Idle is how many periods lie between two packets without claims.
	Idle = 10
	// hangover is how long packets are sent each period after the last claim, so that
	// the longer promise is heard before it is needed.
	hangover = time.Second
)

// Schedule is when one agent sends. Not safe for concurrent use.
type Schedule struct {
	Period time.Duration // P

	sent, sentAll time.Duration
	active        time.Duration // when a claim was last seen, + hangover
}

// Due reports, at a tick or soon after a fresh claim, whether to send, and whether to
// all: also to peers that memberlist has given up.
func (s *Schedule) Due(now time.Duration, soon bool) (due, all bool) {
	if soon && now-s.sent < s.Period/2 {
		return false, false // the next tick sends it
	}
	return true, now-s.sentAll >= Idle*s.Period-s.Period/2
}

// NoteClaims notes that some agent claims something.
func (s *Schedule) NoteClaims(now time.Duration) { s.active = now + hangover }

// Promise returns what the packets of a round that is due promise. It returns false if
// nothing needs to be sent. claims says whether the state to send has any.
func (s *Schedule) Promise(now time.Duration, claims, all bool) (promise time.Duration, send bool) {
	promise = Idle * s.Period
	if claims {
		promise = s.Period
		s.NoteClaims(now)
	}
	if all {
		s.sentAll = now
	}
	if now >= s.active && !all {
		return promise, false
	}
	s.sent = now
	return promise, true
}
