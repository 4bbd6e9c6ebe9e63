package coordinator

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/console"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/fleet"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/telemetry"
)

// ofSites reads a metric of each site, where agents have sites.
func ofSites(read func(*fleet.Site) float64) func(measurements, telemetry.Put) {
	return func(m measurements, put telemetry.Put) {
		if len(m.sites) == 1 && m.sites[0].Name == "" {
			return
		}
		for i := range m.sites {
			put(read(&m.sites[i]), attribute.String("site", m.sites[i].Name))
		}
	}
}

// ownMetrics are about this coordinator and the configuration.
var ownMetrics = []telemetry.Instrument[measurements]{
	{Name: "titrate_control_streams", Help: "Agents connected.",
		Read: telemetry.One(func(m measurements) int { return len(m.connected) })},
	{Name: "titrate_members", Help: "Gateways in the membership.",
		Read: telemetry.One(func(m measurements) int { return m.view.Members })},
	{Name: "titrate_epoch", Help: "Epoch of this coordinator's leadership; 0 while another leads.",
		Read: telemetry.One(func(m measurements) int64 { return m.view.Epoch })},
	{Name: "titrate_leading", Help: "1 while this coordinator leads, or leads some of the pools.",
		Read: telemetry.Is(func(m measurements) bool { return m.state.Role == election.Leading })},
	{Name: "titrate_pools_led", Help: "Pools whose shares this coordinator sent last.",
		Read: telemetry.One(func(m measurements) int { return len(m.pools) })},
	{Name: "titrate_pools_led_away",
		Help: "Pools that this coordinator leads though most of their demand is at another site: no coordinator with " +
			"that --site is there.",
		Read: telemetry.One(func(m measurements) int { return m.o.ledAway(m.state.Sharing, m.pools) })},
	{Name: "titrate_sharers",
		Help: "Coordinators that share the pools, this one included: 1 while it leads all, 0 while it leads none.",
		Read: telemetry.One(func(m measurements) int { return sharers(m.state) })},
	{Name: "titrate_pools_not_shared",
		Help: "1 while one coordinator leads all pools although this one has --share-pools: /readyz and titrate " +
			"check say why.", Read: telemetry.Is(func(m measurements) bool { return m.o.notShared() != nil })},
	{Name: "titrate_configuration_revision", Help: "Revision of the configuration that is known.",
		Read: telemetry.One(func(m measurements) int64 { return m.revision })},
	{Name: "titrate_overrides",
		Help: "Overrides that are resources. A limit and a tenant have a million at most, an installation a million " +
			"and a half.", Read: telemetry.One(func(m measurements) int { return m.o.configuration.Overrides("") })},
	{Name: "titrate_limits_not_enforced",
		Help: "Limits and quotas of the configuration that are not enforced, at the agent or gateway with the most.",
		Read: telemetry.One(func(m measurements) int { return m.fleet.LeftOut })},
	{Name: "titrate_gateways_refusing", Help: "Gateways that refuse a configuration and keep an older one.",
		Read: telemetry.One(func(m measurements) int { return m.fleet.Refusing })},
	{Name: "titrate_site_gateways", Labels: []string{"site"},
		Help: "Gateways of the agents of a site that are connected here. Only with sites.",
		Read: ofSites(func(s *fleet.Site) float64 { return float64(len(s.Gateways)) })},
	{Name: "titrate_site_cut_off", Labels: []string{"site"},
		Help: "Agents of a site that do not receive another site. Only with sites.",
		Read: ofSites(func(s *fleet.Site) float64 { return float64(s.Cut()) })},
	{Name: "titrate_site_far", Labels: []string{"site"},
		Help: "Agents of a site that find the others there too far for EXACT limits. Only with sites.",
		Read: ofSites(func(s *fleet.Site) float64 { return float64(s.Far) })},
	{Name: "titrate_configuration_held",
		Help: "1 while the configuration in etcd is gone or incomplete: what gateways have stays in force until " +
			"titrate recover.", Read: telemetry.Is(func(m measurements) bool { return m.trouble.Held != "" })},
	{Name: "titrate_configuration_unreadable",
		Help: "Stored resources that cannot be read; what gateways have of them stays in force.",
		Read: telemetry.One(func(m measurements) int { return len(m.trouble.Unreadable) })},
	{Name: "titrate_control_streams_refused", Counter: true, Help: "Streams turned away because too many were open.",
		Read: telemetry.One(func(m measurements) uint64 { return m.o.streams.Refused() })},
}

