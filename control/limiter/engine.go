package limiter

import (
	"sync/atomic"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/keys"
	"github.com/titrate/titrate/control/limiter/internal/lock"
	"github.com/titrate/titrate/control/limiter/internal/members"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
)

// Engine is one gateway's limiter. Decide, Enqueue and Cancel may be called from any
// thread; Tick and Drain from one at a time, and so Claims and Report; Apply, SetShares
// and SetSums from any.
//
// The order of its locks is in package lock.
type Engine struct {
	keys   keys.Store
	tokens [exchange.Scopes]tokens.Store[*tokenWait]
	places tokenPlaces
	slots  slotStore
	snap   atomic.Pointer[snapshot]
	member atomic.Pointer[members.View]
	shares atomic.Pointer[shares]
	heard  heardFlows
	repeat atomic.Bool  // the next Claims announces all flows
	near   atomic.Int64 // since when limits that state no precision are EXACT; 0: they are LOCAL
	linked atomic.Int64 // when the latest link to an agent began after an earlier one; 0: none did
	stats  engineCounts

	settings settings
	busy     atomic.Bool
	waiting  atomic.Int64 // requests in all queues

	fresh    lock.Mutex[lock.Leaf]
	awakened []*flow // became active since the last tick

	work     lock.Mutex[lock.Work] // the slow callers: Tick, Drain, Claims, Report
	lists    flowLists
	tallies  tallies
	reportAt int64

	claiming lock.Mutex[lock.Claiming] // one Claims of keys at a time

	admin lock.Mutex[lock.Admin] // one change of snapshot, shares or sums at a time

	applied  applied
	registry registry
}

// settings are made by New and never changed.
type settings struct {
	unknown UnknownPolicy
	boot    BootPolicy
	rand    func() float64
	seed    uint64 // of the default random numbers
	start   int64
	period  float64 // P, seconds
}

// engineCounts are counters of the engine as a whole.
type engineCounts struct {
	bypassed, unknownPool, booted atomic.Uint64
	planMissing, planUnknown      atomic.Uint64
	rateMissing, rateMalformed    atomic.Uint64
	rateBounded                   atomic.Uint64
	rejected                      [Reasons]atomic.Uint64 // before any flow was known
}

// New returns an engine without configuration. It allocates the key table.
func New(o Options) *Engine {
	o = o.withDefaults()
	e := &Engine{settings: settings{
		unknown: o.Unknown, boot: o.Boot, rand: o.Rand, seed: hash.Name(o.Replica),
		start: o.Start, period: exchange.DefaultPeriod.Seconds(),
	}}
	e.applied.wants = o.Wants
	e.registry.flows, e.registry.newFlight = map[flowName]*flow{}, o.Flight
	e.registry.unused = map[string]*unused{}
	e.member.Store(members.Alone())
	e.shares.Store(&shares{})
	e.heard.version.Store(1)
	e.keys.Init(keys.Options{Keys: o.Keys, Contended: o.Contended, View: &e.member, Rand: o.Rand, Start: o.Start})
	for scope, hold := range []int64{tokens.Hold, tokens.HoldGlobal} {
		e.tokens[scope].Init(exactKeys, hold, o.Ask, func(k *tokens.Key) bool { return e.allow(scope, k) })
	}
	e.slots.init(o.Start, o.Ask)
	return e
}

// seconds converts the caller's nanoseconds to the controllers' seconds.
func (e *Engine) seconds(now int64) float64 { return float64(now-e.settings.start) * 1e-9 }

// uniform returns a random number in [0,1).
func (e *Engine) uniform(generator *uint64) float64 {
	if e.settings.rand != nil {
		return e.settings.rand()
	}
	return hash.Uniform(generator)
}

// refreshAll gives every flow what is known of it now.
func (e *Engine) refreshAll() {
	for _, f := range e.live() {
		e.refresh(f)
	}
}

// refresh updates a flow from configuration, shares and sums. A flow whose tenant
// or pool is gone keeps what it has: nothing new can reach it, and what waits drains at
// the last share.
func (e *Engine) refresh(f *flow) {
	s, sh := e.snap.Load(), e.shares.Load()
	t := s.tenants[f.tenant]
	pool, ok := s.pools[f.pool]
	if t == nil || !ok {
		return
	}
	loss, lost := sh.lost[f.pool]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.credit.open.Store(lost && loss == config.Open)
	f.terms.mode, f.terms.queueing = t.quotas[f.pool].Mode, s.list[pool].Queue
	f.terms.blocked = t.blocked(f.pool) // at the next tick nothing waits any more
	f.terms.expired = lost && loss == config.SafeRate
	f.terms.key = hash.Flow(s.seed, f.tenant, f.pool)
	f.terms.vmax = sh.of(s, t, pool)
	own, leased := sh.flows[flowName{f.tenant, f.pool}]
	f.terms.unmeasured, f.terms.demand = !leased, own.demand
	f.belowMax.set(t.maxOf(f.pool) - f.terms.vmax)
	f.terms.sumsAt = 0
	f.law.setTarget(f.terms.queueing.DelayTarget.Seconds())
	f.lookUpSums(e)
	f.configure(e, e.member.Load())
}
