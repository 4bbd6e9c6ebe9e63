// Package fairness finds which clients of a flow ask for more than their equal part of
// its rate, so that what has to be refused is refused to them.
//
// # Model
//
// The clock V is the cost that a client with the equal part f has been served:
//
//	dV/dt = f = u/n       u: rate in force here; n: clients seen recently
//
// Each client has a tag T. A request of cost c that is admitted or begins to wait moves
// it. s is the service that the client got beyond its equal part:
//
//	s = max(0, T − V)        T := min(max(T, V) + c, V + 2d)        d = max(f/2, 24·c)
//	pressure = s/d, from 0 to 2
//
// A client that asks for less than f stays below 1, but for bursts of more than d, half a
// second's worth or 24 requests: it is within its equal part. A client that gets more than f
// all the time is at 2; a client that gets f is about 1. A refused request moves the tag of a
// client that is below d. Other clients are below their parts then, too, and the client that
// asks for more has to be found.
//
// # Bounds
//
// There are two rows of 512 tags, by two hashes, and a client's s is the lesser of its
// two: clients are distinguished without their names, however many there are. Two clients
// share both tags once in 262,144. Invented names count as clients, as in the turns of
// the queue. When about 1200 clients within 2 s have filled the rows, all are treated
// alike, as by the queue's law alone. A meter has 8 KiB, is made when a flow is first
// limited and dropped when it rests. Reading and charging are lock-free.
package fairness

import (
	"math"
	"sync/atomic"

	"github.com/titrate/titrate/control/limiter/internal/fixed"
)

// Meter measures the clients of one flow.
type Meter struct {
	clock atomic.Int64 // V, fixed point
	equal atomic.Int64 // f, fixed point per second
	crowd atomic.Bool  // too many clients to distinguish them
	room  atomic.Int64 // see Room
	n     float64      // clients, smoothed
	rest  float64      // seconds since they were counted
	tags  [rows][tagsPerRow]atomic.Int64
}

const (
	rows       = 2
	tagsPerRow = 512
	// mostTags is the number of tags of a row that may be in use: beyond it clients
	// cannot be distinguished.
	mostTags = tagsPerRow * 9 / 10
	// leastRequests is the least d in requests: chance takes a client at nine tenths of
	// its equal part beyond it in about one request of a hundred.
	leastRequests = 24
	// span is d and half of what a client is remembered for, in seconds.
	span = 0.5
	// seenFor is the time for which a client counts in n, seconds.
	seenFor = 2
	// countEvery is the time between two counts of the clients, seconds.
	countEvery = 0.02
	// fade is the time constant in which n forgets, seconds.
	fade = 5
	// start is V at the beginning; tags of 0 are clients that never were.
	start = int64(1) << 40
)

// New returns a meter that has seen nobody.
func New() *Meter {
	m := &Meter{n: 1}
	m.clock.Store(start)
	return m
}

// tagsOf are the two tags of a client, by the hash of its name.
func (m *Meter) tagsOf(hash uint64) (a, b *atomic.Int64) {
	return &m.tags[0][hash%tagsPerRow], &m.tags[1][hash>>32%tagsPerRow]
}

// Spent is s, fixed point.
func (m *Meter) Spent(hash uint64) int64 {
	a, b := m.tagsOf(hash)
	return max(0, min(a.Load(), b.Load())-m.clock.Load())
}

// depth is d of a request, fixed point.
func (m *Meter) depth(cost int64) int64 {
	return max(int64(span*float64(m.equal.Load())), leastRequests*cost)
}

// Pressure is s/d.
func (m *Meter) Pressure(hash uint64, cost int64) float64 {
	if m.crowd.Load() {
		return 2
	}
	return float64(m.Spent(hash)) / float64(m.depth(cost))
}

// Excess is the part of its pressure that a client has beyond its equal part, in
// [0,1].
func Excess(pressure float64) float64 { return min(1, max(0, pressure-1)) }

// Spare returns the unused part of a client's equal part, in [0,1].
func Spare(pressure float64) float64 { return max(0, 1-pressure) }

// Charge moves a client's tag by a request.
func (m *Meter) Charge(hash uint64, cost int64) {
	now := m.clock.Load()
	to := min(now+m.Spent(hash)+cost, now+2*m.depth(cost))
	a, b := m.tagsOf(hash)
	raise(a, to)
	raise(b, to)
}

// raise lifts a tag; of two at once the higher stays.
func raise(tag *atomic.Int64, to int64) {
	for {
		at := tag.Load()
		if at >= to || tag.CompareAndSwap(at, to) {
			return
		}
	}
}

// Repay moves a client's tag back: its request has cost less than was charged, or has
// not been served.
func (m *Meter) Repay(hash uint64, cost int64) {
	now := m.clock.Load()
	a, b := m.tagsOf(hash)
	for _, tag := range []*atomic.Int64{a, b} {
		if at := tag.Load(); at > now {
			tag.CompareAndSwap(at, max(now, at-cost))
		}
	}
}

// Advance lets h seconds pass at a rate of u cost units/s. One caller at a time.
func (m *Meter) Advance(h, u float64) {
	if m.rest += h; m.rest >= countEvery {
		m.count(m.rest)
		m.rest = 0
	}
	const most = 1e9 // cost units/s: the clock then runs for a day
	f := min(u, most) / m.n * fixed.Unit
	m.equal.Store(int64(f))
	m.clock.Add(int64(math.Round(f * min(h, 1))))
}

// count updates n: at once when there are more, slowly when there are fewer.
func (m *Meter) count(h float64) {
	since := m.clock.Load() - seenFor*m.equal.Load()
	seen := 0
	for i := range m.tags[0] {
		if at := m.tags[0][i].Load(); at != 0 && at >= since {
			seen++
		}
	}
	m.crowd.Store(seen > mostTags)
	m.n = max(1, float64(seen), m.n+(float64(seen)-m.n)*min(1, h/fade))
}

// Worn reports whether the clock has run for so long that the next one must begin.
func (m *Meter) Worn() bool { return m.clock.Load() > 1<<61 }

// Clients is the number of clients seen recently, smoothed, at least 1. Only the caller of
// Advance may ask.
func (m *Meter) Clients() float64 { return m.n }

// Room is the cost by which clients within their equal part may overdraw the flow's credit,
// fixed point.
func (m *Meter) Room() int64 { return m.room.Load() }

// SetRoom sets Room.
func (m *Meter) SetRoom(room int64) { m.room.Store(room) }