// etcdMetrics are about etcd and the election in it.
var etcdMetrics = []telemetry.Instrument[measurements]{
	{Name: "titrate_etcd_watch_resets", Counter: true, Labels: []string{"how"},
		Help: "How often the watch of the configuration in etcd began again. It began where it was (resumed), or " +
			"with the whole configuration (whole), since etcd lacks the changes between or has another history.",
		Read: func(m measurements, put telemetry.Put) {
			resumed, whole := m.o.store.WatchResets()
			put(float64(resumed), attribute.String("how", "resumed"))
			put(float64(whole), attribute.String("how", "whole"))
		}},
	{Name: "titrate_etcd_history_lost", Counter: true,
		Help: "How often etcd was found restored from a backup or replaced.",
		Read: telemetry.One(func(m measurements) uint64 { return m.trouble.Lost })},
	{Name: "titrate_claims_ahead", Counter: true, Labels: []string{"outcome"},
		Help: "Claims of agents to know a later epoch or revision than etcd has: believed, or doubted, since most " +
			"agents make no such claim.",
		Read: func(m measurements, put telemetry.Put) {
			put(float64(m.o.claims.accepted.Load()), attribute.String("outcome", "believed"))
			put(float64(m.o.claims.doubted.Load()), attribute.String("outcome", "doubted"))
		}},
	{Name: "titrate_elections", Counter: true, Labels: []string{"outcome"},
		Help: "Elections that this coordinator won, and leads that it lost again without giving them back. Then its " +
			"session with etcd ended (--session-ttl), or its key in etcd was deleted.",
		Read: func(m measurements, put telemetry.Put) {
			won, lost := m.o.elector.Elections()
			put(float64(won), attribute.String("outcome", "won"))
			put(float64(lost), attribute.String("outcome", "lost"))
		}},
}

// accessMetrics are about callers, their messages and the audit. There may be no guard and no audit file.
var accessMetrics = []telemetry.Instrument[measurements]{
	{Name: "titrate_calls_refused", Counter: true, Labels: []string{"reason"},
		Help: "Calls refused, by reason. It is no_credentials, certificate or token for callers that are not known: " +
			"theirs is missing or not good. It is role for known callers whose roles do not allow the call.",
		Read: func(m measurements, put telemetry.Put) {
			if m.o.guard == nil {
				return
			}
			for i, n := range m.o.guard.Refused() {
				put(float64(n), attribute.String("reason", access.Reasons[i]))
			}
		}},
	{Name: "titrate_messages_refused", Counter: true, Labels: []string{"reason"},
		Help: "Messages refused before their calls were handled, by reason: length, entries, busy (no room beside " +
			"other calls). Of gRPC also compressed, malformed, late (more than a minute), unknown_method.",
		Read: func(m measurements, put telemetry.Put) {
			for i, n := range m.o.intake.Refused() {
				put(float64(n), attribute.String("reason", intake.Reasons[i]))
			}
		}},
	{Name: "titrate_handler_panics", Counter: true,
		Help: "Calls that failed with INTERNAL because their handler panicked; the log has the stack. Each is a " +
			"fault of the coordinator.",
		Read: telemetry.One(func(m measurements) uint64 { return m.o.intake.Panics() })},
	{Name: "titrate_audit_lines_lost", Counter: true,
		Help: "Lines about changes that could not be written to the file of --audit-log. Only with --audit-log.",
		Read: func(m measurements, put telemetry.Put) {
			if m.o.audit != nil {
				put(float64(m.o.audit.Lost()))
			}
		}},
	{Name: "titrate_console_watchers", Help: "Streams of consoles that are open. Only with --console.",
		Read: ofConsole((*console.Console).Watchers)},
	{Name: "titrate_console_watchers_refused", Counter: true,
		Help: "Streams of consoles that were refused because too many were open. Only with --console.",
		Read: ofConsole((*console.Console).Refused)},
	{Name: "titrate_console_watchers_dropped", Counter: true,
		Help: "Streams of consoles that were ended because their reader was too slow. Only with --console.",
		Read: ofConsole((*console.Console).Dropped)},
	{Name: "titrate_access_stale",
		Help: "1 while the access policy, the token file or the key set cannot be read; what was read before is in " +
			"force.",
		Read: func(m measurements, put telemetry.Put) {
			if m.o.guard != nil {
				put(telemetry.Truth(m.o.guard.Trouble() != nil))
			}
		}},
}

