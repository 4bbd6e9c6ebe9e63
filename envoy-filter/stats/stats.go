// Package stats publishes the engine's counters as Envoy's metrics.
//
// # Model
//
// A request touches no metric: the engine counts in its own memory, and Envoy's main thread publishes the
// increments twice a second. The outcomes of titrate_requests_total are disjoint, so their sum is the number of
// decided requests. Properties that a request can have besides its outcome (waited, marked, shadowed) have
// their own counters. The time that requests were held is a histogram. The ticker collects it in the buckets
// that waits.go has. Labels are pools and outcomes only, never tenants or clients, so the configuration bounds
// the number of series.
//
// Publishing costs O(pools × outcomes). Every ten seconds it also counts the live keys,
// O(key table).
package stats

import (
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/enforcer"
)

// Metric is one metric of the table.
type Metric uint8

// The metrics; the table below has their names.
const (
	Requests Metric = iota
	Waited
	Marked
	Shadowed
	Overflow
	PlanDefault
	RateNotTaken
	Panics
	LinkSessions
	LinkMalformed
	ConfigRefused
	CostRefused
	Usage
	DecisionsUntold
	LimitsLeftOut
	Held
	Keys
	KeysContended
	Flows
	KeysParted
	KeysDisplaced
	KeysBudget
	ClaimsDelayed
	ExactByPart
	ExactUncalled
	ExactWaited
	ExactUnanswered
	ExactOverBudget
	ExactKeys
	ConcurrencyInFlight
	ConcurrencySlots
	ConcurrencyKeys
	ConcurrencyCutOff
	QuotaKeys
	QuotaCutOff
	LinkConnected
	ConfigRevision
	SharesEpoch
	SharesStale
	Goroutines
	PoolHeld
	PoolInFlight
	Wait
	metrics
)

// Kind of a metric.
type Kind uint8

// The kinds.
const (
	Counter Kind = iota
	Gauge
	Histogram
)

// Definition is a metric's name, labels and meaning.
type Definition struct {
	Name   string
	Labels []string
	Kind   Kind
	Help   string
}

