package assign

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/fairshare"
)

const (
	// tolerance is the part beyond a member's rate that it has to need before the rates of a limit change.
	tolerance = 0.05
	// slack is the part by which all may have more than this gateway's part before that is corrected, and the part
	// below which a rate keeps still when others change.
	slack = 0.01
	// settleWithin is the time, in seconds, in which a debt is repaid, and in which what is free in a limit's bucket is
	// given out. At most half of a rate is kept for the first, and a twentieth added for the second: what members lose
	// by chance is free.
	settleWithin = 20
	// changeEvery is the least time between two changes for a member, unless all have too much.
	changeEvery = second / 2
	// lives is the least time to live, in intervals between reports. Up to half of it is added at random, so that
	// assignments do not expire together. renewBefore is before its end.
	lives, renewBefore = 4, 2
	// mostBurst bounds what a member may use at once, requests. Less than leastBurst, or all of the burst, would lose
	// tokens where requests come by chance.
	mostBurst, leastBurst = 1e9, 3
)

// target has the numbers that a member should have.
type target struct {
	kind  Kind
	rate  float64
	burst float64
}

// round is the working memory of Round.
type round struct {
	index    map[uint64]int // of keys of parts
	pools    []pool
	uses     []fairshare.Use
	members  []*member
	demands  []fairshare.Demand
	capacity []float64
	first    fairshare.Allocation
	second   fairshare.Allocation
}

// pool is one part that members share.
type pool struct {
	limit string
	free  float64
	burst float64 // whole
	rates float64 // of all its members, as they should be
	sent  float64 // as they are
	stale bool    // its rates change
}

// Round brings the assignments up to date.
func (b *Book) Round(now int64) {
	b.forget(now)
	b.collect(now)
	b.divide()
	b.judge()
	for _, one := range b.list {
		for _, m := range one.members {
			b.send(now, m)
		}
	}
}

// forget drops members that have gone, and buckets that are not used.
func (b *Book) forget(now int64) {
	for i := len(b.list) - 1; i >= 0; i-- {
		one := b.list[i]
		for j := len(one.members) - 1; j >= 0; j-- {
			m := one.members[j]
			switch {
			case m.stream == nil && now >= m.leaves, now >= m.reported+silentIntervals*m.interval:
				b.leave(now, m)
			case m.stream != nil && now >= m.used+idleTime:
				m.stream.put(Action{Kind: Abandon, bucket: one})
				b.Abandoned++
				b.leave(now, m)
			}
		}
	}
}

// collect asks the engine for the parts of all buckets.
func (b *Book) collect(now int64) {
	r := &b.round
	r.index = map[uint64]int{}
	r.pools, r.uses, r.members = r.pools[:0], r.uses[:0], r.members[:0]
	r.demands, r.capacity = r.demands[:0], r.capacity[:0]
	b.unknown = 0
	for _, one := range b.list {
		known := false
		if one.parts = one.parts[:0]; !one.Foreign {
			one.parts, known = b.o.Engine.Parts(now, &one.request.Request, one.parts)
		}
		if !known {
			b.unknown += len(one.members)
		}
		kind := Rate
		switch {
		case !known && b.o.DenyUnknown:
			kind = DenyAll
		case !known, len(one.parts) == 0:
			kind = AllowAll
		}
		for _, m := range one.members {
			m.target = target{kind: kind}
			if kind == Rate {
				r.add(m)
			}
		}
	}
}

// add adds a member to the parts of its bucket.
func (r *round) add(m *member) {
	of := len(r.members)
	r.members = append(r.members, m)
	deviation := math.Sqrt(m.demand/(float64(m.interval)*1e-9)) / 2
	r.demands = append(r.demands, fairshare.Demand{Weight: 1, Cap: m.demand + deviation})
	for i := range m.b.parts {
		p := &m.b.parts[i]
		at, ok := r.index[p.Key]
		if !ok {
			at = len(r.pools)
			r.index[p.Key] = at
			r.pools = append(r.pools, pool{limit: p.Limit, free: p.Free, burst: p.Burst})
			r.capacity = append(r.capacity, p.Rate+min(p.Rate/20, max(-p.Rate/2, (p.Free-p.Debt)/settleWithin)))
		}
		r.uses = append(r.uses, fairshare.Use{Tenant: of, Pool: at, Cost: p.Weight})
	}
}