// deliveryMetrics are about what is sent to agents, and what they report.
var deliveryMetrics = []telemetry.Instrument[measurements]{
	{Name: "titrate_configurations_whole", Counter: true,
		Help: "Whole configurations sent: to agents that held none, or a revision that was not known here.",
		Read: telemetry.One(func(m measurements) uint64 { return m.whole })},
	{Name: "titrate_configurations_resumed", Counter: true,
		Help: "Streams that began with what their agent lacked of the configuration, and not the whole.",
		Read: telemetry.One(func(m measurements) uint64 { return m.resumed })},
	{Name: "titrate_leases_sent", Counter: true, Help: "Leases sent, over all agents.",
		Read: telemetry.One(func(m measurements) uint64 { return m.delivery.Leases })},
	{Name: "titrate_leases_deferred", Counter: true,
		Help: "Moves of a share by 2 % or more that waited for a later round: too many moved at once.",
		Read: telemetry.One(func(m measurements) uint64 { return m.delivery.Deferred })},
	{Name: "titrate_leases_whole", Counter: true, Help: "Complete sets of leases sent, one to each new stream.",
		Read: telemetry.One(func(m measurements) uint64 { return m.delivery.Whole })},
	{Name: "titrate_leases_missed", Counter: true,
		Help: "Complete sets of leases sent because an agent had missed some.",
		Read: telemetry.One(func(m measurements) uint64 { return m.delivery.Again })},
	{Name: "titrate_leases_selected",
		Help: "1 while an agent is sent the leases of the flows that it uses; 0 while it is sent all.",
		Read: telemetry.Is(func(m measurements) bool { return m.delivery.Selected })},
	{Name: "titrate_lease_step",
		Help: "Relative move of a share that agents are sent at once; 0 while they are sent every move.",
		Read: telemetry.One(func(m measurements) float64 { return m.delivery.Step })},
	{Name: "titrate_report_bounded", Counter: true, Labels: []string{"agent"},
		Help: "Impossible numbers in an agent's reports, which were bounded. Only of agents that sent some.",
		Read: func(m measurements, put telemetry.Put) {
			for _, s := range m.suspects {
				put(float64(s.Bounded), attribute.String("agent", s.Agent))
			}
		}},
	{Name: "titrate_report_unknown_pools", Counter: true, Labels: []string{"agent"},
		Help: "Flows in an agent's reports of pools that are not configured; they do not count. Only of agents that " +
			"sent some.",
		Read: func(m measurements, put telemetry.Put) {
			for _, s := range m.suspects {
				put(float64(s.Unknown), attribute.String("agent", s.Agent))
			}
		}},
}

