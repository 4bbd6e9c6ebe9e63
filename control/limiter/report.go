package limiter

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
	slotkeys "github.com/titrate/titrate/control/slots/keys"
)

// counters count the requests of one flow, and the cost of some.
type counters struct {
	admitted                            atomic.Uint64
	turned                              atomic.Int64 // cost turned away without the lock: demand, not backlog
	bypassed                            atomic.Int64 // cost that passed without credit: OFF, SHADOW, OPEN
	waited, marked, shadowed, cancelled atomic.Uint64
	rejected                            [Reasons]atomic.Uint64
	withdrawn, shownAdmitted            atomic.Uint64 // see admittedSoFar
	clientRejected, shadowedCost        atomic.Int64
	// Parts of what is counted above that are due to limits: of waited, of
	// rejected[QueueTimeout] and of shadowed.
	held, heldLate, limitShadowed atomic.Uint64
}

// admittedSoFar returns how many requests were admitted, but for requests that got no slot of a concurrency limit
// at their release. It never falls: a request that is withdrawn after it was shown is left out of the later ones.
func (c *counters) admittedSoFar() uint64 {
	withdrawn := c.withdrawn.Load() // first: admitted has them, too
	n := c.admitted.Load() - withdrawn
	for {
		shown := c.shownAdmitted.Load()
		if n <= shown || c.shownAdmitted.CompareAndSwap(shown, n) {
			return max(n, shown)
		}
	}
}

// reporting is the state of the flow's reports to the coordinator. The flow's lock guards it.
type reporting struct {
	sum     totals          // so far; the totals of clientRejected and shadowed are in counters
	last    totals          // as of the last report
	limited bool            // since the last report
	counts  exchange.Counts // as of the last report
	flight  flown
}

// totals are the numbers of a flow's report, in fixed point.
type totals struct{ demand, served, marked, rejected, clientRejected, shadowed int64 }

// Report fills r with what flows did since the last call. Served, Rejected and the rest
// are exact: their sums over all reports are the totals.
func (e *Engine) Report(now int64, r *exchange.Report) {
	e.work.Lock()
	defer e.work.Unlock()
	r.Flows, r.Limits, r.Interval = r.Flows[:0], e.tallies.take(r.Limits[:0]), 0
	if e.reportAt != 0 {
		r.Interval = time.Duration(now - e.reportAt)
	}
	e.reportAt = now
	e.takeAwakened()
	for _, f := range e.lists.running {
		f.appendReport(e, now, r)
	}
	e.reportUnsent(now, r)
}

// reportUnsent reports flows that have left the ticker's list, until there is nothing
// more to report. What is in flight may end without anything else happening.
func (e *Engine) reportUnsent(now int64, r *exchange.Report) {
	keep := e.lists.unsent[:0]
	for _, f := range e.lists.unsent {
		if f.active.Load() { // it comes back here
			f.list.unsent = false
			continue
		}
		f.appendReport(e, now, r)
		if f.list.unsent = f.hasNews(); f.list.unsent {
			keep = append(keep, f)
		}
	}
	clear(e.lists.unsent[len(keep):])
	e.lists.unsent = keep
}

// appendReport appends the flow's part if there is anything to report.
func (f *flow) appendReport(e *Engine, now int64, to *exchange.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active.Load() {
		f.advance(e, now)
		f.publish()
	}
	if r, any := f.takeReport(); any {
		to.Flows = append(to.Flows, r)
	}
}

// takeReport returns what has happened since the last report, and whether anything has.
func (f *flow) takeReport() (r exchange.FlowReport, any bool) {
	now, last := f.totals(), f.report.last
	waiting, counts := units(f.eligibleCost()), f.requests()
	any = now != last || counts != f.report.counts || waiting > 0 || f.report.limited
	r = exchange.FlowReport{
		Tenant: f.tenant, Pool: f.pool, Waiting: waiting,
		Demand:         units(now.demand - last.demand),
		Served:         units(now.served - last.served),
		Marked:         units(now.marked - last.marked),
		Rejected:       units(now.rejected - last.rejected),
		ClientRejected: units(now.clientRejected - last.clientRejected),
		Shadowed:       units(now.shadowed - last.shadowed),
		Limited:        f.report.limited,
		Counts:         counts.Since(f.report.counts),
	}
	f.report.last, f.report.counts, f.report.limited = now, counts, false
	if flight := f.flight.Load(); flight != nil {
		was := f.report.flight
		f.report.flight = flight.report(was, &r)
		any = any || f.report.flight != was || r.InFlight > 0
	}
	return r, any
}

