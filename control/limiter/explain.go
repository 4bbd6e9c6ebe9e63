package limiter

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

// Explanation is the whole state that decides one request now, for people who ask why.
type Explanation struct {
	Revision int64   // of the configuration, 0: none yet
	Tenant   string  // that it counts for; "" if none
	Outcome  Outcome // what Decide would answer now
	Limits   []LimitState
	Flow     FlowState // its Pool is "" when the pool is not known
}

// LimitState is the state of one limit for one client at this replica.
type LimitState struct {
	Name    string
	Client  string // by which the limit knows it; "" of a limit per tenant
	Mode    config.Mode
	Queued  bool          // beyond the limit a request waits
	Strict  bool          // see Limit
	Exact   bool          // the owner of the key grants tokens
	Silent  bool          // and is unreachable: the ledger decides
	Unasked bool          // and is not asked about this new key, as the limit has asked for too much: likewise
	Parted  bool          // this replica may use its standing part of the key's bucket
	Rate    float64       // cost units/s, of all replicas together
	Burst   float64       // cost units
	Counts  string        // name of the cost that it counts; "": the plain cost
	Plan    string        // of the request, whose numbers these are; "": none of the limit's plans
	Stated  bool          // the request states the rate, perhaps beyond the bounds
	Free    float64       // cost that may pass now here; debt is below 0
	Passes  bool          // the request asked about would pass now
	Wait    time.Duration // until it would; 0 when it passes, or never will
	Claimed *Claimed      // what is known of the others; nil when the key is not contended
	// Concurrency is set of a limit on requests in flight, which has no Rate and no Burst. Free are its idle slots
	// here, InFlight the requests here. Without an owner no request may start.
	Concurrency int64
	// Amount is set of a limit with a quota. Free is left of it in the period, as far as is known here.
	Amount   float64
	InFlight int
}

// Claimed sums up the claims of replicas on one key or flow, cost units/s.
type Claimed struct {
	Others      float64 // by the others together
	Active      float64 // weight of those of them that want more than they have
	Unsaturated float64 // claimed by those of them that do not
	Fair        float64 // part of the whole that is fair for this replica, in (0,1]
}

// FlowState is a tenant's share of a pool at this replica. Rates in cost units/s.
type FlowState struct {
	Tenant, Pool string
	Mode         config.Mode
	Law          config.Law
	Share        float64 // granted in total, over all replicas
	Rate         float64 // in force here
	Demand       float64 // measured here
	Credit       float64 // cost that may pass at once
	Waiting      int     // requests that wait for the share
	Held         int     // requests that wait for a limit
	Admitted     uint64  // requests, since the flow was made
	Rejected     uint64
	Lost         bool    // the share has expired: OnLoss is in force
	Flight       *Flight // of an adaptive pool
	Claimed      Claimed
}

// Standing is this replica's place among the others, as far as it knows.
type Standing struct {
	Replicas    int
	Weight      float64 // of this one
	TotalWeight float64
	Absent      float64 // weight of members cut off for long
	Lag         time.Duration
	Isolation   exchange.Isolation
	Revision    int64
	Shares      SharesStats
}

// Explain says what Decide would make of a request now, and of what. It charges,
// counts and claims nothing, and makes no key. Unlike Decide it takes locks and
// allocates: for people, not for traffic. O(limits of the tenant).
func (e *Engine) Explain(now int64, r *Request) Explanation {
	x := e.Bearing(now, r)
	x.Outcome, _ = e.Peek(now, r)
	return x
}

// Bearing is Explain for a request that has been decided: without an Outcome.
func (e *Engine) Bearing(now int64, r *Request) Explanation {
	x := Explanation{}
	if s := e.snap.Load(); s != nil {
		x.Revision = s.revision
	}
	rt, ok := e.findRoute(r)
	if !ok {
		return x
	}
	x.Tenant = rt.tenant.name
	x.Limits = make([]LimitState, 0, len(rt.limits))
	c := newCall(now, r, rt)
	x.Limits = e.explainSlots(&c, x.Limits)
	for _, l := range rt.limits {
		if l.classes&c.classes != 0 && (l.cost == plainCost || c.costOf(l) != 0) {
			x.Limits = append(x.Limits, e.limitState(l, &c))
		}
	}
	if rt.flow != nil {
		x.Flow = rt.flow.state(e)
	}
	return x
}

func (e *Engine) limitState(l *limit, c *call) LimitState {
	client := c.under(l)
	u := e.usage(c, l)
	state := LimitState{
		Name: l.name, Mode: l.mode, Queued: l.queued, Strict: l.strict, Rate: u.Limit.Rate, Burst: u.Limit.Burst,
		Free: u.Local.Burst - u.Spent, Passes: u.Wait == 0, Wait: retryAfter(u.Wait), Exact: e.isExact(l.exact),
		Counts: l.counted, Plan: c.planOf(l),
	}
	weight := c.weightOf(l)
	if l.bounds != nil && !l.keys.Overrides(client) {
		_, state.Stated = c.statedRate(l)
	}
	if state.Exact {
		k := c.tokenKey(l)
		state.Silent, state.Unasked = e.tokensOf(l).Silent(&k), e.tokensOf(l).Unowned(&k, c.now)
		state.Parted = e.tokensOf(l).Parted(&k, c.now)
	}
	if !l.perTenant {
		state.Client = client
	}
	if sums, fair, ok := e.keys.Others(c.keysOf(l), client); ok {
		state.Claimed = &Claimed{Others: sums.Claims / weight, Active: sums.Active,
			Unsaturated: sums.Unsaturated / weight, Fair: fair}
	}
	return state
}