// Table defines each Metric, in order.
var Table = [metrics]Definition{
	Requests: {"titrate_requests_total", []string{"pool", "outcome"}, Counter,
		"Decided requests, by outcome: admitted, cancelled (the client went away during the wait), or a reason of " +
			"refusal. Reasons are client_limit, tenant_share, queue_full, queue_timeout, unknown_tenant, " +
			"not_configured. Without a pool (-) it is booted, bypassed or unpooled, which are admitted."},
	Waited: {"titrate_waited_total", []string{"pool"}, Counter,
		"Requests that were held."},
	Marked: {"titrate_marked_total", []string{"pool"}, Counter,
		"Requests that were admitted with a congestion mark."},
	Shadowed: {"titrate_shadowed_total", []string{"pool"}, Counter,
		"Requests that passed only because of a mode SHADOW."},
	Overflow: {"titrate_overflow_total", nil, Counter,
		"Decisions with a key that clients without their own share."},
	PlanDefault: {"titrate_plan_default_total", []string{"outcome"}, Counter,
		"Requests that a limit with plans decided by its own numbers. They named no plan (missing), or a plan that " +
			"the limit does not have (unknown). Only of limits with plans."},
	RateNotTaken: {"titrate_requested_rate_not_taken_total", []string{"outcome"}, Counter,
		"Requests that stated no rate (missing), no readable rate (malformed), or a rate beyond the bounds " +
			"(bounded). Only of limits with requested_rate."},
	Panics: {"titrate_panics_total", nil, Counter,
		"Panics that were recovered: bugs."},
	LinkSessions: {"titrate_link_sessions_total", nil, Counter,
		"Connections to the agent."},
	LinkMalformed: {"titrate_link_malformed_total", nil, Counter,
		"Connections that ended by malformed bytes."},
	ConfigRefused: {"titrate_config_refused_total", nil, Counter,
		"Configurations that were refused; the one before stayed in force."},
	CostRefused: {"titrate_response_cost_refused_total", nil, Counter,
		"Costs in responses that were no finite number at or above 0."},
	Usage: {"titrate_response_usage_total", []string{"outcome"}, Counter,
		"Answers whose usage a cost needs: read; encoded (their content-encoding is not read); missing (no usage at " +
			"their end); cut (their stream ended early). What is charged: filter.md. Only for costs of usage."},
	DecisionsUntold: {"titrate_decisions_untold_total", nil, Counter,
		"Refused, held, marked or shadowed requests that were not reported to the agent one by one: there were " +
			"too many in 250 ms. The command titrate why request does not know them (observe.md)."},
	LimitsLeftOut: {"titrate_limits_left_out", nil, Gauge,
		"Limits and quotas of the configuration in force that this filter does not enforce."},
	Held: {"titrate_held", nil, Gauge,
		"Requests held now."},
	Keys: {"titrate_keys", nil, Gauge,
		"Keys in use, so not at their initial state."},
	KeysContended: {"titrate_keys_contended", nil, Gauge,
		"Contended keys."},
	Flows: {"titrate_flows", nil, Gauge,
		"Pairs of a tenant and a pool that it used in the last one or two minutes."},
	KeysParted: {"titrate_keys_parted_total", nil, Counter,
		"Requests of keys beyond the budget of contended keys: this gateway held them to its part of the limit."},
	KeysDisplaced: {"titrate_keys_displaced_total", nil, Counter,
		"Contended keys that were replaced by a key that had spent more."},
	KeysBudget: {"titrate_keys_contended_budget", nil, Gauge,
		"The most contended keys: contended_keys of the bootstrap configuration."},
	ClaimsDelayed: {"titrate_claims_delayed_total", nil, Counter,
		"Claims of contended keys that reached the agent a period (50 ms) late or more. With more than 131,072 " +
			"keys in use at a time they take turns."},
	ExactByPart: {"titrate_exact_by_part_total", nil, Counter,
		"Requests that this gateway's standing parts of EXACT limits' buckets admitted: no owner was asked."},
	ExactUncalled: {"titrate_exact_calls_left_out_total", nil, Counter,
		"Calls of standing parts that this gateway had no room for: the owners go without these parts."},
	ExactWaited: {"titrate_exact_waited_total", nil, Counter,
		"Requests that waited for the owner of an EXACT limit's key; titrate_wait_ms says how long."},
	ExactUnanswered: {"titrate_exact_unanswered_total", nil, Counter,
		"Requests to EXACT limits that the ledger decided. The owner did not answer, there was no agent, or the " +
			"question about a new key was not sent."},
	ExactOverBudget: {"titrate_exact_keys_over_budget_total", nil, Counter,
		"Requests of new keys of EXACT limits that the ledger decided. Their limit had asked for its part of the " +
			"questions or keys, or the owner had no room."},
	ExactKeys: {"titrate_exact_keys", nil, Gauge,
		"Keys of EXACT limits that this gateway knows."},
	ConcurrencyInFlight: {"titrate_concurrency_in_flight", nil, Gauge,
		"Requests in flight here that have a slot of a limit with a concurrency, counted for each such limit."},
	ConcurrencySlots: {"titrate_concurrency_slots", nil, Gauge,
		"Slots of limits with a concurrency that are here, in use or idle."},
	ConcurrencyKeys: {"titrate_concurrency_keys", nil, Gauge,
		"Keys of limits with a concurrency that this gateway uses."},
	ConcurrencyCutOff: {"titrate_concurrency_cut_off_total", nil, Counter,
		"Requests that a limit with a concurrency refused because the key's owner did not answer, or without an " +
			"agent."},
	QuotaKeys: {"titrate_quota_keys", nil, Gauge,
		"Keys of limits with a quota that this gateway uses."},
	QuotaCutOff: {"titrate_quota_cut_off_total", nil, Counter,
		"Requests that a limit with a quota refused because the key's owner did not answer, or without an agent."},
	LinkConnected: {"titrate_link_connected", nil, Gauge,
		"1 while the agent is linked."},
	ConfigRevision: {"titrate_config_revision", nil, Gauge,
		"Revision of the configuration in force."},
	SharesEpoch: {"titrate_shares_epoch", nil, Gauge,
		"Epoch of the shares in force."},
	SharesStale: {"titrate_shares_stale", nil, Gauge,
		"1 while the shares are frozen."},
	Goroutines: {"titrate_goroutines", nil, Gauge,
		"Goroutines of the filter in this process; constant after the start."},
	PoolHeld: {"titrate_pool_held", []string{"pool"}, Gauge,
		"Requests to the pool held now."},
	PoolInFlight: {"titrate_pool_in_flight", []string{"pool"}, Gauge,
		"Cost at the upstream now, as this gateway counts, whole units. Only of adaptive pools."},
	Wait: {"titrate_wait_ms", []string{"pool", "outcome"}, Histogram,
		"How long requests were held, by outcome: admitted, refused. Requests without a wait are not counted. In " +
			"milliseconds; the error is less than an eighth plus half a millisecond."},
}