// totals returns the flow's totals so far. A refund (see Settle) that is larger than
// the rest since the last report is kept back: a reported number never falls.
func (f *flow) totals() totals {
	now, last := f.report.sum, f.report.last
	now.clientRejected, now.shadowed = f.counts.clientRejected.Load(), f.counts.shadowedCost.Load()
	now.demand, now.served = max(now.demand, last.demand), max(now.served, last.served)
	return now
}

// requests are the flow's requests so far. The flow is locked: heldLate is part of what
// rejected has.
func (f *flow) requests() exchange.Counts {
	c := &f.counts
	late := c.heldLate.Load()
	return exchange.Counts{
		Admitted: c.admittedSoFar(), Waited: c.waited.Load(), Marked: c.marked.Load(), Shadowed: c.shadowed.Load(),
		ClientLimit: c.rejected[ClientLimit].Load() + late, TenantShare: c.rejected[TenantShare].Load(),
		QueueFull: c.rejected[QueueFull].Load(), QueueTimeout: c.rejected[QueueTimeout].Load() - late,
		LimitWaited: c.held.Load(), LimitShadowed: c.limitShadowed.Load(),
	}
}

// hasNews reports whether the flow has something to report.
func (f *flow) hasNews() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hasNewsLocked()
}

// hasNewsLocked is hasNews of a flow that is locked.
func (f *flow) hasNewsLocked() bool {
	flight := f.flight.Load()
	return f.report.limited || f.totals() != f.report.last || f.requests() != f.report.counts ||
		flight != nil && !f.report.flight.isAll(flight)
}

// Stats are counters since the start and gauges of now, for metrics.
type Stats struct {
	Revision int64 // of the configuration in force, 0: none
	Pools    []PoolStats
	Rejected [Reasons]uint64 // requests that reached no flow, by reason
	Booted   uint64          // admitted before the first configuration
	Bypassed uint64          // of unknown tenants, admitted
	Unpooled uint64          // to unknown pools, admitted
	Overflow uint64          // decisions by a shared overflow key
	// Requests that a limit with plans decided by its own numbers. PlanMissing are without the name of a plan,
	// PlanUnknown have a name that the limit does not know.
	PlanMissing, PlanUnknown uint64
	// Requests to a limit that bounds the rate which they state: they state none, what cannot be read, or a rate beyond
	// the bounds.
	RateMissing, RateMalformed, RateBounded uint64
	Keys                                    int // keys with something to remember, when asked for
	Capacity                                int // keys that the table has room for
	Contended                               int // keys with a state
	Budget                                  int // the most of them, see Options.Contended
	// Unpromoted counts requests and news of keys for which there was no state: such a
	// key is held to its part of the limit. Displaced counts keys that made room.
	Unpromoted, Displaced uint64
	// Delayed counts claims of keys that had to wait for a later Claims: with more than
	// 131,072 keys in use at a time they take turns.
	Delayed uint64
	Held    int64 // requests waiting
	Flows   int   // in use, see lifecycle.go
	Exact   ExactStats
	Slots   SlotStats
	Quotas  QuotaStats
	Shares  SharesStats
}

// SlotStats count for concurrency limits, see slots.go.
type SlotStats = slotkeys.Stats

// ExactStats count for EXACT limits, see exact.go.
type ExactStats = tokens.Stats

// SharesStats says which leases are in force.
type SharesStats struct {
	Known bool // some have arrived
	Epoch int64
	Stale bool
}

// PoolStats are the counters of one pool, in requests.
type PoolStats struct {
	Pool      string
	Admitted  uint64 // waited and shadowed ones included
	Waited    uint64 // held at least for a tick
	Marked    uint64
	Shadowed  uint64
	Cancelled uint64
	Rejected  [Reasons]uint64
	Held      int64   // now
	Adaptive  bool    // what is at the upstream is counted
	InFlight  float64 // cost there now
}

