package limiter

import (
	"math"

	"github.com/titrate/titrate/control/exchange"
)

// Flows are made when they are first used and freed when nothing has used them for
// keepIdle: tenants that come and go, or a name that was used once, leave nothing behind
// but their counts, which stay in their pool's.
//
//	running   in the ticker's list
//	resting   not in it; looked at again after keepIdle
//	gone      freed: whoever still has a pointer to it looks its route up again
//
// A flow may go when a controller made anew would do the same: nothing waits, is in
// flight, claimed, owed or unreported, and its credit is full. Whether somebody takes
// from the credit at that moment one compare-and-swap decides: it puts void in the
// credit's place, which nobody can take from. So a thread that has taken credit has kept
// the flow, and one that cannot take any asks whether it is gone before it believes
// that. What needs no credit may still be counted in a flow that is gone. It has the
// flow put into the ticker's list as ever; from there it is reported, and added to the
// pool's counts.
//
// The places of flows, which handles name, are used again. The requests of the next flow
// get generations after those of the last, so an old handle names none of them. A Flight
// is used again too, because whoever counts in it may do so for as long as the engine
// lives: the next flow counts from what it finds.

const (
	// keepIdle is for how long a flow, and the slot of a tenant's limit, is kept after
	// its last use; it is freed within twice that time. Longer costs memory, shorter
	// makes flows of slow tenants anew for each of their requests.
	keepIdle = int64(60e9)
	// freeBatch is how many resting flows, and how many slots, a tick looks at: a tenth
	// of a millisecond of work.
	freeBatch = 64
	// void is the credit of a flow that is gone.
	void = int64(math.MinInt64 / 2)
	// shrink is the part of its largest size below which the map of flows is made anew,
	// and smallMap the size below which it is not.
	shrink, smallMap = 4, 1024
)

// gone reports whether the flow has been freed.
func (f *flow) gone() bool { return f.credit.Load() == void }

// rest keeps a flow that has left the ticker's list in view: until it has been reported,
// and until it may be freed.
func (e *Engine) rest(f *flow, now int64) {
	f.restedAt = now
	if !f.untold && f.unreported() {
		f.untold = true
		e.untold = append(e.untold, f)
	}
	switch {
	case f.gone():
		e.foldLate(f)
	case f.listedAt == 0:
		e.list(f, now)
	}
}

// list has a flow looked at after keepIdle.
func (e *Engine) list(f *flow, now int64) {
	f.listedAt = max(1, now)
	e.resting = append(e.resting, f)
}

// unreported reports whether the flow has something to tell.
func (f *flow) unreported() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.news()
}

// news is unreported of a flow that is locked.
func (f *flow) news() bool {
	flight := f.flight.Load()
	return f.limited || f.totals() != f.reported || flight != nil && !f.flown.all(flight)
}

// reportUntold reports flows that have left the ticker's list, until there is nothing
// more to tell of them. What is in flight may end without anything else happening.
func (e *Engine) reportUntold(now int64, r *exchange.Report) {
	keep := e.untold[:0]
	for _, f := range e.untold {
		if f.active.Load() { // it comes back here
			f.untold = false
			continue
		}
		f.report(e, now, r)
		if f.untold = f.unreported(); f.untold {
			keep = append(keep, f)
		}
	}
	clear(e.untold[len(keep):])
	e.untold = keep
}

// freeIdle frees some of the flows that have rested for long enough. While the
// configuration changes it waits for the next tick.
func (e *Engine) freeIdle(now int64) {
	if len(e.resting) == 0 || now-e.resting[0].listedAt < keepIdle || !e.admin.TryLock() {
		return
	}
	defer e.admin.Unlock()
	for n := 0; n < freeBatch && len(e.resting) > 0 && now-e.resting[0].listedAt >= keepIdle; n++ {
		f := e.resting[0]
		e.resting[0] = nil
		e.resting = e.resting[1:]
		f.listedAt = 0
		switch {
		case f.active.Load(): // it comes back when it rests
		case now-f.restedAt < keepIdle || !e.free(f, now):
			e.list(f, now)
		}
	}
}

// free frees a flow unless somebody needs it. admin is locked.
func (e *Engine) free(f *flow, now int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(e, now)
	f.publish()
	if f.needed(e.member.Load()) || f.active.Load() || !f.credit.CompareAndSwap(f.published, void) {
		return false
	}
	f.published = void
	e.unroute(f)
	e.vacate(f)
	return true
}

// needed reports whether the flow holds what a new one would not.
func (f *flow) needed(m *membership) bool {
	return f.news() || !f.quiet(m) || f.turned.Load() != 0 || f.bypassed.Load() != 0 ||
		f.pacer.Credit() < -1.0/unit && f.vmax > 0
}