// NoPool is the label of requests that reached no pool.
const NoPool = "-"

// The outcomes of Requests, other than the reasons of a refusal.
const (
	Admitted  = "admitted"  // also if it waited, was marked or shadowed
	Cancelled = "cancelled" // its stream ended while it waited
	Booted    = "booted"    // admitted before the first configuration
	Bypassed  = "bypassed"  // of an unknown tenant, admitted
	Unpooled  = "unpooled"  // to an unknown pool, admitted
)

// Sink receives metrics: Envoy, or a test.
type Sink interface {
	// Count adds to a counter; labels are in the order of its definition.
	Count(m Metric, delta uint64, labels ...string)
	// Set sets a gauge; labels as above.
	Set(m Metric, value uint64, labels ...string)
	// Observe records a value in a histogram, times times; labels as above.
	Observe(m Metric, value, times uint64, labels ...string)
}

// Process are the numbers of the process that the engine does not count.
type Process struct {
	Panics, LinkSessions, LinkMalformed, ConfigRefused, CostRefused, DecisionsUntold uint64
	LinkConnected                                                                    bool
	Usage                                                                            [enforcer.Usages]uint64
	Goroutines                                                                       int
	LimitsLeftOut                                                                    int64
}

// keysEvery: the live keys are counted with every 20th publication.
const keysEvery = 20

// Publisher publishes the changes since its last call. One caller at a time.
type Publisher struct {
	engine *limiter.Engine
	sink   Sink
	now    func() int64
	stats  limiter.Stats
	sent   map[series]uint64
	calls  int
	// Waits are published with the engine's counters.
	Waits Waits
}

type series struct {
	metric        Metric
	pool, outcome string
}

// New returns a publisher of the engine's counters; now is the engine's clock.
func New(engine *limiter.Engine, sink Sink, now func() int64) *Publisher {
	return &Publisher{engine: engine, sink: sink, now: now, sent: map[series]uint64{}}
}

