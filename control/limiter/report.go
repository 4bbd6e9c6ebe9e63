package limiter

import (
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// Report fills r with what flows did since the last call. Served, Rejected and
// the rest are exact: their sums over all reports are the totals.
func (e *Engine) Report(now int64, r *exchange.Report) {
	e.work.Lock()
	defer e.work.Unlock()
	r.Flows, r.Interval = r.Flows[:0], 0
	if e.reportAt != 0 {
		r.Interval = time.Duration(now - e.reportAt)
	}
	e.reportAt = now
	e.gather()
	for _, f := range e.running {
		f.report(e, now, r)
	}
	e.reportUntold(now, r)
}

// report appends the flow's part if there is anything to tell.
func (f *flow) report(e *Engine, now int64, to *exchange.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active.Load() {
		f.advance(e, now)
		f.publish()
	}
	if fr, any := f.tell(); any {
		to.Flows = append(to.Flows, fr)
	}
}

// totals are what the flow has done so far. What is told of it never falls.
func (f *flow) totals() totals {
	f.sum.client = f.counts.clientRejected.Load()
	f.sum.shadowed = f.counts.shadowedCost.Load()
	now := f.sum
	now.settle(f.reported)
	return now
}

func (f *flow) tell() (exchange.FlowReport, bool) {
	now, last := f.totals(), f.reported
	waiting := 0.0
	if f.q != nil {
		waiting = units(f.q.eligibleCost)
	}
	any := now != last || waiting > 0 || f.limited
	r := exchange.FlowReport{
		Tenant: f.tenant, Pool: f.pool, Waiting: waiting,
		Demand:         units(now.demand - last.demand),
		Served:         units(now.served - last.served),
		Marked:         units(now.marked - last.marked),
		Rejected:       units(now.rejected - last.rejected),
		ClientRejected: units(now.client - last.client),
		Shadowed:       units(now.shadowed - last.shadowed),
		Limited:        f.limited,
	}
	f.reported, f.limited = now, false
	if flight := f.flight.Load(); flight != nil {
		was := f.flown
		f.flown = flight.report(was, &r)
		any = any || f.flown != was || r.InFlight > 0
	}
	return r, any
}

// settle keeps back refunds (see Settle) that are larger than what else happened
// since the last report: what is told never falls.
func (t *totals) settle(last totals) {
	t.demand, t.served = max(t.demand, last.demand), max(t.served, last.served)
}

// Stats are counters since the start and gauges of now, for metrics.
type Stats struct {
	Revision  int64 // of the configuration in force, 0: none
	Pools     []PoolStats
	Rejected  [Reasons]uint64 // requests that reached no flow, by reason
	Booted    uint64          // admitted before the first configuration
	Bypassed  uint64          // of unknown tenants, admitted
	Unpooled  uint64          // to unknown pools, admitted
	Overflow  uint64          // decisions by a shared overflow key
	Keys      int             // keys with something to remember, when asked for
	Capacity  int             // keys that the table has room for
	Contended int             // keys with full state
	// Unpromoted counts requests and news of keys for which there was no state: such a
	// key is held to its part of the limit. Displaced counts keys that made room.
	Unpromoted, Displaced uint64
	Held                  int64 // requests waiting
	Flows                 int   // in use, see free.go
	Shares                SharesStats
}

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

// Stats fills s. It reads every flow in use; counting Keys walks the whole table and
// is done only when s.Keys is not negative.
func (e *Engine) Stats(now int64, s *Stats) {
	pools := s.Pools[:0]
	keys := s.Keys
	*s = Stats{
		Booted: e.stats.booted.Load(), Bypassed: e.stats.bypassed.Load(),
		Unpooled: e.stats.unknownPool.Load(), Overflow: e.stats.overflow.Load(),
		Keys: keys, Capacity: len(e.table.buckets) * slotsPerBucket,
		Contended: int(e.states.inUse.Load()), Unpromoted: e.stats.unpromoted.Load(), Displaced: e.stats.displaced.Load(),
		Held: e.heldNow.Load(),
	}
	if keys >= 0 {
		s.Keys = e.table.live(now)
	}
	for i := range s.Rejected {
		s.Rejected[i] = e.stats.rejected[i].Load()
	}
	sh := e.shares.Load()
	s.Shares = SharesStats{sh.known, sh.epoch, sh.stale}
	if snap := e.snap.Load(); snap != nil {
		s.Revision = snap.revision
	}
	s.Pools, s.Flows = e.countPools(pools)
}

// poolOf returns the counters of a pool, and adds them if there are none.
func poolOf(pools []PoolStats, pool string) ([]PoolStats, *PoolStats) {
	i := slices.IndexFunc(pools, func(p PoolStats) bool { return p.Pool == pool })
	if i < 0 {
		i, pools = len(pools), append(pools, PoolStats{Pool: pool})
	}
	return pools, &pools[i]
}

// tally returns the flow's counters.
func (f *flow) tally() PoolStats {
	t := PoolStats{
		Admitted: f.admits.Load(), Waited: f.counts.waited.Load(), Marked: f.counts.marked.Load(),
		Shadowed: f.counts.shadowed.Load(), Cancelled: f.counts.cancelled.Load(), Adaptive: f.flight.Load() != nil,
	}
	for r := range t.Rejected {
		t.Rejected[r] = f.counts.rejected[r].Load()
	}
	return t
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
