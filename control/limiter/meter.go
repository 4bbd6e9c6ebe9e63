package limiter

import (
	"math"
	"sync/atomic"
)

// meter tells which clients of a flow ask for more than their equal part of its rate,
// so that what has to be refused is refused to them.
//
// # Model
//
// The clock V is the cost that a client with the equal part f has been served:
//
//	dV/dt = f = u/n       u: rate in force here; n: clients seen lately
//
// Each client has a tag T; a request of cost c that is admitted or begins to wait
// moves it. What the client has been served beyond its equal part is s:
//
//	s = max(0, T − V)        T := min(max(T, V) + c, V + 2d)        d = max(f/2, 24·c)
//	pressure = s/d, from 0 to 2
//
// A client that asks for less than f stays below 1, but for bursts of more than d, half
// a second's worth or 24 requests: it is within its equal part. One that gets more
// than f all the time is at 2; one that gets f hovers in between. A request that is refused moves the tag of
// a client that is below d: then its neighbours were, too, and who asks more has to
// be found out.
//
// # Bounds
//
// Tags stand in two rows of 512 by two hashes, and a client's s is the lesser of its
// two: clients are told apart without their names and without a bound on how many
// they are; two share both tags once in 262,144. Names that are invented count as clients, as
// in the turns of the queue. When about 1200 clients within 2 s have filled the rows,
// all are treated alike, as by the law alone. 8 KiB, made when a flow is first
// limited and dropped when it rests; reading and charging are lock-free.
type meter struct {
	clock atomic.Int64 // V, fixed point
	equal atomic.Int64 // f, fixed point per second
	crowd atomic.Bool  // too many clients to tell them apart
	room  atomic.Int64 // how far clients below their equal part may overdraw the credit
	n     float64      // clients, smoothed
	rest  float64      // seconds since they were counted
	tags  [meterRows][meterTags]atomic.Int64
}

const (
	meterRows = 2
	meterTags = 512
	// meterCrowd is how many tags of a row may be in use: beyond it clients cannot be
	// told apart.
	meterCrowd = meterTags * 9 / 10
	// meterBurst is the least d in requests: chance takes a client at nine tenths of
	// its equal part beyond it in about one request of a hundred.
	meterBurst = 24
	// meterSpan is d and half of what a client is remembered for, in seconds.
	meterSpan = 0.5
	// meterSeen is for how long a client counts in n, seconds.
	meterSeen = 2
	// meterCount is the time between two counts of the clients, seconds.
	meterCount = 0.02
	// meterFade is the time constant in which n forgets, seconds.
	meterFade = 5
	// meterStart is V at the beginning; tags of 0 are clients that never were.
	meterStart = int64(1) << 40
)

func newMeter() *meter {
	m := &meter{n: 1}
	m.clock.Store(meterStart)
	return m
}

// places are the two tags of a client, by the hash of its name.
func (m *meter) places(hash uint64) (a, b *atomic.Int64) {
	return &m.tags[0][hash%meterTags], &m.tags[1][hash>>32%meterTags]
}

// spent is s, fixed point.
func (m *meter) spent(hash uint64) int64 {
	a, b := m.places(hash)
	return max(0, min(a.Load(), b.Load())-m.clock.Load())
}

// depth is d of a request, fixed point.
func (m *meter) depth(cost int64) int64 {
	return max(int64(meterSpan*float64(m.equal.Load())), meterBurst*cost)
}

// pressure is s/d.
func (m *meter) pressure(hash uint64, cost int64) float64 {
	if m.crowd.Load() {
		return 2
	}
	return float64(m.spent(hash)) / float64(m.depth(cost))
}

// excess is the part of its pressure that a client has beyond its equal part, in
// [0,1].
func excess(pressure float64) float64 { return min(1, max(0, pressure-1)) }

// spare is how far a client is within its equal part, in [0,1].
func spare(pressure float64) float64 { return max(0, 1-pressure) }

// charge moves a client's tag by a request.
func (m *meter) charge(hash uint64, cost int64) {
	now := m.clock.Load()
	to := min(now+m.spent(hash)+cost, now+2*m.depth(cost))
	a, b := m.places(hash)
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

// repay moves a client's tag back: its request has cost less than was charged, or has
// not been served.
func (m *meter) repay(hash uint64, cost int64) {
	now := m.clock.Load()
	a, b := m.places(hash)
	for _, tag := range []*atomic.Int64{a, b} {
		if at := tag.Load(); at > now {
			tag.CompareAndSwap(at, max(now, at-cost))
		}
	}
}

// advance lets h seconds pass at a rate of u cost units/s. One caller at a time.
func (m *meter) advance(h, u float64) {
	if m.rest += h; m.rest >= meterCount {
		m.count(m.rest)
		m.rest = 0
	}
	const most = 1e9 // cost units/s: the clock then runs for a day
	f := min(u, most) / m.n * unit
	m.equal.Store(int64(f))
	m.clock.Add(int64(math.Round(f * min(h, 1))))
}

// count updates n: at once when there are more, slowly when there are fewer.
func (m *meter) count(h float64) {
	since := m.clock.Load() - meterSeen*m.equal.Load()
	seen := 0
	for i := range m.tags[0] {
		if at := m.tags[0][i].Load(); at != 0 && at >= since {
			seen++
		}
	}
	m.crowd.Store(seen > meterCrowd)
	m.n = max(1, float64(seen), m.n+(float64(seen)-m.n)*min(1, h/meterFade))
}

// worn reports whether the clock has run for so long that the next one must begin.
func (m *meter) worn() bool { return m.clock.Load() > 1<<61 }
