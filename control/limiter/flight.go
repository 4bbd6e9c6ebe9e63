package limiter

import (
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// Flight counts what of one flow is at the upstream, for pools whose capacity is
// found from it. The caller, which sees the answers, counts: Depart when a request is
// released, then one of Land, Shed and Leave when it has ended. The fields are
// plain words, so that a proxy may count them in another language; see
// Options.Flight. Safe for concurrent use; each count is one atomic addition.
//
// By Little's law residence over completed is the mean stay at the upstream, and residence
// over time the mean number in flight. The coordinator compares that with InFlight to
// distinguish backlog from work.
type Flight struct {
	InFlight  atomic.Int64 // millionths of a cost unit
	Completed atomic.Int64 // millionths, cumulative
	Residence atomic.Int64 // of the completed, millionths · microseconds, cumulative; may wrap
	Turned    atomic.Int64 // by the upstream: millionths, cumulative
	Booked    atomic.Int64 // of the completed, what they departed with: millionths, cumulative
}

// longestStay bounds what one request adds to Residence, millionths · microseconds.
const longestStay = 1 << 61

// Depart counts a released request of so many millionths of a cost unit, see
// [Request.Micros].
func (f *Flight) Depart(micros int64) { f.InFlight.Add(micros) }

// Land counts a request that departed with an estimate and that the upstream has answered
// to the end, stay after its release. They count with its true cost where the answer says
// it, see [Engine.Settle], else the same. Both in millionths.
func (f *Flight) Land(estimate, actual int64, stay time.Duration) {
	f.InFlight.Add(-estimate)
	f.Booked.Add(estimate)
	f.Completed.Add(actual)
	f.Residence.Add(int64(min(float64(actual)*max(0, stay.Seconds())*1e6, longestStay)))
}

// Shed counts a request that the upstream turned away: it was too busy, could not
// be reached, or took too long.
func (f *Flight) Shed(micros int64) {
	f.InFlight.Add(-micros)
	f.Turned.Add(micros)
}

// Leave counts a request that ended without an answer of the upstream: its client
// went away, or something before the upstream answered.
func (f *Flight) Leave(micros int64) { f.InFlight.Add(-micros) }

// flown holds the numbers that a flow has reported of its Flight.
type flown struct {
	completed, residence, turned, booked int64
	weight                               float64 // true cost of an estimate, of late; 0: not known
}

// report adds what has happened since last to r and returns the new mark.
func (f *Flight) report(last flown, r *exchange.FlowReport) flown {
	now := flown{
		completed: f.Completed.Load(), residence: f.Residence.Load(), turned: f.Turned.Load(),
		booked: f.Booked.Load(), weight: last.weight,
	}
	now.completed = max(now.completed, last.completed) // streams correct it when they end
	now.weigh(last)
	r.Completed = units(now.completed - last.completed)
	r.Residence = units(now.residence-last.residence) * 1e-6
	r.Shed = units(now.turned - last.turned)
	r.InFlight = units(max(0, f.InFlight.Load()))
	if now.weight > 0 {
		r.InFlight *= now.weight
	}
	return now
}

// begin takes a Flight that another flow has used for its beginning.
func (f *flown) begin(flight *Flight) {
	*f = flown{
		completed: flight.Completed.Load(), residence: flight.Residence.Load(),
		turned: flight.Turned.Load(), booked: flight.Booked.Load(),
	}
}

// isAll reports whether nothing is in flight and all that has happened has been reported.
func (f *flown) isAll(flight *Flight) bool {
	return flight.InFlight.Load() == 0 && f.completed >= flight.Completed.Load() &&
		f.residence == flight.Residence.Load() && f.turned == flight.Turned.Load()
}

// weigh learns from what has landed since last what an estimate in flight will have cost
// in the end. Without it a backlog would be counted by guesses and the capacity by the
// truth.
func (f *flown) weigh(last flown) {
	const gain = .2
	booked := float64(f.booked - last.booked)
	if !(booked > 0) {
		return
	}
	weight := float64(f.completed-last.completed) / booked
	if f.weight > 0 {
		weight = f.weight + gain*(weight-f.weight)
	}
	f.weight = weight
}