// Publish sends the changes since the last call.
func (p *Publisher) Publish(process Process) {
	keys := p.calls%keysEvery == 0
	p.calls++
	p.stats.Keys = -1
	if keys {
		p.stats.Keys = 0
	}
	p.engine.Stats(p.now(), &p.stats)
	s := &p.stats
	for i := range s.Pools {
		p.publishPool(&s.Pools[i])
	}
	for r, n := range s.Rejected {
		p.count(Requests, n, NoPool, limiter.Reason(r).String())
	}
	p.count(Requests, s.Booted, NoPool, Booted)
	p.count(Requests, s.Bypassed, NoPool, Bypassed)
	p.count(Requests, s.Unpooled, NoPool, Unpooled)
	p.count(Overflow, s.Overflow)
	p.count(PlanDefault, s.PlanMissing, "missing")
	p.count(PlanDefault, s.PlanUnknown, "unknown")
	p.count(RateNotTaken, s.RateMissing, "missing")
	p.count(RateNotTaken, s.RateMalformed, "malformed")
	p.count(RateNotTaken, s.RateBounded, "bounded")
	p.count(KeysParted, s.Unpromoted)
	p.count(KeysDisplaced, s.Displaced)
	p.count(ClaimsDelayed, s.Delayed)
	p.count(ExactByPart, s.Exact.ByPart)
	p.count(ExactUncalled, s.Exact.Uncalled)
	p.count(ExactWaited, s.Exact.Waited)
	p.count(ExactUnanswered, s.Exact.Unanswered)
	p.count(ExactOverBudget, s.Exact.Unowned)
	p.count(ConcurrencyCutOff, s.Slots.CutOff)
	p.count(QuotaCutOff, s.Quotas.CutOff)
	p.count(Panics, process.Panics)
	p.count(LinkSessions, process.LinkSessions)
	p.count(LinkMalformed, process.LinkMalformed)
	p.count(ConfigRefused, process.ConfigRefused)
	p.count(CostRefused, process.CostRefused)
	for u, n := range process.Usage {
		p.count(Usage, n, enforcer.Usage(u).String())
	}
	p.count(DecisionsUntold, process.DecisionsUntold)
	p.setGauges(process, keys)
	p.Waits.publish(p.sink)
}

// Parted returns the published value of KeysParted.
func (p *Publisher) Parted() uint64 { return p.stats.Unpromoted }

func (p *Publisher) publishPool(pool *limiter.PoolStats) {
	p.count(Requests, pool.Admitted, pool.Pool, Admitted)
	p.count(Requests, pool.Cancelled, pool.Pool, Cancelled)
	for r, n := range pool.Rejected {
		p.count(Requests, n, pool.Pool, limiter.Reason(r).String())
	}
	p.count(Waited, pool.Waited, pool.Pool)
	p.count(Marked, pool.Marked, pool.Pool)
	p.count(Shadowed, pool.Shadowed, pool.Pool)
	p.sink.Set(PoolHeld, uint64(max(pool.Held, 0)), pool.Pool)
	if pool.Adaptive {
		p.sink.Set(PoolInFlight, uint64(max(pool.InFlight, 0)+.5), pool.Pool)
	}
}

func (p *Publisher) setGauges(process Process, keys bool) {
	s := &p.stats
	if keys {
		p.sink.Set(Keys, uint64(s.Keys))
	}
	p.sink.Set(Held, uint64(max(s.Held, 0))) // Envoy's gauges wrap below zero
	p.sink.Set(KeysContended, uint64(s.Contended))
	p.sink.Set(KeysBudget, uint64(s.Budget))
	p.sink.Set(Flows, uint64(s.Flows))
	p.sink.Set(ExactKeys, uint64(s.Exact.Keys))
	p.sink.Set(ConcurrencyInFlight, uint64(max(s.Slots.Used, 0)))
	p.sink.Set(ConcurrencySlots, uint64(max(s.Slots.Slots, 0)))
	p.sink.Set(ConcurrencyKeys, uint64(s.Slots.Keys))
	p.sink.Set(QuotaKeys, uint64(s.Quotas.Keys))
	p.sink.Set(ConfigRevision, uint64(max(s.Revision, 0)))
	p.sink.Set(LimitsLeftOut, uint64(max(process.LimitsLeftOut, 0)))
	p.sink.Set(SharesEpoch, uint64(max(s.Shares.Epoch, 0)))
	p.sink.Set(SharesStale, flag(s.Shares.Stale))
	p.sink.Set(LinkConnected, flag(process.LinkConnected))
	p.sink.Set(Goroutines, uint64(max(process.Goroutines, 0)))
}

// count publishes the growth of a total. If a total went back, which would be a fault
// of its source, nothing is published until it has caught up.
func (p *Publisher) count(metric Metric, total uint64, labels ...string) {
	if total == 0 {
		return
	}
	key := series{metric: metric}
	switch len(labels) {
	case 2:
		key.pool, key.outcome = labels[0], labels[1]
	case 1:
		key.pool = labels[0]
	}
	last := p.sent[key]
	if total <= last {
		return
	}
	p.sent[key] = total
	p.sink.Count(metric, total-last, labels...)
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
