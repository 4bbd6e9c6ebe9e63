package agent

import (
	"fmt"
	"slices"

	"github.com/titrate/titrate/services/agent/aggregation"
	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/agent/gossip"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/linkserver"
	"github.com/titrate/titrate/services/agent/owners"
	"github.com/titrate/titrate/services/agent/stream"
	"github.com/titrate/titrate/services/rlqs"
	"github.com/titrate/titrate/services/rls"
	"github.com/titrate/titrate/services/telemetry"
	"go.opentelemetry.io/otel/attribute"
)

// measurements are the values of one scrape, read once.
type measurements struct {
	s      Status
	core   core.Status
	gossip gossip.Stats
	link   linkserver.Stats
	stream stream.Status
	rls    *rls.Stats  // nil: there is no such service
	rlqs   *rlqs.Stats // likewise

	unbooked uint64 // bookings of quotas that were not sent
}

// one reads a metric without attributes.
func one(read func(measurements) float64) func(measurements, telemetry.Put) {
	return telemetry.One(read)
}

// two reads a metric for both directions.
func two(in, out func(measurements) uint64) func(measurements, telemetry.Put) {
	return func(m measurements, put telemetry.Put) {
		put(float64(in(m)), attribute.String("direction", "in"))
		put(float64(out(m)), attribute.String("direction", "out"))
	}
}