// Flows returns the recently used flows, the flows that admitted the most first,
// at most n. It locks one flow at a time.
func (e *Engine) Flows(n int) []FlowState {
	all := e.live()
	slices.SortFunc(all, func(a, b *flow) int {
		return cmp.Or(cmp.Compare(b.counts.admitted.Load(), a.counts.admitted.Load()),
			cmp.Compare(a.salt.Sum(), b.salt.Sum()))
	})
	out := make([]FlowState, min(len(all), max(n, 0)))
	for i := range out {
		out[i] = all[i].state(e)
	}
	return out
}

// LimitMode is the mode of one limit of a tenant at this replica.
type LimitMode struct {
	Name  string
	Mode  config.Mode
	Pools []string // that it applies to; none: all
}

// Modes returns the limits of a tenant as they are in force, inherited ones included; nil for a tenant that is
// not configured. O(limits of the tenant).
func (e *Engine) Modes(tenant string) []LimitMode {
	s := e.snap.Load()
	if s == nil || s.tenants[tenant] == nil {
		return nil
	}
	out := make([]LimitMode, len(s.tenants[tenant].limits))
	for i, l := range s.tenants[tenant].limits {
		out[i] = LimitMode{l.name, l.mode, slices.Clone(l.pools)}
	}
	return out
}

// state returns the state of the flow, as of its last advance.
func (f *flow) state(e *Engine) FlowState {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookUpSums(e)
	t, c := &f.terms, &f.pace.controller
	out := FlowState{
		Tenant: f.tenant, Pool: f.pool, Mode: t.mode, Law: t.queueing.Law, Share: t.vmax,
		Rate: c.Rate(), Demand: c.Want(), Credit: units(f.credit.amount.Load()),
		Waiting: int(f.credit.waiting.Load()), Held: f.held.Load().count(), Admitted: f.counts.admittedSoFar(),
		Lost: t.expired || f.credit.open.Load(), Flight: f.flight.Load(),
		Claimed: Claimed{Others: t.sums.Claims, Active: t.sums.Active, Unsaturated: t.sums.Unsaturated, Fair: 1},
	}
	for i := range f.counts.rejected {
		out.Rejected += f.counts.rejected[i].Load()
	}
	if fair := c.Fair(); fair > 0 && t.vmax > 0 { // it has been stepped
		out.Claimed.Fair = math.Min(fair/t.vmax, 1)
	}
	return out
}

// Standing returns what is known of the membership and of the leases.
func (e *Engine) Standing() Standing {
	m, sh := e.member.Load(), e.shares.Load()
	s := Standing{
		Replicas: int(m.Replicas), Weight: m.Weight, TotalWeight: m.Total, Absent: m.Absent,
		Lag: time.Duration(m.Lag * 1e9), Isolation: m.Isolation, Shares: sh.stats(),
	}
	if snap := e.snap.Load(); snap != nil {
		s.Revision = snap.revision
	}
	return s
}

// Pools returns the names of the configured pools, in their order.
func (e *Engine) Pools() []string {
	s := e.snap.Load()
	if s == nil {
		return nil
	}
	names := make([]string, len(s.list))
	for i := range s.list {
		names[i] = s.list[i].Name
	}
	return names
}

// OnLoss returns a pool's policy for lost shares; false: there is no such pool, or no
// configuration yet.
func (e *Engine) OnLoss(pool string) (config.OnLoss, bool) {
	s := e.snap.Load()
	if s == nil {
		return config.Freeze, false
	}
	i, ok := s.pools[pool]
	if !ok {
		return config.Freeze, false
	}
	return s.list[i].OnLoss, true
}

// explainSlots appends the states of the concurrency limits that apply to a request.
func (e *Engine) explainSlots(c *call, out []LimitState) []LimitState {
	for _, l := range c.route.slots {
		switch {
		case l.classes&c.classes == 0:
			continue
		case l.quota != nil:
			out = append(out, e.quotaState(l, c))
			continue
		}
		s, client := e.slotState(l, c), c.under(l)
		state := LimitState{Name: l.name, Mode: l.mode, Concurrency: l.slotsOf(client), InFlight: s.Used,
			Free: float64(s.Idle), Passes: s.passes(), Silent: s.Next == slots.CutOff}
		if !state.Passes {
			state.Wait = time.Duration(slotRetry)
		}
		if !l.perTenant {
			state.Client = client
		}
		out = append(out, state)
	}
	return out
}
