package limiter

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// Unused capacity. While a pool has capacity that nobody asks for, the share refuses nobody: what a
// flow's credit does not cover is paid from there. That matters to tenants that begin to send, whose
// shares the coordinator has yet to measure, and wherever a demand jumps.
//
//	U      unused capacity of the pool, by the coordinator, cost units/s
//	w/W    this gateway's part by weight
//	M, v   the quota's max and the flow's share
//
// All flows at a gateway together take at most U·w/W beyond their shares, and each at most (M − v)·w/W.
// So all gateways together stay within U, wherever a demand begins. Both are token buckets (GCRA). A
// request that is dearer than a bucket takes all of a whole one, and owes the rest, for up to mostDebt.
// What a flow uses of its share beyond the demand that the coordinator has measured counts as taken, too:
// the margin of the shares is of the same capacity. What is taken is demand: once it is measured it is
// part of the shares, and U has become less. While it is not measured there is none: shares are stale,
// the agent is lost, or this gateway is cut off.
//
//	pass        a request that the credit does not cover, while none waits
//	drawUnused  at each advance, for what waits

// unused is a rate over all gateways, of which this gateway has its part. The zero value has nothing.
type unused struct {
	total atomic.Uint64 // cost units/s, as the bits of a float64
	tat   atomic.Int64
}

func (u *unused) set(total float64) { u.total.Store(math.Float64bits(total)) }

// here returns this gateway's part of the rate.
func (u *unused) here(m *members.View) float64 {
	if m.Isolation != exchange.Connected {
		return 0
	}
	return math.Float64frombits(u.total.Load()) * m.Weight / m.Total
}

// has reports whether take would take cost now.
func (u *unused) has(m *members.View, now, cost int64) bool {
	rate := u.here(m)
	_, ok := next(u.tat.Load(), now, rate, units(cost))
	return ok || math.IsInf(rate, 1)
}

// take takes cost if there is as much.
func (u *unused) take(m *members.View, now, cost int64) bool {
	rate := u.here(m)
	for !math.IsInf(rate, 1) {
		tat := u.tat.Load()
		then, ok := next(tat, now, rate, units(cost))
		if !ok {
			return false
		}
		if u.tat.CompareAndSwap(tat, then) {
			return true
		}
	}
	return true
}

// mostDebt bounds what one request may owe. Longer lets dearer requests use a small rate; a rate that
// grows meanwhile is of no use until the debt is repaid.
const mostDebt = time.Minute

// next takes cost from a bucket of this rate: its new TAT, and whether there is as much. A whole bucket
// has enough for a dearer request.
func next(tat, now int64, rate, cost float64) (int64, bool) {
	bucket := Bucket(rate, false)
	if tat <= now {
		bucket = max(bucket, min(cost, rate*mostDebt.Seconds()))
	}
	return drc.Take(tat, now, rate, bucket, cost)
}

// putBack undoes a take.
func (u *unused) putBack(m *members.View, now, cost int64) {
	rate := u.here(m)
	for !math.IsInf(rate, 1) {
		tat := u.tat.Load()
		if u.tat.CompareAndSwap(tat, drc.Return(tat, now, rate, units(cost))) {
			return
		}
	}
}

// mostOwed bounds what owe puts on account, in nanoseconds of refill.
const mostOwed = int64(1e9)

// owe charges cost that has passed otherwise.
func (u *unused) owe(m *members.View, now, cost int64) {
	rate := u.here(m)
	if !(rate > 0) || math.IsInf(rate, 1) {
		return
	}
	for {
		tat := u.tat.Load()
		next := min(max(tat, now)+int64(min(units(cost)/rate*1e9, float64(mostOwed))), max(tat, now+mostOwed))
		if u.tat.CompareAndSwap(tat, next) {
			return
		}
	}
}

// oweUnused charges the unused capacity with what a flow has used of its share in h seconds beyond the
// demand that is measured. Of a flow without a lease that is all. The flow is locked.
func (f *flow) oweUnused(m *members.View, now int64, h float64) {
	p, here := &f.pace, f.demandHere()
	p.beyond, p.passed = max(0, p.beyond+units(p.passed)-here*h), 0
	if chance := chanceOf(here); p.beyond > chance {
		f.unused.owe(m, now, int64((p.beyond-chance)*unit))
		p.beyond = chance
	}
}

// chanceOf returns the cost by which a demand of this rate exceeds its mean by chance: three standard
// deviations in a second.
func chanceOf(rate float64) float64 { return 3 * math.Sqrt(rate) }

// demandHere is this gateway's part of the flow's measured demand: as of the share.
func (f *flow) demandHere() float64 {
	t := &f.terms
	if t.unmeasured || !(t.demand > 0 && t.vmax > 0) || math.IsInf(t.demand, 1) {
		return 0
	}
	return t.demand * min(1, f.pace.controller.Rate()/t.vmax)
}

// hasUnused reports whether takeUnused would take cost now.
func (f *flow) hasUnused(m *members.View, now, cost int64) bool {
	return f.unused.has(m, now, cost) && f.belowMax.has(m, now, cost)
}

// takeUnused takes cost from the unused capacity of the pool.
func (f *flow) takeUnused(m *members.View, now, cost int64) bool {
	if !f.belowMax.take(m, now, cost) {
		return false
	}
	if !f.unused.take(m, now, cost) {
		f.belowMax.putBack(m, now, cost)
		return false
	}
	return true
}

// drawUnused draws from the unused capacity what the requests that wait for the share lack, one by one,
// and gives back what none of them needs any more. The flow is locked.
func (f *flow) drawUnused(m *members.View, now int64) {
	p := &f.pace
	if f.eligible() == 0 {
		if p.drawn > 0 {
			f.unused.putBack(m, now, p.drawn)
			f.belowMax.putBack(m, now, p.drawn)
			p.drawn = 0
		}
		return
	}
	each := f.eligibleCost() / int64(f.eligible())
	for f.eligibleCost()-f.queue.Saved() > f.spendable() && f.takeUnused(m, now, each) {
		p.drawn += each
	}
}

// ForgetUnused has pools without unused capacity until the next shares come: the link to the agent is
// down, so nobody measures what is taken.
func (e *Engine) ForgetUnused() {
	e.admin.Lock()
	defer e.admin.Unlock()
	if sh := *e.shares.Load(); !sh.unlinked {
		sh.unlinked = true
		e.shares.Store(&sh)
		e.setUnused()
	}
}

// setUnused puts in force what the pools have left by the shares known.
func (e *Engine) setUnused() {
	sh := e.shares.Load()
	r := &e.registry
	r.names.Lock()
	defer r.names.Unlock()
	for pool, u := range r.unused {
		u.set(sh.unusedOf(pool))
	}
}

func (sh *shares) unusedOf(pool string) float64 {
	if sh.stale || sh.unlinked || !(sh.pools[pool].Unused > 0) {
		return 0
	}
	return sh.pools[pool].Unused
}

// unusedOf returns the unused capacity of a pool, the same one for all its flows; names is locked.
func (r *registry) unusedOf(pool string, sh *shares) *unused {
	u := r.unused[pool]
	if u == nil {
		u = &unused{}
		u.set(sh.unusedOf(pool))
		r.unused[pool] = u
	}
	return u
}