// ofSites reads a metric of each other site.
func ofSites(read func(aggregation.SiteStatus) float64) func(measurements, telemetry.Put) {
	return func(m measurements, put telemetry.Put) {
		for _, s := range m.s.Sites {
			put(read(s), attribute.String("site", s.Name))
		}
	}
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
func (m measurements) outcomes(put telemetry.Put, ofLimits bool) {
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
var instruments = []telemetry.Instrument[measurements]{
	{Name: "titrate.agent.gateways", Help: "Filters linked now.",
		Read: one(func(m measurements) float64 { return float64(len(m.s.Gateways)) })},
	{Name: "titrate.agent.limits.left.out",
		Help: "Limits and quotas of the configuration that are not enforced, because they are not valid or cannot " +
			"be read. The number adds up the agent and the filter with the most.",
		Read: one(measurements.leftOut)},
	{Name: "titrate.agent.peers", Help: "Other agents that are alive.", Read: one(measurements.peersAlive)},
	{Name: "titrate.agent.peers.missing",
		Help: "Other agents that failed or are unreachable, and did not leave; above 0 claims of some gateways are " +
			"missing.",
		Read: one(func(m measurements) float64 { return float64(len(m.s.MissingPeers)) })},
	{Name: "titrate.agent.members.unheard",
		Help: "Gateways of the membership whose claims are not received; above 0 limits are split without them.",
		Read: one(func(m measurements) float64 { return float64(len(m.s.UnheardMembers)) })},
	{Name: "titrate.agent.gossip.delay", Unit: "s", Help: "Largest one-way gossip delay in force.",
		Read: one(func(m measurements) float64 { return m.s.GossipDelayMs / 1000 })},
	{Name: "titrate.agent.way", Unit: "s",
		Help: "One way to the farthest other agent, as the last 32 packets take in the median. It is half of the " +
			"time until an acknowledgement, less what the other agent kept it. -1 while it is not known.",
		Read: one(func(m measurements) float64 {
			if m.core.Way.To == "" {
				return -1
			}
			return m.core.Way.Longest.Seconds()
		})},
	{Name: "titrate.agent.lag", Unit: "s", Help: "Time until all have received a claim, at most.",
		Read: one(func(m measurements) float64 { return m.s.LagMs / 1000 })},
	{Name: "titrate.agent.contended.keys", Help: "Keys that gateways here use, or that they are sent sums of.",
		Read: one(func(m measurements) float64 { return float64(m.s.ContendedKeys) })},
	{Name: "titrate.agent.double.replicas", Help: "Replica names that several living Envoys have now.",
		Read: one(func(m measurements) float64 { return float64(len(m.s.DoubleReplicas)) })},
	{Name: "titrate.agent.spent.keys", Help: "Keys whose use is remembered for a gateway that starts anew.",
		Read: one(func(m measurements) float64 { return float64(m.s.SpentKeys) })},
	{Name: "titrate.agent.spent.lost", Counter: true,
		Help: "Keys that are not remembered, since too many have spent something.",
		Read: one(func(m measurements) float64 { return float64(m.s.SpentKeysLost) })},
	{Name: "titrate.agent.isolation", Help: "0 a majority of the members' agents is reachable, 1 frozen, 2 split.",
		Read: one(func(m measurements) float64 { return level(m.s.Isolation) })},
	{Name: "titrate.agent.stream.connected",
		Help: "1 while the coordinator is reachable, or each coordinator if several share the pools.",
		Read: telemetry.Is(func(m measurements) bool { return m.s.Stream.Connected })},
	{Name: "titrate.agent.epoch", Help: "Highest leader epoch applied.",
		Read: one(func(m measurements) float64 { return float64(m.s.Epoch) })},
	{Name: "titrate.agent.config.revision", Help: "Configuration in force.",
		Read: one(func(m measurements) float64 { return float64(m.s.ConfigRevision) })},
	{Name: "titrate.agent.config.resent", Counter: true,
		Help: "Changes of the configuration that a gateway refused and was then sent the whole.",
		Read: one(func(m measurements) float64 { return float64(m.core.Resent) })},
	{Name: "titrate.agent.snapshot.unwritten",
		Help: "Vain tries to write the last good snapshot since it was written last, 0.",
		Read: one(func(m measurements) float64 { return float64(m.s.SnapshotFailures) })},
	{Name: "titrate.agent.shares.age", Unit: "s", Help: "Time since the shares were renewed, -1 never.",
		Read: one(func(m measurements) float64 { return m.s.SharesAgeSeconds })},
	{Name: "titrate.agent.shares.stale", Help: "1 while the shares are past their soft expiry.",
		Read: telemetry.Is(func(m measurements) bool { return m.s.SharesStale })},
	{Name: "titrate.agent.gossip.bytes", Counter: true, Labels: []string{"direction"}, Unit: "By",
		Help: "Datagram bytes on the wire, without IP and UDP headers.",
		Read: two(func(m measurements) uint64 { return m.gossip.BytesIn },
			func(m measurements) uint64 { return m.gossip.BytesOut })},
	{Name: "titrate.agent.gossip.packets", Counter: true, Labels: []string{"direction"}, Help: "Datagrams.",
		Read: two(func(m measurements) uint64 { return m.gossip.PacketsIn },
			func(m measurements) uint64 { return m.gossip.PacketsOut })},
	{Name: "titrate.agent.owned.keys", Help: "Keys of which this agent is the owner: it adds up all replicas' claims.",
		Read: one(func(m measurements) float64 { return float64(m.core.Aggregation.Owned) })},
	{Name: "titrate.agent.single.keys",
		Help: "EXACT keys used here of which one agent adds up all replicas' claims in a small fleet, too.",
		Read: one(func(m measurements) float64 { return float64(m.core.Aggregation.Singles) })},
	{Name: "titrate.agent.gossip.keys",
		Help: "Gossip keys in force: 0 without encryption, 2 while a key is replaced by another.",
		Read: one(func(m measurements) float64 { return float64(m.gossip.Keys) })},
	{Name: "titrate.agent.site.reachable", Labels: []string{"site"},
		Help: "1 while an agent of another site is received, 0 while that site is cut off. Only with sites.",
		Read: ofSites(func(s aggregation.SiteStatus) float64 { return telemetry.Truth(s.Reachable) })},
	{Name: "titrate.agent.site.keys", Labels: []string{"site"},
		Help: "Keys of this agent that are used at its site and at another one. Only with sites.",
		Read: ofSites(func(s aggregation.SiteStatus) float64 { return float64(s.Keys) })},
	{Name: "titrate.agent.site.waiting", Labels: []string{"site"},
		Help: "Records that wait to be sent to another site, see the bound on the traffic between sites. Only with " +
			"sites.",
		Read: ofSites(func(s aggregation.SiteStatus) float64 { return float64(s.Waiting) })},
	{Name: "titrate.agent.tokens.keys", Help: "Keys of EXACT limits whose bucket this agent has.",
		Read: one(func(m measurements) float64 { return float64(m.core.Tokens.Keys) })},
	{Name: "titrate.agent.parts.gateways",
		Help: "By how many gateways at least the buckets of EXACT limits are divided, as owners here count; 0: no " +
			"gateway has standing parts.",
		Read: one(func(m measurements) float64 { return float64(m.core.Tokens.Divided) })},
	{Name: "titrate.agent.exact", Help: "1 while limits that state no precision are EXACT, see --exact-within.",
		Read: telemetry.Is(func(m measurements) bool { return m.core.Exact })},
	{Name: "titrate.agent.global",
		Help: "1 while owners decide limits of the scope GLOBAL, 0 while ledgers do. Then a site, or a majority of " +
			"the agents, is unreachable.",
		Read: telemetry.Is(func(m measurements) bool { return m.core.GlobalWhy == "" })},
	{Name: "titrate.agent.exact.switches", Counter: true,
		Help: "How often limits that state no precision became EXACT or LOCAL.",
		Read: one(func(m measurements) float64 { return float64(m.core.Switches) })},
	{Name: "titrate.agent.tokens.messages", Counter: true, Labels: []string{"kind"},
		Help: "What gateways asked of these buckets (request), what they were granted (grant), and what was recalled " +
			"(recall). And the standing parts that were called (call).",
		Read: func(m measurements, put telemetry.Put) {
			put(float64(m.core.Tokens.Requests), attribute.String("kind", "request"))
			put(float64(m.core.Tokens.Grants), attribute.String("kind", "grant"))
			put(float64(m.core.Tokens.Recalls), attribute.String("kind", "recall"))
			put(float64(m.core.Tokens.Calls), attribute.String("kind", "call"))
		}},
	{Name: "titrate.agent.tokens.asked", Counter: true,
		Help: "Questions of gateways here to the owners of EXACT limits' keys.",
		Read: one(func(m measurements) float64 { return float64(m.core.Tokens.Asked) })},
	{Name: "titrate.agent.tokens.dropped", Counter: true, Labels: []string{"reason"},
		Help: "Requests for tokens without tokens in return, by reason: astray (another owner), unusable (numbers " +
			"out of bounds) or unknown (no such limit here). Or it is processes (more than 512 of an agent) or " +
			"crowded (no room for the key).",
		Read: func(m measurements, put telemetry.Put) {
			for why := owners.Astray; why < owners.Unconfirmed; why++ {
				put(float64(m.core.Tokens.Dropped[why]), attribute.String("reason", why.String()))
			}
		}},
	{Name: "titrate.agent.concurrency.keys", Help: "Keys of limits with a concurrency whose free slots this agent has.",
		Read: one(func(m measurements) float64 { return float64(m.core.Slots.Keys) })},
	{Name: "titrate.agent.concurrency.slots", Help: "Slots of these keys that gateways have, in use or idle.",
		Read: one(func(m measurements) float64 { return float64(m.core.Slots.Out) })},
	{Name: "titrate.agent.concurrency.expired", Counter: true,
		Help: "Gateways whose slots this agent has freed because it received nothing from them for 3.5 s.",
		Read: one(func(m measurements) float64 { return float64(m.core.Slots.Expired) })},
	{Name: "titrate.agent.concurrency.dropped", Counter: true, Labels: []string{"reason"},
		Help: "Messages of gateways about slots that were dropped: astray (another owner), unusable " +
			"(numbers out of bounds) or unknown (no such limit here). Or processes (more than 512 of an agent), " +
			"or crowded (no room for the key).",
		Read: func(m measurements, put telemetry.Put) {
			for why := owners.Astray; why < owners.Unconfirmed; why++ {
				put(float64(m.core.Slots.Dropped[why]), attribute.String("reason", why.String()))
			}
		}},
	{Name: "titrate.agent.quota.keys", Help: "Keys of limits with a quota whose units this agent grants.",
		Read: one(func(m measurements) float64 { return float64(m.core.Quotas.Keys) })},
	{Name: "titrate.agent.quota.granted",
		Help: "Cost that gateways have been granted of these keys in their periods of now.",
		Read: one(func(m measurements) float64 { return m.core.Quotas.Out })},
	{Name: "titrate.agent.quota.bookings", Counter: true,
		Help: "Questions to the coordinators for units of quotas, repeats and reports of the use included.",
		Read: one(func(m measurements) float64 { return float64(m.core.Quotas.Bookings) })},
	{Name: "titrate.agent.quota.booked", Counter: true, Help: "Answers of the coordinators to them.",
		Read: one(func(m measurements) float64 { return float64(m.core.Quotas.Booked) })},
	{Name: "titrate.agent.quota.unsent", Counter: true,
		Help: "Questions that were not sent, since no coordinator takes them now. Owners ask again.",
		Read: one(func(m measurements) float64 { return float64(m.unbooked) })},
	{Name: "titrate.agent.quota.dropped", Counter: true, Labels: []string{"reason"},
		Help: "Messages about quotas that were dropped. astray: another agent owns the key. unusable: numbers out of " +
			"bounds. unknown: no such limit. processes: an agent has more than 512. crowded: no room. unconfirmed: " +
			"too many ends wait.",
		Read: func(m measurements, put telemetry.Put) {
			for why := owners.Astray; why < owners.Drops; why++ {
				put(float64(m.core.Quotas.Dropped[why]), attribute.String("reason", why.String()))
			}
		}},
	{Name: "titrate.agent.gossip.records", Counter: true, Help: "Claims and sums sent to other agents.",
		Read: one(func(m measurements) float64 { return float64(m.core.Traffic.Records) })},
	{Name: "titrate.agent.gossip.waiting", Help: "Claims and sums that wait to be sent to other agents.",
		Read: one(func(m measurements) float64 { return float64(m.core.Traffic.Waiting) })},
	{Name: "titrate.agent.gossip.deferred", Counter: true,
		Help: "Claims and sums that did not fit into the budget of packets and bytes, or were more than a late peer " +
			"takes. Counted as often as packets leave without them. Their wait is part of titrate_agent_lag_seconds.",
		Read: one(func(m measurements) float64 { return float64(m.core.Traffic.Deferred) })},
	{Name: "titrate.agent.malformed", Counter: true, Labels: []string{"source"}, Help: "Messages that did not decode.",
		Read: func(m measurements, put telemetry.Put) {
			put(float64(m.link.Malformed), attribute.String("source", "link"))
			put(float64(m.gossip.Dropped[schedule.Malformed]), attribute.String("source", "gossip"))
		}},
	{Name: "titrate.agent.gossip.dropped", Counter: true, Labels: []string{"reason"},
		Help: "Packets of other agents that were dropped: malformed, version (none in common), " +
			"unknown_sender, forged, replayed, foreign (another memberlist). Overflow: too many, or not read within " +
			"half a second. Stale: the process stood still. Unopened: no key in --gossip-key-file; connections too.",
		Read: func(m measurements, put telemetry.Put) {
			for why, n := range m.gossip.Dropped {
				put(float64(n), attribute.String("reason", schedule.Drop(why).String()))
			}
		}},
	{Name: "titrate.agent.link.accepted", Counter: true, Help: "Links opened.",
		Read: one(func(m measurements) float64 { return float64(m.link.Accepted) })},
	{Name: "titrate.agent.link.refused", Counter: true, Help: "Links refused.",
		Read: one(func(m measurements) float64 { return float64(m.link.Refused) })},
	{Name: "titrate.agent.link.dropped", Counter: true, Labels: []string{"reason"},
		Help: "Dropped or cut parts of gateways' messages. Reasons: identity (another process has the name and " +
			"generation), number (out of its bounds), text (too long, or no UTF-8), room (none left).",
		Read: func(m measurements, put telemetry.Put) {
			for why, n := range m.core.Doubted {
				put(float64(n), attribute.String("reason", core.Doubt(why).String()))
			}
		}},
	{Name: "titrate.agent.claims.refused", Counter: true,
		Help: "Claims with unusable numbers, or beyond a budget of keys or names.",
		Read: one(func(m measurements) float64 { return float64(m.core.Aggregation.Refused) })},
	{Name: "titrate.agent.conflicts", Counter: true,
		Help: "States of a gateway that another agent speaks for: two gateways have one name, or an agent " +
			"claims what is not its own.",
		Read: one(func(m measurements) float64 { return float64(m.core.Aggregation.Conflicts) })},
	{Name: "titrate.agent.requests", Counter: true, Labels: []string{"gateway", "tenant", "pool", "outcome"},
		Help: "Requests by what became of them, by gateway, tenant and pool. The first 100 pairs that were limited " +
			"have series of their own, all others are tenant _other.",
		Read: func(m measurements, put telemetry.Put) { m.outcomes(put, false) }},
	{Name: "titrate.agent.limit.requests", Counter: true, Labels: []string{"gateway", "tenant", "limit", "outcome"},
		Help: "Requests that a limit did not let pass at once, by gateway, tenant and limit, and outcome. " +
			"Bounded as titrate_agent_requests_total. Only once a limit has stopped a request.",
		Read: func(m measurements, put telemetry.Put) { m.outcomes(put, true) }},
	{Name: "titrate.agent.limit.unasked", Counter: true, Labels: []string{"gateway", "tenant", "limit"},
		Help: "Requests of new keys of an EXACT limit that went by the ledger: the limit had used up its " +
			"questions to owners. Bounded as titrate_agent_requests_total. Only for such limits.",
		Read: func(m measurements, put telemetry.Put) {
			for _, s := range m.core.Series {
				if s.OfLimit && s.Counts.OwnerUnasked > 0 {
					put(float64(s.Counts.OwnerUnasked), attribute.String("gateway", s.Gateway),
						attribute.String("tenant", s.Tenant), attribute.String("limit", s.Limit))
				}
			}
		}},
	{Name: "titrate.agent.activity.rows",
		Help: "Pairs of tenant and pool, and limits, of whose requests the last minute is known; at most 65,536.",
		Read: one(func(m measurements) float64 { return float64(m.core.ActivityRows) })},
	{Name: "titrate.agent.activity.lost", Counter: true,
		Help: "Reports about a pair or a limit beyond that bound; top counts them in its last row.",
		Read: one(func(m measurements) float64 { return float64(m.core.ActivityLost) })},
	{Name: "titrate.agent.streams", Counter: true, Help: "Control streams that ended after they brought something.",
		Read: one(func(m measurements) float64 { return float64(m.stream.Streams) })},
	{Name: "titrate.agent.stream.failures", Counter: true, Help: "Control streams that brought nothing.",
		Read: one(func(m measurements) float64 { return float64(m.stream.Failures) })},
}

// table has all metrics that are read at a scrape.
func table() []telemetry.Instrument[measurements] {
	return slices.Concat(instruments, rlsInstruments, rlqsInstruments)
}

// Metrics describes the agent's metrics, as Prometheus names them.
func Metrics() []telemetry.Description {
	return append([]telemetry.Description{describeWaits()}, telemetry.DescribeAll(table())...)
}

// registerMetrics registers the metrics.
func (a *Agent) registerMetrics() (err error) {
	meter := a.metrics.Meter("github.com/titrate/titrate/services/agent")
	if a.waits, err = newWaits(meter); err != nil {
		return fmt.Errorf("metric %s: %w", waitsName, err)
	}
	return telemetry.RegisterAll(meter, table(), func() measurements {
		k := a.coreStatus()
		now := measurements{s: a.status(k), core: k, gossip: a.gossip.Stats(), link: a.server.Stats(),
			stream: a.stream.Status(), unbooked: a.unbooked.Load()}
		if a.rls != nil {
			s := a.rls.Stats()
			now.rls = &s
		}
		if a.rlqs != nil {
			s := a.rlqs.Stats()
			now.rlqs = &s
		}
		return now
	})
}
