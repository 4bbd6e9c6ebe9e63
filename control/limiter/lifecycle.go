package limiter

import (
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/lock"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// Flows are made when they are first used and freed when nothing has used them for
// keepIdle. Tenants that come and go, or a name that was used once, leave nothing behind
// but their counts, which stay in their pool's.
//
//	running   in the ticker's list
//	resting   not in it; looked at again after keepIdle
//	gone      freed: whoever still has a pointer to it looks its route up again
//
// A flow may go when a new controller would do the same: nothing waits, is in
// flight, claimed, owed or unreported, and its credit is whole. Whether a thread takes
// from the credit at that moment one compare-and-swap decides: it replaces the credit by
// void, from which nobody can take. So a thread that has taken credit has kept the flow,
// and a thread that cannot take any asks whether the flow is gone before it believes that.
// What needs no credit may still be counted in a flow that is gone. It has the flow put
// into the ticker's list as ever; from there it is reported, and added to the pool's
// counts.
//
// The ids of flows, which handles carry, are used again. The requests of the next flow
// get generations after those of the last, so an old handle names none of them. A Flight
// is used again, too, because its users may count in it for as long as the engine
// lives: the next flow counts from what it finds.

const (
	// keepIdle is for how long, in nanoseconds, a flow, and the slot of a tenant's limit,
	// is kept after its last use; it is freed within twice that time. Longer costs memory,
	// shorter makes new flows of slow tenants for each of their requests.
	keepIdle = int64(60e9)
	// freeBatch is the number of resting flows, and of slots, that a tick looks at: a tenth
	// of a millisecond of work.
	freeBatch = 64
	// shrink is the part of its largest size below which the map of flows is rebuilt,
	// and smallMap the size below which it is not.
	shrink, smallMap = 4, 1024
)

type flowName struct{ tenant, pool string }

// registry has the flows in use by name and by id, and what is left of freed ones.
type registry struct {
	names     lock.Mutex[lock.Leaf] // guards what follows
	flows     map[flowName]*flow
	peak      int         // the most flows since the map was last made
	byID      []idOwner   // of flows
	freeIDs   []uint32    // without a flow
	flights   []*Flight   // of flows that are freed
	past      []PoolStats // counts of flows that are freed
	newFlight func() *Flight
	unused    map[string]*unused // by pool
}

// idOwner is the flow that has an id, and the generation after which the places of the
// next one begin.
type idOwner struct {
	flow       *flow
	generation uint32
}

// place is the flow's place in the registry.
type place struct {
	id         uint32
	generation uint32 // after which the places of its queue begin
	freed      bool
	folded     PoolStats // what of its counts is in registry.past
}

// flowLists are the ticker's lists of flows, of which the engine's work is the lock.
type flowLists struct {
	running []*flow
	resting []*flow // not running, the longest first
	unsent  []*flow // of these, those with something to report
}

// listing is the flow's place in the ticker's lists.
type listing struct {
	unsent   bool  // in flowLists.unsent
	listedAt int64 // when it was put into flowLists.resting, 0: it is not there
	restedAt int64 // when it left the ticker's list last
}

// gone reports whether the flow has been freed.
func (f *flow) gone() bool { return f.credit.amount.Load() == void }

// obtainFlow returns the flow of a tenant and a pool, and makes it if need be.
func (e *Engine) obtainFlow(s *snapshot, t *tenant, pool int) *flow {
	f, fresh := e.registerFlow(s, flowName{t.name, s.list[pool].Name})
	if fresh { // after it is registered, or a change might miss it
		e.refresh(f)
		f.publishFirst()
		e.wake(f) // last: it is freed once it has left the ticker's list
	}
	return f
}

// publishFirst publishes the first credit of a flow.
func (f *flow) publishFirst() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publish()
}

