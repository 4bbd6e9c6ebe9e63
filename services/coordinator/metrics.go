package coordinator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"

	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/telemetry"
)

// errSettling is the answer to questions before the first shares of a leadership.
var errSettling = errors.New("this coordinator has just been elected and waits for the agents' reports first")

// errNoAgents is the answer to questions while nobody reports.
var errNoAgents = errors.New("no agent is connected to this coordinator, so that there are no demands and no shares; " +
	"start one: titrate agent --coordinator ADDRESS")

// instruments are the coordinator's metrics. Per tenant there are at most
// twice Config.TopTenants series of each kind in a pool, see top.
type instruments struct {
	o        *Coordinator
	meter    metric.Meter
	failures []error
	gauges   []metric.Observable // those below
	metrics  []telemetry.Description

	duration metric.Float64Histogram
	etcd     metric.Float64Histogram
	nacks    metric.Int64Counter
	requests metric.Int64Counter

	pools, sharers, alone                                                   metric.Int64ObservableGauge
	elections, watches                                                      metric.Int64ObservableCounter
	streams, members, epoch, leader, revision                               metric.Int64ObservableGauge
	leftOut, refusing                                                       metric.Int64ObservableGauge
	accessStale                                                             metric.Int64ObservableGauge
	calls, messages, panics, auditLost                                      metric.Int64ObservableCounter
	held, unreadable                                                        metric.Int64ObservableGauge
	claims, lost, refused, leases, deferred, whole, again, bounded, unknown metric.Int64ObservableCounter
	wholeConfigurations, resumed                                            metric.Int64ObservableCounter
	selected, step                                                          metric.Float64ObservableGauge
	capacity, demand, admitted, price, fair, infeasible, overcommit         metric.Float64ObservableGauge
	estimate, inFlight, backlog, stay                                       metric.Float64ObservableGauge
	flowDemand, flowShare, flowAdmitted                                     metric.Float64ObservableGauge
	flowCost, flowGuaranteed                                                metric.Float64ObservableCounter
}

func newInstruments(o *Coordinator) (*instruments, error) {
	m := &instruments{o: o, meter: o.metrics.Meter("github.com/titrate/titrate/services/coordinator")}
	return m, m.define()
}

// Metrics describes the coordinator's metrics, as Prometheus names them.
func Metrics() ([]telemetry.Description, error) {
	m := &instruments{meter: noop.NewMeterProvider().Meter("")}
	err := m.define()
	return m.metrics, err
}

// define makes the instruments.
func (m *instruments) define() error {
	m.defineOwn()
	m.defineDelivery()
	m.definePools()
	return errors.Join(m.failures...)
}

func (m *instruments) defineOwn() {
	var err error
	const rounds, nacks = "Time to compute one round.", "Configurations that agents refused."
	m.duration, err = m.meter.Float64Histogram("titrate_round_duration", metric.WithUnit("s"),
		metric.WithDescription(rounds),
		metric.WithExplicitBucketBoundaries(.0001, .0003, .001, .003, .01, .03, .1, .3, 1))
	m.describe("titrate_round_duration", telemetry.Histogram, "s", rounds, err)
	m.nacks, err = m.meter.Int64Counter("titrate_configuration_refusals", metric.WithDescription(nacks))
	m.describe("titrate_configuration_refusals", telemetry.Counter, "", nacks, err)
	const requests = "Requests to the admin API over HTTP, by status. Only with --rest."
	m.requests, err = m.meter.Int64Counter("titrate_rest_requests", metric.WithDescription(requests))
	m.describe("titrate_rest_requests", telemetry.Counter, "", requests, err, "status")
	m.streams = m.count("titrate_control_streams", "Agents connected.")
	m.members = m.count("titrate_members", "Gateways in the membership.")
	m.epoch = m.count("titrate_epoch", "Epoch of this coordinator's leadership; 0 while another leads.")
	m.leader = m.count("titrate_leading", "1 while this coordinator leads, or leads some of the pools.")
	m.pools = m.count("titrate_pools_led", "Pools whose shares this coordinator sent last.")
	m.sharers = m.count("titrate_sharers",
		"Coordinators that share the pools, this one included: 1 while it leads all, 0 while it leads none.")
	m.alone = m.count("titrate_pools_not_shared",
		"1 while one coordinator leads all pools although this one has --share-pools: /readyz and titrate check say "+
			"why.")
	m.revision = m.count("titrate_configuration_revision", "Revision of the configuration that is known.")
	m.leftOut = m.count("titrate_limits_not_enforced",
		"Limits and quotas of the configuration that are not enforced, at the agent or gateway with the most.")
	m.refusing = m.count("titrate_gateways_refusing", "Gateways that refuse a configuration and keep an older one.")
	m.held = m.count("titrate_configuration_held",
		"1 while the configuration in etcd is gone or incomplete: what gateways have stays in force until titrate "+
			"recover.")
	m.unreadable = m.count("titrate_configuration_unreadable",
		"Stored resources that cannot be read; what gateways have of them stays in force.")
	m.defineEtcd()
	m.defineAccess()
	m.refused = m.total("titrate_control_streams_refused",
		"Streams turned away because too many were open.")
}

