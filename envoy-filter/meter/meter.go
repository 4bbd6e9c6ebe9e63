// Package meter turns the engine's running totals into Envoy's metrics.
//
// # Model
//
// Requests touch no metric: the engine counts in its own memory, and Envoy's
// main thread publishes twice a second what has been added. The outcomes of
// titrate_requests_total are disjoint, so their sum is the number of decided
// requests; what can be true beside an outcome (waited, marked, shadowed) has a
// counter of its own. How long requests were held is a histogram, gathered by the
// ticker in buckets of its own (waits.go). Labels are pools and outcomes only, never tenants or
// clients: the number of series is bounded by the configuration.
//
// Publishing costs O(pools × outcomes), and O(key table) every ten seconds for
// the number of live keys.
package meter

import (
	"github.com/titrate/titrate/control/limiter"
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
	Panics
	LinkSessions
	LinkMalformed
	ConfigRefused
	CostRefused
	LimitsLeftOut
	Held
	Keys
	KeysContended
	Flows
	KeysParted
	KeysDisplaced
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

// Definition is a metric's name and labels.
type Definition struct {
	Name   string
	Labels []string
	Kind   Kind
}

// Table defines each Metric, in order.
var Table = [metrics]Definition{
	Requests:       {"titrate_requests_total", []string{"pool", "outcome"}, Counter},
	Waited:         {"titrate_waited_total", []string{"pool"}, Counter},
	Marked:         {"titrate_marked_total", []string{"pool"}, Counter},
	Shadowed:       {"titrate_shadowed_total", []string{"pool"}, Counter},
	Overflow:       {"titrate_overflow_total", nil, Counter},
	Panics:         {"titrate_panics_total", nil, Counter},
	LinkSessions:   {"titrate_link_sessions_total", nil, Counter},
	LinkMalformed:  {"titrate_link_malformed_total", nil, Counter},
	ConfigRefused:  {"titrate_config_refused_total", nil, Counter},
	CostRefused:    {"titrate_response_cost_refused_total", nil, Counter},
	LimitsLeftOut:  {"titrate_limits_left_out", nil, Gauge},
	Held:           {"titrate_held", nil, Gauge},
	Keys:           {"titrate_keys", nil, Gauge},
	KeysContended:  {"titrate_keys_contended", nil, Gauge},
	Flows:          {"titrate_flows", nil, Gauge},
	KeysParted:     {"titrate_keys_parted_total", nil, Counter},
	KeysDisplaced:  {"titrate_keys_displaced_total", nil, Counter},
	LinkConnected:  {"titrate_link_connected", nil, Gauge},
	ConfigRevision: {"titrate_config_revision", nil, Gauge},
	SharesEpoch:    {"titrate_shares_epoch", nil, Gauge},
	SharesStale:    {"titrate_shares_stale", nil, Gauge},
	Goroutines:     {"titrate_goroutines", nil, Gauge},
	PoolHeld:       {"titrate_pool_held", []string{"pool"}, Gauge},
	PoolInFlight:   {"titrate_pool_in_flight", []string{"pool"}, Gauge}, // whole cost units, of adaptive pools
	Wait:           {"titrate_wait_ms", []string{"pool", "outcome"}, Histogram},
}

// NoPool is the label of requests that reached no pool.
const NoPool = "-"

// The outcomes of Requests beside the reasons of a refusal.
const (
	Admitted  = "admitted"  // waited, marked and shadowed ones included
	Cancelled = "cancelled" // gone while it waited
	Booted    = "booted"    // admitted before the first configuration
	Bypassed  = "bypassed"  // of an unknown tenant, admitted
	Unpooled  = "unpooled"  // to an unknown pool, admitted
)

// Sink is where metrics go: Envoy, or a test.
type Sink interface {
	// Count adds to a counter; labels are in the order of its definition.
	Count(m Metric, delta uint64, labels ...string)
	// Set sets a gauge; labels as above.
	Set(m Metric, value uint64, labels ...string)
	// Observe records a value so many times in a histogram; labels as above.
	Observe(m Metric, value, times uint64, labels ...string)
}

// Source is what is read beside the engine's Stats.
type Source struct {
	Panics, LinkSessions, LinkMalformed, ConfigRefused, CostRefused uint64
	LinkConnected                                                   bool
	Goroutines                                                      int // of this process
	LimitsLeftOut                                                   int64
}

// keysEvery is how many publications share one count of the live keys.
const keysEvery = 20

// Meter remembers what it has published. One caller at a time.
type Meter struct {
	engine *limiter.Engine
	sink   Sink
	now    func() int64
	stats  limiter.Stats
	sent   map[series]uint64
	round  int
	// Waits are published beside the engine's counters.
	Waits Waits
}

type series struct {
	metric        Metric
	pool, outcome string
}

// New returns a meter of the engine; now is the engine's clock.
func New(engine *limiter.Engine, sink Sink, now func() int64) *Meter {
	return &Meter{engine: engine, sink: sink, now: now, sent: map[series]uint64{}}
}

// Publish sends what has changed since the last call.
func (m *Meter) Publish(src Source) {
	keys := m.round%keysEvery == 0
	m.round++
	m.stats.Keys = -1
	if keys {
		m.stats.Keys = 0
	}
	m.engine.Stats(m.now(), &m.stats)
	s := &m.stats
	for i := range s.Pools {
		m.pool(&s.Pools[i])
	}
	for r, n := range s.Rejected {
		m.count(Requests, n, NoPool, limiter.Reason(r).String())
	}
	m.count(Requests, s.Booted, NoPool, Booted)
	m.count(Requests, s.Bypassed, NoPool, Bypassed)
	m.count(Requests, s.Unpooled, NoPool, Unpooled)
	m.count(Overflow, s.Overflow)
	m.count(KeysParted, s.Unpromoted)
	m.count(KeysDisplaced, s.Displaced)
	m.count(Panics, src.Panics)
	m.count(LinkSessions, src.LinkSessions)
	m.count(LinkMalformed, src.LinkMalformed)
	m.count(ConfigRefused, src.ConfigRefused)
	m.count(CostRefused, src.CostRefused)
	m.gauges(src, keys)
	m.Waits.publish(m.sink)
}

// Parted returns how many requests and news of keys beyond the budget were published.
func (m *Meter) Parted() uint64 { return m.stats.Unpromoted }

func (m *Meter) pool(p *limiter.PoolStats) {
	m.count(Requests, p.Admitted, p.Pool, Admitted)
	m.count(Requests, p.Cancelled, p.Pool, Cancelled)
	for r, n := range p.Rejected {
		m.count(Requests, n, p.Pool, limiter.Reason(r).String())
	}
	m.count(Waited, p.Waited, p.Pool)
	m.count(Marked, p.Marked, p.Pool)
	m.count(Shadowed, p.Shadowed, p.Pool)
	m.sink.Set(PoolHeld, uint64(max(p.Held, 0)), p.Pool)
	if p.Adaptive {
		m.sink.Set(PoolInFlight, uint64(max(p.InFlight, 0)+.5), p.Pool)
	}
}

func (m *Meter) gauges(src Source, keys bool) {
	s := &m.stats
	if keys {
		m.sink.Set(Keys, uint64(s.Keys))
	}
	m.sink.Set(Held, uint64(max(s.Held, 0))) // Envoy's gauges wrap below zero
	m.sink.Set(KeysContended, uint64(s.Contended))
	m.sink.Set(Flows, uint64(s.Flows))
	m.sink.Set(ConfigRevision, uint64(max(s.Revision, 0)))
	m.sink.Set(LimitsLeftOut, uint64(max(src.LimitsLeftOut, 0)))
	m.sink.Set(SharesEpoch, uint64(max(s.Shares.Epoch, 0)))
	m.sink.Set(SharesStale, flag(s.Shares.Stale))
	m.sink.Set(LinkConnected, flag(src.LinkConnected))
	m.sink.Set(Goroutines, uint64(max(src.Goroutines, 0)))
}

// count publishes the growth of a total. A total that went back, which would
// be a fault of its source, publishes nothing until it has caught up.
func (m *Meter) count(metric Metric, total uint64, labels ...string) {
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
	last := m.sent[key]
	if total <= last {
		return
	}
	m.sent[key] = total
	m.sink.Count(metric, total-last, labels...)
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