func (e *Engine) registerFlow(s *snapshot, name flowName) (f *flow, fresh bool) {
	r := &e.registry
	r.names.Lock()
	defer r.names.Unlock()
	if f := r.flows[name]; f != nil {
		if !f.gone() {
			return f, false
		}
		r.drop(f) // it is being freed, or a panic has kept it from being dropped
	}
	salt := hash.FlowPrefix(s.seed, name.tenant, name.pool)
	f = &flow{tenant: name.tenant, pool: name.pool, salt: salt, unused: r.unusedOf(name.pool, e.shares.Load())}
	f.terms.key, f.law.random = salt.Sum(), salt.Sum()^e.settings.seed
	r.giveID(f)
	r.flows[name] = f
	r.peak = max(r.peak, len(r.flows))
	return f, true
}

// giveID gives a flow an id; names is locked.
func (r *registry) giveID(f *flow) {
	if n := len(r.freeIDs); n > 0 {
		f.place.id, r.freeIDs = r.freeIDs[n-1], r.freeIDs[:n-1]
	} else {
		f.place.id = uint32(len(r.byID))
		r.byID = append(r.byID, idOwner{})
	}
	p := &r.byID[f.place.id]
	p.flow, f.place.generation = f, p.generation
}

// rest keeps a flow that has left the ticker's list in view: until it has been reported,
// and until it may be freed.
func (e *Engine) rest(f *flow, now int64) {
	f.list.restedAt = now
	if !f.list.unsent && f.hasNews() {
		f.list.unsent = true
		e.lists.unsent = append(e.lists.unsent, f)
	}
	switch {
	case f.gone():
		e.registry.foldLate(f)
	case f.list.listedAt == 0:
		e.lists.addResting(f, now)
	}
}

// addResting has a flow looked at after keepIdle.
func (l *flowLists) addResting(f *flow, now int64) {
	f.list.listedAt = max(1, now)
	l.resting = append(l.resting, f)
}

// freeIdle frees some of the flows that have rested for long enough. While the
// configuration changes it waits for the next tick.
func (e *Engine) freeIdle(now int64) {
	if !e.lists.hasRested(now) || !e.admin.TryLock() {
		return
	}
	defer e.admin.Unlock()
	for n := 0; n < freeBatch && e.lists.hasRested(now); n++ {
		f := e.lists.takeRested()
		switch {
		case f.active.Load(): // it comes back when it rests
		case now-f.list.restedAt < keepIdle || !e.free(f, now):
			e.lists.addResting(f, now)
		}
	}
}

// hasRested reports whether the first resting flow is due to be looked at.
func (l *flowLists) hasRested(now int64) bool {
	return len(l.resting) > 0 && now-l.resting[0].list.listedAt >= keepIdle
}

// takeRested takes the first resting flow out of its list.
func (l *flowLists) takeRested() *flow {
	f := l.resting[0]
	l.resting[0] = nil
	l.resting = l.resting[1:]
	f.list.listedAt = 0
	return f
}

// free frees a flow unless something needs it. admin is locked.
func (e *Engine) free(f *flow, now int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(e, now)
	f.publish()
	if f.isNeeded(e.member.Load()) || f.active.Load() || !f.credit.amount.CompareAndSwap(f.pace.published, void) {
		return false
	}
	f.pace.published = void
	e.unroute(f)
	e.registry.remove(f)
	return true
}

// isNeeded reports whether the flow holds what a new one would not.
func (f *flow) isNeeded(m *members.View) bool {
	return f.hasNewsLocked() || !f.isQuiet(m) || f.counts.turned.Load() != 0 || f.counts.bypassed.Load() != 0 ||
		f.pace.pacer.Credit() < -1.0/unit && f.terms.vmax > 0
}