// defineEtcd makes the instruments of etcd and of the election in it.
func (m *instruments) defineEtcd() {
	const calls = "Time of a call of etcd until its answer or failure, by method of etcd's API and gRPC's code: OK, " +
		"DeadlineExceeded, Unavailable. Each attempt counts, streams (watches, renewals of the session) do not."
	var err error
	m.etcd, err = m.meter.Float64Histogram("titrate_etcd_call_duration", metric.WithUnit("s"),
		metric.WithDescription(calls),
		metric.WithExplicitBucketBoundaries(.001, .003, .01, .03, .1, .3, 1, 3))
	m.describe("titrate_etcd_call_duration", telemetry.Histogram, "s", calls, err, "method", "code")
	m.watches = m.total("titrate_etcd_watch_resets",
		"How often the watch of the configuration in etcd began again. It began where it was (resumed), or with "+
			"the whole configuration (whole), since etcd lacks the changes between or has another history.", "how")
	m.lost = m.total("titrate_etcd_history_lost",
		"How often etcd was found restored from a backup or replaced.")
	m.claims = m.total("titrate_claims_ahead",
		"Claims of agents to know a later epoch or revision than etcd has: believed, or doubted, since most agents "+
			"make no such claim.", "outcome")
	m.elections = m.total("titrate_elections",
		"Elections that this coordinator won, and leads that it lost again without giving them back. Then its "+
			"session with etcd ended (--session-ttl), or its key in etcd was deleted.", "outcome")
}

func (m *instruments) defineDelivery() {
	m.wholeConfigurations = m.total("titrate_configurations_whole",
		"Whole configurations sent: to agents that held none, or a revision that was not known here.")
	m.resumed = m.total("titrate_configurations_resumed",
		"Streams that began with what their agent lacked of the configuration, and not the whole.")
	m.leases = m.total("titrate_leases_sent", "Leases sent, over all agents.")
	m.deferred = m.total("titrate_leases_deferred",
		"Moves of a share by 2 % or more that waited for a later round: too many moved at once.")
	m.whole = m.total("titrate_leases_whole", "Complete sets of leases sent, one to each new stream.")
	m.again = m.total("titrate_leases_missed",
		"Complete sets of leases sent because an agent had missed some.")
	m.selected = m.rate("titrate_leases_selected",
		"1 while an agent is sent the leases of the flows that it uses; 0 while it is sent all.")
	m.step = m.rate("titrate_lease_step",
		"Relative move of a share that agents are sent at once; 0 while they are sent every move.")
	m.bounded = m.total("titrate_report_bounded", "Impossible numbers in an agent's reports, which were bounded. "+
		"Only of agents that sent some.", "agent")
	m.unknown = m.total("titrate_report_unknown_pools",
		"Flows in an agent's reports of pools that are not configured; they do not count. Only of agents that sent "+
			"some.", "agent")
}