// poolMetrics are about the shares that this coordinator computed last.
var poolMetrics = []telemetry.Instrument[measurements]{
	{Name: "titrate_pool_capacity", Labels: []string{"pool"},
		Help: "Capacity that is shared now, cost units per second.",
		Read: ofPools(func(p *allocation.PoolShare) float64 { return p.Capacity })},
	{Name: "titrate_pool_estimate", Labels: []string{"pool"},
		Help: "What an adaptive pool is believed to serve, cost units per second. Only of adaptive pools.",
		Read: ofAdaptivePools(func(p *allocation.PoolShare) float64 { return p.Estimate })},
	{Name: "titrate_pool_at_upstream", Labels: []string{"pool"},
		Help: "Cost at the upstream of an adaptive pool, over all gateways. Only of adaptive pools.",
		Read: ofAdaptivePools(func(p *allocation.PoolShare) float64 { return p.InFlight })},
	{Name: "titrate_pool_backlog", Labels: []string{"pool"},
		Help: "Cost that waits at the upstream of an adaptive pool, or was turned away by it in the last round. " +
			"Only of adaptive pools.",
		Read: ofAdaptivePools(func(p *allocation.PoolShare) float64 { return p.Backlog })},
	{Name: "titrate_pool_stay_seconds", Labels: []string{"pool"},
		Help: "Mean stay at the upstream of an adaptive pool when nothing waits there. Only of adaptive pools.",
		Read: ofAdaptivePools(func(p *allocation.PoolShare) float64 { return p.Stay })},
	{Name: "titrate_pool_demand", Labels: []string{"pool"}, Help: "Measured demand, cost units per second.",
		Read: ofPools(func(p *allocation.PoolShare) float64 { return p.Demand })},
	{Name: "titrate_pool_admitted", Labels: []string{"pool"}, Help: "Admitted, cost units per second.",
		Read: ofPools(func(p *allocation.PoolShare) float64 { return p.Admitted })},
	{Name: "titrate_pool_price", Labels: []string{"pool"}, Help: "Price; 0 while the pool is slack.",
		Read: ofPools(func(p *allocation.PoolShare) float64 { return p.Price })},
	{Name: "titrate_pool_fair_rate", Labels: []string{"pool"},
		Help: "Share of weight 1, cost units per second; 0 while slack.",
		Read: ofPools(func(p *allocation.PoolShare) float64 { return p.FairRate })},
	{Name: "titrate_pool_infeasible", Labels: []string{"pool"},
		Help: "1 while the guarantees asked for exceed the capacity.",
		Read: ofPools(func(p *allocation.PoolShare) float64 { return telemetry.Truth(p.Infeasible) })},
	{Name: "titrate_pool_standing", Labels: []string{"pool"},
		Help: "Leased beyond the capacity, cost units per second: the margin, and guarantees that are not used.",
		Read: ofPools(func(p *allocation.PoolShare) float64 { return p.Overcommit })},
	{Name: "titrate_flow_demand", Labels: []string{"pool", "tenant"},
		Help: "Measured demand of a tenant, cost units per second.",
		Read: ofFlows(func(f *allocation.FlowShare) float64 { return f.Demand })},
	{Name: "titrate_flow_share", Labels: []string{"pool", "tenant"}, Help: "Share of a tenant, cost units per second.",
		Read: ofFlows(func(f *allocation.FlowShare) float64 { return f.Share })},
	{Name: "titrate_flow_admitted", Labels: []string{"pool", "tenant"},
		Help: "Admitted of a tenant, cost units per second.",
		Read: ofFlows(func(f *allocation.FlowShare) float64 { return f.Admitted })},
	{Name: "titrate_flow_cost_admitted", Counter: true, Labels: []string{"pool", "tenant"},
		Help: "Admitted of a tenant, cost units.",
		Read: ofFlows(func(f *allocation.FlowShare) float64 { return f.AdmittedCost })},
	{Name: "titrate_flow_cost_guaranteed", Counter: true, Labels: []string{"pool", "tenant"},
		Help: "What a tenant's guarantee entitled it to, cost units: at each moment the guarantee, or the tenant's " +
			"demand if that is less. Where less is admitted, the guarantee is not kept.",
		Read: ofFlows(func(f *allocation.FlowShare) float64 { return f.GuaranteedCost })},
}

// ofPools reads a metric of each pool.
func ofPools(read func(*allocation.PoolShare) float64) func(measurements, telemetry.Put) {
	return func(m measurements, put telemetry.Put) {
		for i := range m.pools {
			put(read(&m.pools[i]), attribute.String("pool", m.pools[i].Pool))
		}
	}
}

// ofAdaptivePools reads a metric of each adaptive pool.
func ofAdaptivePools(read func(*allocation.PoolShare) float64) func(measurements, telemetry.Put) {
	return func(m measurements, put telemetry.Put) {
		for i := range m.pools {
			if p := &m.pools[i]; p.Adaptive {
				put(read(p), attribute.String("pool", p.Pool))
			}
		}
	}
}

// ofFlows reads a metric of each tenant in a pool that has series, see top.
func ofFlows(read func(*allocation.FlowShare) float64) func(measurements, telemetry.Put) {
	return func(m measurements, put telemetry.Put) {
		for i := range m.flows {
			f := &m.flows[i]
			put(read(f), attribute.String("pool", f.Pool), attribute.String("tenant", f.Tenant))
		}
	}
}

// sharers counts the coordinators that lead; 0 if this one does not.
func sharers(s election.State) int {
	switch {
	case s.Role != election.Leading:
		return 0
	case s.Sharing == nil:
		return 1
	}
	return len(s.Sharing.Sharers)
}