// unroute takes a flow that is gone out of its tenant's routes. A route that is made
// right now finds by itself that it is.
func (e *Engine) unroute(f *flow) {
	s := e.snap.Load()
	t, i := s.tenants[f.tenant], 0
	if at, ok := s.pools[f.pool]; ok && t != nil {
		i = at
	} else {
		return
	}
	if routes := t.routes.Load(); routes != nil {
		at := &(*routes)[i]
		if rt := at.Load(); rt != nil && rt.flow == f {
			at.CompareAndSwap(rt, nil)
		}
	}
}

// flowPlace is where a flow stands by its id, and the generation that the next one
// there begins after.
type flowPlace struct {
	flow       *flow
	generation uint32
}

// occupy gives a flow a place; names is locked.
func (e *Engine) occupy(f *flow) {
	if n := len(e.vacant); n > 0 {
		f.id, e.vacant = e.vacant[n-1], e.vacant[:n-1]
	} else {
		f.id = uint32(len(e.places))
		e.places = append(e.places, flowPlace{})
	}
	p := &e.places[f.id]
	p.flow, f.generation = f, p.generation
}

// vacate takes a flow that is gone out of all lists and keeps its counts.
func (e *Engine) vacate(f *flow) {
	e.names.Lock()
	defer e.names.Unlock()
	p := flowPlace{generation: f.generation}
	if f.q != nil {
		p.generation = f.q.latest()
	}
	e.places[f.id] = p
	e.vacant = append(e.vacant, f.id)
	f.freed = true
	e.fold(f)
	if flight := f.flight.Swap(nil); flight != nil {
		e.flights = append(e.flights, flight)
	}
	delete(e.flows, flowName{f.tenant, f.pool})
	if e.peak >= smallMap && len(e.flows) < e.peak/shrink {
		e.compact()
	}
}

// compact gives back what the maps of flows have grown to. names is locked.
func (e *Engine) compact() {
	flows := make(map[flowName]*flow, len(e.flows))
	for name, f := range e.flows {
		flows[name] = f
	}
	e.flows, e.peak = flows, len(flows)
}

// fold adds the growth of a flow's counts to its pool's; names is locked.
func (e *Engine) fold(f *flow) {
	var p *PoolStats
	e.past, p = poolOf(e.past, f.pool)
	now := f.tally()
	p.add(&f.folded, &now)
	f.folded = now
}

// foldLate adds what was counted in a flow after it was freed.
func (e *Engine) foldLate(f *flow) {
	e.names.Lock()
	defer e.names.Unlock()
	e.fold(f)
}

// takeLate takes what came without credit after the flow was freed into its totals.
func (f *flow) takeLate() {
	turned, bypassed := f.turned.Swap(0), f.bypassed.Swap(0)
	f.sum.demand += turned + bypassed
	f.sum.rejected += turned
	f.sum.served += bypassed
	f.limited = f.limited || turned > 0
}

// takeFlight returns counters for a flow: those of one that was freed, or new ones.
// names is locked.
func (e *Engine) takeFlight(f *flow) *Flight {
	n := len(e.flights)
	if n == 0 {
		return e.flight()
	}
	flight := e.flights[n-1]
	e.flights = e.flights[:n-1]
	f.flown.begin(flight)
	return flight
}

// live returns the flows in use, in the order of their places.
func (e *Engine) live() []*flow {
	e.names.Lock()
	defer e.names.Unlock()
	return e.liveFlows()
}

func (e *Engine) liveFlows() []*flow {
	all := make([]*flow, 0, len(e.flows))
	for i := range e.places {
		if f := e.places[i].flow; f != nil {
			all = append(all, f)
		}
	}
	return all
}

// flowBy returns the flow of a handle, nil if there is none.
func (e *Engine) flowBy(h Handle) *flow {
	e.names.Lock()
	defer e.names.Unlock()
	if i := int(h.flow()); h != 0 && i < len(e.places) {
		return e.places[i].flow
	}
	return nil
}

// countPools returns the counters of pools, of all flows that there are or were, and
// the number of those that there are. Each flow is counted once: what is in past
// already is not read from a flow that was freed meanwhile.
func (e *Engine) countPools(pools []PoolStats) ([]PoolStats, int) {
	pools, flows := e.pastPools(pools)
	for _, f := range flows {
		var p *PoolStats
		pools, p = poolOf(pools, f.pool)
		now := e.tallyOf(f)
		p.add(&PoolStats{}, &now)
		p.Held += int64(f.eligible.Load()) + int64(f.held.Load())
		if flight := f.flight.Load(); flight != nil {
			p.InFlight += units(flight.InFlight.Load())
		}
	}
	return pools, len(flows)
}

func (e *Engine) pastPools(pools []PoolStats) ([]PoolStats, []*flow) {
	e.names.Lock()
	defer e.names.Unlock()
	return append(pools[:0], e.past...), e.liveFlows()
}

func (e *Engine) tallyOf(f *flow) PoolStats {
	e.names.Lock()
	defer e.names.Unlock()
	if f.freed {
		return f.folded
	}
	return f.tally()
}