func (m *instruments) definePools() {
	m.capacity = m.rate("titrate_pool_capacity", "Capacity that is shared now, cost units per second.", "pool")
	m.estimate = m.rate("titrate_pool_estimate",
		"What an adaptive pool is believed to serve, cost units per second. Only of adaptive pools.", "pool")
	m.inFlight = m.rate("titrate_pool_at_upstream",
		"Cost at the upstream of an adaptive pool, over all gateways. Only of adaptive pools.", "pool")
	m.backlog = m.rate("titrate_pool_backlog",
		"Cost that waits at the upstream of an adaptive pool, or was turned away by it in the last round. Only of "+
			"adaptive pools.", "pool")
	m.stay = m.rate("titrate_pool_stay_seconds",
		"Mean stay at the upstream of an adaptive pool when nothing waits there. Only of adaptive pools.", "pool")
	m.demand = m.rate("titrate_pool_demand", "Measured demand, cost units per second.", "pool")
	m.admitted = m.rate("titrate_pool_admitted", "Admitted, cost units per second.", "pool")
	m.price = m.rate("titrate_pool_price", "Price; 0 while the pool is slack.", "pool")
	m.fair = m.rate("titrate_pool_fair_rate", "Share of weight 1, cost units per second; 0 while slack.", "pool")
	m.infeasible = m.rate("titrate_pool_infeasible", "1 while the guarantees asked for exceed the capacity.", "pool")
	m.overcommit = m.rate("titrate_pool_standing",
		"Leased beyond the capacity, cost units per second: the margin, and guarantees that are not used.", "pool")
	m.flowDemand = m.rate("titrate_flow_demand", "Measured demand of a tenant, cost units per second.", "pool",
		"tenant")
	m.flowShare = m.rate("titrate_flow_share", "Share of a tenant, cost units per second.", "pool", "tenant")
	m.flowAdmitted = m.rate("titrate_flow_admitted", "Admitted of a tenant, cost units per second.", "pool", "tenant")
	m.flowCost = m.cost("titrate_flow_cost_admitted", "Admitted of a tenant, cost units.", "pool", "tenant")
	m.flowGuaranteed = m.cost("titrate_flow_cost_guaranteed", "What a tenant's guarantee entitled it to, cost units: "+
		"at each moment the guarantee, or the tenant's demand if that is less. Where less is admitted, the guarantee "+
		"is not kept.", "pool", "tenant")
}

// describe notes a metric, and why it could not be made.
func (m *instruments) describe(name string, kind telemetry.Kind, unit, help string, err error, labels ...string) {
	m.metrics = append(m.metrics, telemetry.Describe(name, kind, unit, help, labels...))
	if err != nil {
		m.failures = append(m.failures, err)
	}
}

func (m *instruments) count(name, help string, labels ...string) metric.Int64ObservableGauge {
	g, err := m.meter.Int64ObservableGauge(name, metric.WithDescription(help))
	m.describe(name, telemetry.Gauge, "", help, err, labels...)
	m.gauges = append(m.gauges, g)
	return g
}

// total makes a counter: what it counts since the start of the process.
func (m *instruments) total(name, help string, labels ...string) metric.Int64ObservableCounter {
	c, err := m.meter.Int64ObservableCounter(name, metric.WithDescription(help))
	m.describe(name, telemetry.Counter, "", help, err, labels...)
	m.gauges = append(m.gauges, c)
	return c
}

// cost makes a counter of cost units.
func (m *instruments) cost(name, help string, labels ...string) metric.Float64ObservableCounter {
	c, err := m.meter.Float64ObservableCounter(name, metric.WithDescription(help))
	m.describe(name, telemetry.Counter, "", help, err, labels...)
	m.gauges = append(m.gauges, c)
	return c
}

func (m *instruments) rate(name, help string, labels ...string) metric.Float64ObservableGauge {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithDescription(help))
	m.describe(name, telemetry.Gauge, "", help, err, labels...)
	m.gauges = append(m.gauges, g)
	return g
}

