package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/agent/gossip"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/linkserver"
	"github.com/titrate/titrate/services/agent/stream"
	"github.com/titrate/titrate/services/agent/tokens"
	"github.com/titrate/titrate/services/rls"
	"github.com/titrate/titrate/services/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// measurements are the values of one scrape, read once.
type measurements struct {
	s      Status
	core   core.Status
	gossip gossip.Stats
	link   linkserver.Stats
	stream stream.Status
	rls    *rls.Stats // nil: there is no such service
}

// instrument is one metric. Prometheus adds titrate's unit and _total.
type instrument struct {
	name, unit, help string
	labels           []string
	counter          bool
	read             func(measurements, func(float64, ...attribute.KeyValue))
}

// one reads a metric without attributes.
func one(read func(measurements) float64) func(measurements, func(float64, ...attribute.KeyValue)) {
	return func(m measurements, put func(float64, ...attribute.KeyValue)) { put(read(m)) }
}

// two reads a metric for both directions.
func two(in, out func(measurements) uint64) func(measurements, func(float64, ...attribute.KeyValue)) {
	return func(m measurements, put func(float64, ...attribute.KeyValue)) {
		put(float64(in(m)), attribute.String("direction", "in"))
		put(float64(out(m)), attribute.String("direction", "out"))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// level of isolation: 0 connected, 1 frozen, 2 split.
func level(name string) float64 {
	return float64(max(0, slices.Index([]string{"CONNECTED", "FROZEN", "SPLIT"}, name)))
}

func (m measurements) peersAlive() float64 {
	n := 0
	for _, p := range m.s.Peers {
		if p.Alive {
			n++
		}
	}
	return float64(n)
}

func (m measurements) leftOut() float64 {
	most := 0 // of what the agent has passed on
	for _, g := range m.s.Gateways {
		most = max(most, g.LimitsLeftOut)
	}
	return float64(m.s.LimitsLeftOut + most)
}

// outcomes puts what became of requests: of limits, or of tenants and pools.
func (m measurements) outcomes(put func(float64, ...attribute.KeyValue), ofLimits bool) {
	for _, s := range m.core.Series {
		if s.OfLimit != ofLimits {
			continue
		}
		by := attribute.String("pool", s.Pool)
		if ofLimits {
			by = attribute.String("limit", s.Limit)
		}
		names := []string{"admitted", "waited", "marked", "shadowed", "client_limit", "tenant_share", "queue_full",
			"queue_timeout"}
		for i, name := range names {
			if n := *s.Counts.Fields()[i]; n > 0 {
				put(float64(n), attribute.String("gateway", s.Gateway), attribute.String("tenant", s.Tenant), by,
					attribute.String("outcome", name))
			}
		}
	}
}

// instruments are all metrics of the agent.
var instruments = []instrument{
	{name: "titrate.agent.gateways",
		help: "Filters linked now.",
		read: one(func(m measurements) float64 { return float64(len(m.s.Gateways)) })},
	{name: "titrate.agent.limits.left.out",
		help: "Limits and quotas of the configuration that are not enforced, because they are not valid or cannot " +
			"be read. The number adds up the agent and the filter with the most.",
		read: one(measurements.leftOut)},
	{name: "titrate.agent.peers", help: "Other agents that are alive.", read: one(measurements.peersAlive)},
	{name: "titrate.agent.peers.missing",
		help: "Other agents that failed or are unreachable, and did not leave; above 0 claims of some gateways are " +
			"missing.",
		read: one(func(m measurements) float64 { return float64(len(m.s.MissingPeers)) })},
	{name: "titrate.agent.members.unheard",
		help: "Gateways of the membership whose claims are not received; above 0 limits are split without them.",
		read: one(func(m measurements) float64 { return float64(len(m.s.UnheardMembers)) })},
	{name: "titrate.agent.gossip.delay", unit: "s",
		help: "Largest one-way gossip delay in force.",
		read: one(func(m measurements) float64 { return m.s.GossipDelayMs / 1000 })},
	{name: "titrate.agent.way", unit: "s",
		help: "One way to the farthest other agent, as the last 32 packets take in the median. It is half of the " +
			"time until an acknowledgement, less what the other agent kept it. -1 while it is not known.",
		read: one(func(m measurements) float64 {
			if m.core.Way.To == "" {
				return -1
			}
			return m.core.Way.Longest.Seconds()
		})},
	{name: "titrate.agent.lag", unit: "s",
		help: "Time until all have received a claim, at most.",
		read: one(func(m measurements) float64 { return m.s.LagMs / 1000 })},
	{name: "titrate.agent.contended.keys",
		help: "Keys that gateways here use, or that they are sent sums of.",
		read: one(func(m measurements) float64 { return float64(m.s.ContendedKeys) })},
	{name: "titrate.agent.double.replicas",
		help: "Replica names that several living Envoys have now.",
		read: one(func(m measurements) float64 { return float64(len(m.s.DoubleReplicas)) })},
	{name: "titrate.agent.spent.keys",
		help: "Keys whose use is remembered for a gateway that starts anew.",
		read: one(func(m measurements) float64 { return float64(m.s.SpentKeys) })},
	{name: "titrate.agent.spent.lost", counter: true,
		help: "Keys that are not remembered, since too many have spent something.",
		read: one(func(m measurements) float64 { return float64(m.s.SpentKeysLost) })},
	{name: "titrate.agent.isolation",
		help: "0 a majority of the members' agents is reachable, 1 frozen, 2 split.",
		read: one(func(m measurements) float64 { return level(m.s.Isolation) })},
	{name: "titrate.agent.stream.connected",
		help: "1 while the coordinator is reachable, or each coordinator if several share the pools.",
		read: one(func(m measurements) float64 { return truth(m.s.Stream.Connected) })},
	{name: "titrate.agent.epoch",
		help: "Highest leader epoch applied.",
		read: one(func(m measurements) float64 { return float64(m.s.Epoch) })},
	{name: "titrate.agent.config.revision",
		help: "Configuration in force.",
		read: one(func(m measurements) float64 { return float64(m.s.ConfigRevision) })},
	{name: "titrate.agent.config.resent", counter: true,
		help: "Changes of the configuration that a gateway refused and was then sent the whole.",
		read: one(func(m measurements) float64 { return float64(m.core.Resent) })},
	{name: "titrate.agent.snapshot.unwritten",
		help: "Vain tries to write the last good snapshot since it was written last, 0.",
		read: one(func(m measurements) float64 { return float64(m.s.SnapshotFailures) })},
	{name: "titrate.agent.shares.age", unit: "s",
		help: "Time since the shares were renewed, -1 never.",
		read: one(func(m measurements) float64 { return m.s.SharesAgeSeconds })},
	{name: "titrate.agent.shares.stale",
		help: "1 while the shares are past their soft expiry.",
		read: one(func(m measurements) float64 { return truth(m.s.SharesStale) })},
	{name: "titrate.agent.gossip.bytes", counter: true, labels: []string{"direction"}, unit: "By",
		help: "Datagram bytes on the wire, without IP and UDP headers.",
		read: two(func(m measurements) uint64 { return m.gossip.BytesIn },
			func(m measurements) uint64 { return m.gossip.BytesOut })},
	{name: "titrate.agent.gossip.packets", counter: true, labels: []string{"direction"},
		help: "Datagrams.",
		read: two(func(m measurements) uint64 { return m.gossip.PacketsIn },
			func(m measurements) uint64 { return m.gossip.PacketsOut })},
	{name: "titrate.agent.owned.keys",
		help: "Keys of which this agent is the owner: it adds up all replicas' claims.",
		read: one(func(m measurements) float64 { return float64(m.core.Aggregation.Owned) })},
	{name: "titrate.agent.gossip.keys",
		help: "Gossip keys in force: 0 without encryption, 2 while a key is replaced by another.",
		read: one(func(m measurements) float64 { return float64(m.gossip.Keys) })},
	{name: "titrate.agent.tokens.keys",
		help: "Keys of EXACT limits whose bucket this agent has.",
		read: one(func(m measurements) float64 { return float64(m.core.Tokens.Keys) })},
	{name: "titrate.agent.exact",
		help: "1 while limits that state no precision are EXACT, see --exact-within.",
		read: one(func(m measurements) float64 { return truth(m.core.Exact) })},
	{name: "titrate.agent.exact.switches", counter: true,
		help: "How often limits that state no precision became EXACT or LOCAL.",
		read: one(func(m measurements) float64 { return float64(m.core.Switches) })},
	{name: "titrate.agent.tokens.messages", counter: true, labels: []string{"kind"},
		help: "What gateways asked of these buckets (request), what they were granted, and what was recalled.",
		read: func(m measurements, put func(float64, ...attribute.KeyValue)) {
			put(float64(m.core.Tokens.Requests), attribute.String("kind", "request"))
			put(float64(m.core.Tokens.Grants), attribute.String("kind", "grant"))
			put(float64(m.core.Tokens.Recalls), attribute.String("kind", "recall"))
		}},
	{name: "titrate.agent.tokens.asked", counter: true,
		help: "Questions of gateways here to the owners of EXACT limits' keys.",
		read: one(func(m measurements) float64 { return float64(m.core.Tokens.Asked) })},
	{name: "titrate.agent.tokens.dropped", counter: true, labels: []string{"reason"},
		help: "Requests for tokens without tokens in return, by reason: astray (another owner), unusable (numbers " +
			"out of bounds) or unknown (no such limit here). Or it is processes (more than 512 of an agent) or " +
			"crowded (no room for the key).",
		read: func(m measurements, put func(float64, ...attribute.KeyValue)) {
			for why := tokens.Astray; why < tokens.Drops; why++ {
				put(float64(m.core.Tokens.Dropped[why]), attribute.String("reason", why.String()))
			}
		}},
	{name: "titrate.agent.gossip.records", counter: true,
		help: "Claims and sums sent to other agents.",
		read: one(func(m measurements) float64 { return float64(m.core.Traffic.Records) })},
	{name: "titrate.agent.gossip.waiting",
		help: "Claims and sums that wait to be sent to other agents.",
		read: one(func(m measurements) float64 { return float64(m.core.Traffic.Waiting) })},
	{name: "titrate.agent.gossip.deferred", counter: true,
		help: "Claims and sums that did not fit into the budget of packets and bytes, counted each time that " +
			"packets leave without them. Their wait is part of titrate_agent_lag_seconds.",
		read: one(func(m measurements) float64 { return float64(m.core.Traffic.Deferred) })},
	{name: "titrate.agent.malformed", counter: true, labels: []string{"source"},
		help: "Messages that did not decode.",
		read: func(m measurements, put func(float64, ...attribute.KeyValue)) {
			put(float64(m.link.Malformed), attribute.String("source", "link"))
			put(float64(m.gossip.Dropped[schedule.Malformed]), attribute.String("source", "gossip"))
		}},
	{name: "titrate.agent.gossip.dropped", counter: true, labels: []string{"reason"},
		help: "Packets of other agents that were dropped, by reason: malformed, version (none in common), " +
			"unknown_sender, forged, replayed. Others are unopened, foreign (of another user of memberlist), " +
			"overflow (too many at once), stale (came while the process stood still). Unopened is sealed with a " +
			"key that is not in --gossip-key-file; a connection counts as a packet.",
		read: func(m measurements, put func(float64, ...attribute.KeyValue)) {
			for why, n := range m.gossip.Dropped {
				put(float64(n), attribute.String("reason", schedule.Drop(why).String()))
			}
		}},
	{name: "titrate.agent.link.accepted", counter: true,
		help: "Links opened.",
		read: one(func(m measurements) float64 { return float64(m.link.Accepted) })},
	{name: "titrate.agent.link.refused", counter: true,
		help: "Links refused.",
		read: one(func(m measurements) float64 { return float64(m.link.Refused) })},
	{name: "titrate.agent.link.dropped", counter: true, labels: []string{"reason"},
		help: "Dropped or cut parts of gateways' messages. Reasons: identity (another process has the name and " +
			"generation), number (out of its bounds), text (too long, or no UTF-8), room (none left).",
		read: func(m measurements, put func(float64, ...attribute.KeyValue)) {
			for why, n := range m.core.Doubted {
				put(float64(n), attribute.String("reason", core.Doubt(why).String()))
			}
		}},
	{name: "titrate.agent.claims.refused", counter: true,
		help: "Claims with unusable numbers, or beyond a budget of keys or names.",
		read: one(func(m measurements) float64 { return float64(m.core.Aggregation.Refused) })},
	{name: "titrate.agent.conflicts", counter: true,
		help: "States of a gateway that another agent speaks for: two gateways have one name, or an agent " +
			"claims what is not its own.",
		read: one(func(m measurements) float64 { return float64(m.core.Aggregation.Conflicts) })},
	{name: "titrate.agent.requests", counter: true, labels: []string{"gateway", "tenant", "pool", "outcome"},
		help: "Requests by what became of them, by gateway, tenant and pool. The first 100 pairs that were limited " +
			"have series of their own, all others are tenant _other.",
		read: func(m measurements, put func(float64, ...attribute.KeyValue)) { m.outcomes(put, false) }},
	{name: "titrate.agent.limit.requests", counter: true, labels: []string{"gateway", "tenant", "limit", "outcome"},
		help: "Requests that a limit did not let pass at once, by gateway, tenant and limit, and outcome. " +
			"Bounded as titrate_agent_requests_total. Only once a limit has stopped a request.",
		read: func(m measurements, put func(float64, ...attribute.KeyValue)) { m.outcomes(put, true) }},
	{name: "titrate.agent.limit.unasked", counter: true, labels: []string{"gateway", "tenant", "limit"},
		help: "Requests of new keys of an EXACT limit that went by the ledger: the limit had used up its " +
			"questions to owners. Bounded as titrate_agent_requests_total. Only for such limits.",
		read: func(m measurements, put func(float64, ...attribute.KeyValue)) {
			for _, s := range m.core.Series {
				if s.OfLimit && s.Counts.OwnerUnasked > 0 {
					put(float64(s.Counts.OwnerUnasked), attribute.String("gateway", s.Gateway),
						attribute.String("tenant", s.Tenant), attribute.String("limit", s.Limit))
				}
			}
		}},
	{name: "titrate.agent.activity.rows",
		help: "Pairs of tenant and pool, and limits, of whose requests the last minute is known; at most 65,536.",
		read: one(func(m measurements) float64 { return float64(m.core.ActivityRows) })},
	{name: "titrate.agent.activity.lost", counter: true,
		help: "Reports about a pair or a limit beyond that bound; top counts them in its last row.",
		read: one(func(m measurements) float64 { return float64(m.core.ActivityLost) })},
	{name: "titrate.agent.streams", counter: true,
		help: "Control streams that ended after they brought something.",
		read: one(func(m measurements) float64 { return float64(m.stream.Streams) })},
	{name: "titrate.agent.stream.failures", counter: true,
		help: "Control streams that brought nothing.",
		read: one(func(m measurements) float64 { return float64(m.stream.Failures) })},
}

// Metrics describes the agent's metrics, as Prometheus names them.
func Metrics() []telemetry.Description {
	out := []telemetry.Description{describeWaits()}
	for _, m := range slices.Concat(instruments, rlsInstruments) {
		kind := telemetry.Gauge
		if m.counter {
			kind = telemetry.Counter
		}
		out = append(out, telemetry.Describe(m.name, kind, m.unit, m.help, m.labels...))
	}
	return out
}

// registerMetrics registers the metrics.
func (a *Agent) registerMetrics() (err error) {
	meter := a.metrics.Meter("github.com/titrate/titrate/services/agent")
	if a.waits, err = newWaits(meter); err != nil {
		return fmt.Errorf("metric %s: %w", waitsName, err)
	}
	instruments := slices.Concat(instruments, rlsInstruments)
	all := make([]metric.Float64Observable, len(instruments))
	observables := make([]metric.Observable, len(instruments))
	for i, m := range instruments {
		var err error
		if m.counter {
			all[i], err = meter.Float64ObservableCounter(m.name, metric.WithDescription(m.help),
				metric.WithUnit(m.unit))
		} else {
			all[i], err = meter.Float64ObservableGauge(m.name, metric.WithDescription(m.help), metric.WithUnit(m.unit))
		}
		if err != nil {
			return fmt.Errorf("metric %s: %w", m.name, err)
		}
		observables[i] = all[i]
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		k := a.coreStatus()
		now := measurements{a.status(k), k, a.gossip.Stats(), a.server.Stats(), a.stream.Status(), nil}
		if a.rls != nil {
			s := a.rls.Stats()
			now.rls = &s
		}
		for i, m := range instruments {
			m.read(now, func(v float64, attrs ...attribute.KeyValue) {
				o.ObserveFloat64(all[i], v, metric.WithAttributes(attrs...))
			})
		}
		return nil
	}, observables...)
	return err
}