// divide gives each member its rate and its burst.
func (b *Book) divide() {
	r := &b.round
	net, err := fairshare.NewNetwork(len(r.pools), len(r.members), r.uses)
	if err != nil { // a bucket has a part twice: a bug
		panic(err)
	}
	net.Solve(r.capacity, r.demands, fairshare.Minimum, nil, &r.first)
	left := make([]float64, len(r.pools))
	for i := range left {
		left[i] = max(0, r.capacity[i]-r.first.Used[i])
	}
	for i, m := range r.members {
		r.demands[i].Cap = math.Inf(1)
		if m.stream == nil {
			r.demands[i].Cap = 0
		}
	}
	net.Solve(left, r.demands, fairshare.Minimum, nil, &r.second)
	for _, one := range b.list {
		one.by, one.short = "", false
	}
	for i, m := range r.members {
		m.rate = r.first.Shares[i] + r.second.Shares[i]
		if at := r.first.Bottleneck[i]; at >= 0 {
			m.b.by, m.b.short = r.pools[at].limit, true
		}
		for _, p := range m.b.parts {
			r.pools[r.index[p.Key]].rates += m.rate * p.Weight
		}
	}
	for _, m := range r.members {
		m.burst = mostBurst
		for _, p := range m.b.parts {
			of := &r.pools[r.index[p.Key]]
			free := of.free * m.rate / max(of.rates, math.SmallestNonzeroFloat64)
			m.burst = min(m.burst, max(min(of.burst, leastBurst), free))
		}
		m.burst = max(1, math.Floor(m.burst))
		if m.rate <= 1/longestFill {
			m.target = target{kind: DenyAll}
		}
	}
}

// judge finds the parts whose rates have to change.
func (b *Book) judge() {
	r := &b.round
	for _, m := range r.members {
		for _, p := range m.b.parts {
			of := &r.pools[r.index[p.Key]]
			of.sent += m.sent.rate() * p.Weight
			of.stale = of.stale || m.stream != nil && m.needs()
		}
	}
	for i := range r.pools {
		p := &r.pools[i]
		p.stale = p.stale || p.sent > (1+slack)*r.capacity[i]
	}
}

// needs reports whether a member should have more than it has.
func (m *member) needs() bool {
	return !m.answered || m.sent.Kind != m.kind || m.rate > (1+tolerance)*m.sent.rate() ||
		m.kind == Rate && m.demand < m.rate && m.burst >= 2*float64(m.sent.Burst) && m.burst >= float64(m.sent.Burst)+2
}

// send puts out a member's assignment if it changes, or before it expires.
func (b *Book) send(now int64, m *member) {
	if m.stream == nil {
		return
	}
	life := lives * m.interval
	switch was := m.sent.rate(); {
	case !m.answered || m.sent.Kind != m.kind:
	case m.kind != Rate, !b.isStale(m), math.Abs(m.rate-was) <= slack*was && !m.needs(),
		now < m.sentAt+changeEvery && m.rate >= was:
		if now < m.ends-renewBefore*m.interval {
			return
		}
		b.Renewed++
		b.put(now, m, m.sent, life)
		return
	}
	a := Action{Kind: m.kind, bucket: m.b}
	if a.Kind == Rate {
		a.Tokens, a.Seconds = fill(m.rate)
		a.Burst = uint32(m.burst)
	}
	m.sentAt = now
	b.Changed++
	b.put(now, m, a, life)
}

func (b *Book) put(now int64, m *member, a Action, life int64) {
	life += int64(b.o.Rand() * float64(life) / 2)
	a.TTL = (time.Duration(life) + time.Second - 1).Truncate(time.Second) // Envoy cuts the rest off
	m.sent, m.answered, m.ends = a, true, now+int64(a.TTL)
	m.stream.put(a)
}

// isStale reports whether the rates of one of a member's parts change.
func (b *Book) isStale(m *member) bool {
	for _, p := range m.b.parts {
		if b.round.pools[b.round.index[p.Key]].stale {
			return true
		}
	}
	return false
}

func (s *Stream) put(a Action) {
	if len(s.out) == 0 {
		s.wake()
	}
	s.out[a.bucket.ID] = a
}

// Take returns up to so many actions to be sent.
func (b *Book) Take(s *Stream, most int) (out []Action) {
	for id, a := range s.out {
		if len(out) == most {
			break
		}
		out = append(out, a)
		delete(s.out, id)
	}
	return out
}