// register starts the observations; the coordinator's parts must be there.
func (m *instruments) register() error {
	m.nacks.Add(context.Background(), 0) // a counter that first appears with 1 does not rise for Prometheus
	_, err := m.meter.RegisterCallback(m.observe, m.gauges...)
	return err
}

func (m *instruments) nacked() { m.nacks.Add(context.Background(), 1) }

// called counts an attempt of a call to etcd.
func (m *instruments) called(method string, took time.Duration, code codes.Code) {
	m.etcd.Record(context.Background(), took.Seconds(), metric.WithAttributes(attribute.String("method", method),
		attribute.String("code", code.String())))
}

// answered counts a request over HTTP.
func (m *instruments) answered(status int) {
	m.requests.Add(context.Background(), 1, metric.WithAttributes(attribute.Int("status", status)))
}

func (m *instruments) round(took time.Duration) {
	m.duration.Record(context.Background(), took.Seconds())
}

func (m *instruments) observe(_ context.Context, to metric.Observer) error {
	v := m.o.loop.View(time.Now())
	config, _, _ := m.o.configuration.Allocation()
	state, _ := m.o.elector.State()
	to.ObserveInt64(m.streams, int64(len(m.o.streams.Agents())))
	said := m.o.fleet.Summary(m.o.streams.Agents())
	to.ObserveInt64(m.leftOut, int64(said.LeftOut))
	to.ObserveInt64(m.refusing, int64(said.Refusing))
	to.ObserveInt64(m.members, int64(v.Members))
	to.ObserveInt64(m.epoch, v.Epoch)
	to.ObserveInt64(m.leader, int64(indicator(state.Role == election.Leading)))
	to.ObserveInt64(m.sharers, sharers(state))
	to.ObserveInt64(m.alone, int64(indicator(m.o.notShared() != nil)))
	if v.Outcome != nil {
		to.ObserveInt64(m.pools, int64(len(v.Outcome.Pools)))
	} else {
		to.ObserveInt64(m.pools, 0)
	}
	to.ObserveInt64(m.revision, config.Revision)
	trouble := m.o.configuration.Trouble()
	to.ObserveInt64(m.held, int64(indicator(trouble.Held != "")))
	to.ObserveInt64(m.unreadable, int64(len(trouble.Unreadable)))
	to.ObserveInt64(m.lost, int64(trouble.Lost))
	claims := map[string]int64{"believed": m.o.claims.accepted.Load(), "doubted": m.o.claims.doubted.Load()}
	for outcome, n := range claims {
		to.ObserveInt64(m.claims, n, metric.WithAttributes(attribute.String("outcome", outcome)))
	}
	m.store(to)
	to.ObserveInt64(m.refused, int64(m.o.streams.Refused()))
	whole, resumed := m.o.streams.Configurations()
	to.ObserveInt64(m.wholeConfigurations, int64(whole))
	to.ObserveInt64(m.resumed, int64(resumed))
	m.access(to)
	m.delivery(to, m.o.loop.Delivery())
	if v.Outcome == nil {
		return nil
	}
	for _, s := range v.Outcome.Suspects {
		in := metric.WithAttributes(attribute.String("agent", s.Agent))
		to.ObserveInt64(m.bounded, int64(s.Bounded), in)
		to.ObserveInt64(m.unknown, int64(s.Unknown), in)
	}
	for i := range v.Outcome.Pools {
		m.pool(to, &v.Outcome.Pools[i])
	}
	for _, f := range top(v.Outcome.Flows, m.o.config.TopTenants) {
		in := metric.WithAttributes(attribute.String("pool", f.Pool), attribute.String("tenant", f.Tenant))
		to.ObserveFloat64(m.flowDemand, f.Demand, in)
		to.ObserveFloat64(m.flowShare, f.Share, in)
		to.ObserveFloat64(m.flowAdmitted, f.Admitted, in)
		to.ObserveFloat64(m.flowCost, f.AdmittedCost, in)
		to.ObserveFloat64(m.flowGuaranteed, f.GuaranteedCost, in)
	}
	return nil
}