// unroute takes a flow that is gone out of its tenant's routes. A route that is made
// right now finds that the flow is gone.
func (e *Engine) unroute(f *flow) {
	s := e.snap.Load()
	t := s.tenants[f.tenant]
	i, ok := s.pools[f.pool]
	if !ok || t == nil {
		return
	}
	if routes := t.routes.Load(); routes != nil {
		at := &(*routes)[i]
		if rt := at.Load(); rt != nil && rt.flow == f {
			at.CompareAndSwap(rt, nil)
		}
	}
}

// remove takes a flow that is gone out of all lists and keeps its counts.
func (r *registry) remove(f *flow) {
	r.names.Lock()
	defer r.names.Unlock()
	r.drop(f)
}

// drop is remove with names locked. The second of two does nothing.
func (r *registry) drop(f *flow) {
	if f.place.freed {
		return
	}
	left := idOwner{generation: f.place.generation}
	if f.queue != nil {
		left.generation = f.queue.LatestGeneration()
	}
	r.byID[f.place.id] = left
	r.freeIDs = append(r.freeIDs, f.place.id)
	f.place.freed = true
	r.fold(f)
	if flight := f.flight.Swap(nil); flight != nil {
		r.flights = append(r.flights, flight)
	}
	delete(r.flows, flowName{f.tenant, f.pool})
	if r.peak >= smallMap && len(r.flows) < r.peak/shrink {
		r.compact()
	}
}

// compact gives back the memory to which the map of flows has grown. names is locked.
func (r *registry) compact() {
	flows := make(map[flowName]*flow, len(r.flows))
	for name, f := range r.flows {
		flows[name] = f
	}
	r.flows, r.peak = flows, len(flows)
}

// fold adds the growth of a flow's counts to its pool's; names is locked.
func (r *registry) fold(f *flow) {
	var p *PoolStats
	r.past, p = poolOf(r.past, f.pool)
	now := f.poolStats()
	p.add(&f.place.folded, &now)
	f.place.folded = now
}

// foldLate adds what was counted in a flow after it was freed.
func (r *registry) foldLate(f *flow) {
	r.names.Lock()
	defer r.names.Unlock()
	r.fold(f)
}

// takeLate takes what came without credit after the flow was freed into its totals.
func (f *flow) takeLate() {
	turned, bypassed := f.counts.turned.Swap(0), f.counts.bypassed.Swap(0)
	f.report.sum.demand += turned + bypassed
	f.report.sum.rejected += turned
	f.report.sum.served += bypassed
	f.report.limited = f.report.limited || turned > 0
}

// obtainFlight returns the flow's counters, made when first needed. It locks a leaf only:
// a route may be made under any other lock.
func (r *registry) obtainFlight(f *flow) *Flight {
	if flight := f.flight.Load(); flight != nil {
		return flight
	}
	r.names.Lock()
	defer r.names.Unlock()
	if flight := f.flight.Load(); flight != nil {
		return flight
	}
	flight := r.takeFlight(f)
	f.flight.Store(flight)
	return flight
}

// takeFlight returns counters for a flow: the counters of a freed flow, or new ones. names
// is locked.
func (r *registry) takeFlight(f *flow) *Flight {
	n := len(r.flights)
	if n == 0 {
		return r.newFlight()
	}
	flight := r.flights[n-1]
	r.flights = r.flights[:n-1]
	f.report.flight.begin(flight)
	return flight
}

// live returns the flows in use, in the order of their ids.
func (e *Engine) live() []*flow {
	e.registry.names.Lock()
	defer e.registry.names.Unlock()
	return e.registry.live()
}

func (r *registry) live() []*flow {
	all := make([]*flow, 0, len(r.flows))
	for i := range r.byID {
		if f := r.byID[i].flow; f != nil {
			all = append(all, f)
		}
	}
	return all
}

// flowBy returns the flow of a handle, nil if there is none.
func (e *Engine) flowBy(h Handle) *flow {
	r := &e.registry
	r.names.Lock()
	defer r.names.Unlock()
	if i := int(h.flow()); h != 0 && i < len(r.byID) {
		return r.byID[i].flow
	}
	return nil
}