// Stats fills s. It reads every flow in use; counting Keys walks the whole table and is
// done only when s.Keys is not negative.
func (e *Engine) Stats(now int64, s *Stats) {
	pools, k := s.Pools[:0], e.keys.Stats()
	*s = Stats{
		Booted: e.stats.booted.Load(), Bypassed: e.stats.bypassed.Load(), Unpooled: e.stats.unknownPool.Load(),
		PlanMissing: e.stats.planMissing.Load(), PlanUnknown: e.stats.planUnknown.Load(),
		RateMissing: e.stats.rateMissing.Load(), RateMalformed: e.stats.rateMalformed.Load(),
		RateBounded: e.stats.rateBounded.Load(),
		Overflow:    k.Overflow, Keys: s.Keys, Capacity: k.Capacity, Contended: k.Contended,
		Budget: k.Budget, Unpromoted: k.Unpromoted, Displaced: k.Displaced, Delayed: k.Delayed,
		Held: e.waiting.Load(), Exact: e.tokens[exchange.OfSite].Stats().Plus(e.tokens[exchange.OfAll].Stats()),
		Slots: e.slots.keys.Stats(), Quotas: e.slots.units.Stats(),
		Shares: e.shares.Load().stats(),
	}
	if s.Keys >= 0 {
		s.Keys = e.keys.Live(now)
	}
	for i := range s.Rejected {
		s.Rejected[i] = e.stats.rejected[i].Load()
	}
	if snap := e.snap.Load(); snap != nil {
		s.Revision = snap.revision
	}
	s.Pools, s.Flows = e.registry.poolStats(pools)
}

// poolStats returns the counters of pools, of all flows that there are or were, and the
// number of present flows. Each flow is counted once: what is in past already is
// not read from a flow that was freed meanwhile.
func (r *registry) poolStats(pools []PoolStats) ([]PoolStats, int) {
	pools, flows := r.pastStats(pools)
	for _, f := range flows {
		var p *PoolStats
		pools, p = poolOf(pools, f.pool)
		now := r.statsOf(f)
		p.add(&PoolStats{}, &now)
		p.Held += int64(f.credit.waiting.Load()) + int64(f.held.Load().count())
		if flight := f.flight.Load(); flight != nil {
			p.InFlight += units(flight.InFlight.Load())
		}
	}
	return pools, len(flows)
}

func (r *registry) pastStats(pools []PoolStats) ([]PoolStats, []*flow) {
	r.names.Lock()
	defer r.names.Unlock()
	return append(pools[:0], r.past...), r.live()
}

func (r *registry) statsOf(f *flow) PoolStats {
	r.names.Lock()
	defer r.names.Unlock()
	if f.place.freed {
		return f.place.folded
	}
	return f.poolStats()
}

// poolOf returns the counters of a pool, and adds them if there are none.
func poolOf(pools []PoolStats, pool string) ([]PoolStats, *PoolStats) {
	i := slices.IndexFunc(pools, func(p PoolStats) bool { return p.Pool == pool })
	if i < 0 {
		i, pools = len(pools), append(pools, PoolStats{Pool: pool})
	}
	return pools, &pools[i]
}

// poolStats returns the flow's counters.
func (f *flow) poolStats() PoolStats {
	s := PoolStats{
		Admitted: f.counts.admittedSoFar(), Waited: f.counts.waited.Load(), Marked: f.counts.marked.Load(),
		Shadowed: f.counts.shadowed.Load(), Cancelled: f.counts.cancelled.Load(), Adaptive: f.flight.Load() != nil,
	}
	for r := range s.Rejected {
		s.Rejected[r] = f.counts.rejected[r].Load()
	}
	return s
}

// add adds the growth from one reading of a flow's counters to another.
func (p *PoolStats) add(from, to *PoolStats) {
	p.Admitted += to.Admitted - from.Admitted
	p.Waited += to.Waited - from.Waited
	p.Marked += to.Marked - from.Marked
	p.Shadowed += to.Shadowed - from.Shadowed
	p.Cancelled += to.Cancelled - from.Cancelled
	p.Adaptive = p.Adaptive || to.Adaptive
	for r := range p.Rejected {
		p.Rejected[r] += to.Rejected[r] - from.Rejected[r]
	}
}