// sharers counts the coordinators that lead; 0 if this one does not.
func sharers(s election.State) int64 {
	switch {
	case s.Role != election.Leading:
		return 0
	case s.Sharing == nil:
		return 1
	}
	return int64(len(s.Sharing.Sharers))
}

// store observes the watch of etcd, and the election there.
func (m *instruments) store(to metric.Observer) {
	resumed, whole := m.o.store.WatchResets()
	to.ObserveInt64(m.watches, int64(resumed), metric.WithAttributes(attribute.String("how", "resumed")))
	to.ObserveInt64(m.watches, int64(whole), metric.WithAttributes(attribute.String("how", "whole")))
	won, lost := m.o.elector.Elections()
	to.ObserveInt64(m.elections, int64(won), metric.WithAttributes(attribute.String("outcome", "won")))
	to.ObserveInt64(m.elections, int64(lost), metric.WithAttributes(attribute.String("outcome", "lost")))
}

func (m *instruments) delivery(to metric.Observer, s delivery.Stats) {
	to.ObserveInt64(m.leases, int64(s.Leases))
	to.ObserveInt64(m.deferred, int64(s.Deferred))
	to.ObserveInt64(m.whole, int64(s.Whole))
	to.ObserveInt64(m.again, int64(s.Again))
	to.ObserveFloat64(m.selected, indicator(s.Selected))
	to.ObserveFloat64(m.step, s.Step)
}

func (m *instruments) pool(to metric.Observer, p *allocation.PoolShare) {
	in := metric.WithAttributes(attribute.String("pool", p.Pool))
	to.ObserveFloat64(m.capacity, p.Capacity, in)
	to.ObserveFloat64(m.demand, p.Demand, in)
	to.ObserveFloat64(m.admitted, p.Admitted, in)
	to.ObserveFloat64(m.price, p.Price, in)
	to.ObserveFloat64(m.fair, p.FairRate, in)
	to.ObserveFloat64(m.infeasible, indicator(p.Infeasible), in)
	to.ObserveFloat64(m.overcommit, p.Overcommit, in)
	if p.Adaptive {
		to.ObserveFloat64(m.estimate, p.Estimate, in)
		to.ObserveFloat64(m.inFlight, p.InFlight, in)
		to.ObserveFloat64(m.backlog, p.Backlog, in)
		to.ObserveFloat64(m.stay, p.Stay, in)
	}
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// top are, of each pool, the n flows of the highest demand and the n of the highest guarantee: a
// tenant below its guarantee may have little demand. flows are by pool.
func top(flows []allocation.FlowShare, n int) []allocation.FlowShare {
	demand := func(f *allocation.FlowShare) float64 { return f.Demand }
	guarantee := func(f *allocation.FlowShare) float64 { return f.Guaranteed }
	var out []allocation.FlowShare
	for len(flows) > 0 {
		end := slices.IndexFunc(flows, func(f allocation.FlowShare) bool { return f.Pool != flows[0].Pool })
		if end < 0 {
			end = len(flows)
		}
		promised := slices.DeleteFunc(slices.Clone(flows[:end]),
			func(f allocation.FlowShare) bool { return f.Guaranteed == 0 })
		chosen := map[string]bool{}
		for _, f := range append(most(flows[:end], n, demand), most(promised, n, guarantee)...) {
			if !chosen[f.Tenant] {
				chosen[f.Tenant] = true
				out = append(out, f)
			}
		}
		flows = flows[end:]
	}
	return out
}

// most are the n flows that have the most of something.
func most(flows []allocation.FlowShare, n int, of func(*allocation.FlowShare) float64) []allocation.FlowShare {
	sorted := slices.SortedFunc(slices.Values(flows), func(a, b allocation.FlowShare) int {
		return cmp.Or(cmp.Compare(of(&b), of(&a)), cmp.Compare(a.Tenant, b.Tenant))
	})
	return sorted[:min(len(sorted), max(n, 0))]
}
