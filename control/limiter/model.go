package limiter

import (
	"math"

	"github.com/titrate/titrate/control/limiter/internal/fairness"
)

// The rules of a small share: what a flow may pass at once, and who may wait for how long.
// They are functions of numbers, so that a model of a flow (lab/swarm) has the same rules.

const (
	// roomAtEase is the number of requests that a client well within its equal part may have
	// ahead of its next one. Chance alone makes as many wait: of requests that ask for 80 % of a
	// share one in 800 finds more than 12 ahead. The queue's delay target is for demand
	// beyond the share.
	roomAtEase = 13
)

// Bucket is B, the cost that a flow may pass at once at a replica whose static part is part
// cost units/s. It is 50 ms of that part, for a small flow up to 200 ms or five requests.
// With less, a few requests per second that come close together by chance would look like
// overload, far below the share. With more, too much passes at once when replicas join. Where
// nothing may wait, the bucket alone takes what comes by chance: it is 250 ms or ten
// requests.
func Bucket(part float64, polices bool) float64 {
	seconds, most := 0.2, 5.0
	if polices {
		seconds, most = 0.25, 10
	}
	return max(1, min(most, seconds*part), 0.05*part)
}

// stretched is the wait that the AQM aims at for requests of such a cost at a rate, if its
// delay target is target, in seconds.
func stretched(target, cost, rate float64) float64 {
	return max(target, min(mostTarget*target, leastTarget*cost/(rate+1e-9)))
}

// atEase returns the number of requests of its size that a client may have ahead of its next one,
// if so many clients compete. It is burst and one for three clients, whose bursts it may meet,
// the less the closer the client is to its equal part. It is up to most below half of that.
func atEase(clients, pressure, most float64) float64 {
	return max((burst+clients/3)*fairness.Spare(pressure), most*fairness.Spare(2*pressure))
}

// room is the most that may wait with a request of such a cost and its own cost, in cost
// units. It is patience delay targets of work at the rate, and more for a client at ease.
func room(rate, target, patience, cost, clients, pressure, most float64) float64 {
	return max(patience*rate*stretched(target, cost, rate), cost*atEase(clients, pressure, most))
}

// longestWait is the longest wait, in seconds, that a request of such a cost may have had at
// its turn while others wait. What a client at ease was let wait behind it may wait for.
func longestWait(rate, target, patience, cost, pressure, most float64) float64 {
	ease := most * fairness.Spare(2*pressure) * cost / (rate + 1e-9)
	return max(patience*max(overdue*target, stretched(target, cost, rate)), ease)
}

// slack returns the factor on the rate at which clients get their equal parts back, while eligible
// requests of such a cost together wait. It is less while more waits than the target. If all ask
// for more than their parts, the clients beyond theirs then show, and the law holds the queue.
func slack(rate, target, eligible, cost float64) float64 {
	if eligible == 0 {
		return 1
	}
	targets := cost / (rate*target + 1e-9)
	return min(1.05, max(0.75, 1.5-0.5*min(targets, eligible/burst)))
}

// Sole is a model of the part of a flow's law that decides who waits, for a flow whose
// requests cost 1. They come from one client, which does not slow down when marked.
type Sole struct {
	Target float64 // the queue's delay target, seconds
	meter  fairness.Sole
}

// Charge counts n requests that were served, begin to wait, or were refused within the
// client's part.
func (s *Sole) Charge(n float64) { s.meter.Charge(n) }

// Advance lets h seconds pass at a rate, while so many requests wait.
func (s *Sole) Advance(h, rate, waiting float64) {
	s.meter.Advance(h, rate*slack(rate, s.Target, waiting, waiting))
}

// AtEase reports whether the client is within its part of the rate.
func (s *Sole) AtEase() bool { return s.meter.Pressure() < 1 }

// Room returns the number of requests that may wait at a rate, the newest included.
func (s *Sole) Room(rate float64) float64 {
	return max(1, math.Floor(room(rate, s.Target, shortPatience, 1, 1, s.meter.Pressure(), roomAtEase)))
}

// LongestWait is the longest wait, in seconds, that a request may have had at its turn while
// others wait.
func (s *Sole) LongestWait(rate float64) float64 {
	return longestWait(rate, s.Target, shortPatience, 1, s.meter.Pressure(), roomAtEase)
}
