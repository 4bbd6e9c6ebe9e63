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
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/fleet"
	"github.com/titrate/titrate/services/coordinator/leadership"
	"github.com/titrate/titrate/services/coordinator/ledger"
	"github.com/titrate/titrate/services/telemetry"
)

// errSettling is the answer to questions before the first shares of a leadership.
var errSettling = errors.New("this coordinator has just been elected and waits for the agents' reports first")

// errNoAgents is the answer to questions while nobody reports.
var errNoAgents = errors.New("no agent is connected to this coordinator, so that there are no demands and no shares; " +
	"start one: titrate agent --coordinator ADDRESS")

// measurements has the values of one scrape. Per tenant there are at most twice Config.TopTenants series of each kind
// in a pool, see top.
type measurements struct {
	o              *Coordinator
	view           leadership.View
	pools          []allocation.PoolShare // of the last outcome, as are flows and suspects
	flows          []allocation.FlowShare // those with series
	suspects       []allocation.Suspect
	state          election.State
	connected      []string // agents
	fleet          fleet.Summary
	sites          []fleet.Site
	revision       int64
	trouble        config.Trouble
	delivery       delivery.Stats
	whole, resumed uint64 // configurations
	ledger         ledger.Stats
}

func (o *Coordinator) measure() measurements {
	m := measurements{o: o, view: o.loop.View(time.Now()), connected: o.streams.Agents(),
		trouble: o.configuration.Trouble(), delivery: o.loop.Delivery()}
	if out := m.view.Outcome; out != nil {
		m.pools, m.flows, m.suspects = out.Pools, top(out.Flows, o.config.TopTenants), out.Suspects
	}
	m.state, _ = o.elector.State()
	m.fleet, m.sites = o.fleet.Summary(m.connected), o.fleet.Sites(m.connected)
	known, _, _ := o.configuration.Allocation()
	m.revision = known.Revision
	m.ledger = o.ledger.Stats()
	m.whole, m.resumed = o.streams.Configurations()
	return m
}

// table has all metrics that are read at a scrape.
func table() []telemetry.Instrument[measurements] {
	return slices.Concat(ownMetrics, etcdMetrics, accessMetrics, deliveryMetrics, poolMetrics, usageMetrics)
}

// instruments are the metrics of events.
type instruments struct {
	duration, etcd  metric.Float64Histogram
	nacks, requests metric.Int64Counter
	described       []telemetry.Description
}

// define makes the instruments of events.
func (m *instruments) define(meter metric.Meter) error {
	const (
		rounds = "Time to compute one round."
		calls  = "Time of a call of etcd until its answer or failure, by method of etcd's API and gRPC's code: OK, " +
			"DeadlineExceeded, Unavailable. Each attempt counts, streams (watches, renewals of the session) do not."
		nacks    = "Configurations that agents refused."
		requests = "Requests to the admin API over HTTP, by status. Only with --rest or --console."
	)
	var errs [4]error
	m.duration, errs[0] = meter.Float64Histogram("titrate_round_duration", metric.WithUnit("s"),
		metric.WithDescription(rounds),
		metric.WithExplicitBucketBoundaries(.0001, .0003, .001, .003, .01, .03, .1, .3, 1))
	m.etcd, errs[1] = meter.Float64Histogram("titrate_etcd_call_duration", metric.WithUnit("s"),
		metric.WithDescription(calls),
		metric.WithExplicitBucketBoundaries(.001, .003, .01, .03, .1, .3, 1, 3))
	m.nacks, errs[2] = meter.Int64Counter("titrate_configuration_refusals", metric.WithDescription(nacks))
	m.requests, errs[3] = meter.Int64Counter("titrate_rest_requests", metric.WithDescription(requests))
	m.described = []telemetry.Description{
		telemetry.Describe("titrate_round_duration", telemetry.Histogram, "s", rounds),
		telemetry.Describe("titrate_etcd_call_duration", telemetry.Histogram, "s", calls, "method", "code"),
		telemetry.Describe("titrate_configuration_refusals", telemetry.Counter, "", nacks),
		telemetry.Describe("titrate_rest_requests", telemetry.Counter, "", requests, "status"),
	}
	return errors.Join(errs[:]...)
}

// Metrics describes the coordinator's metrics, as Prometheus names them.
func Metrics() ([]telemetry.Description, error) {
	var m instruments
	err := m.define(noop.NewMeterProvider().Meter(""))
	return append(m.described, telemetry.DescribeAll(table())...), err
}

// meter returns the coordinator's meter.
func (o *Coordinator) meter() metric.Meter {
	return o.metrics.Meter("github.com/titrate/titrate/services/coordinator")
}

// registerMetrics starts the reading at scrapes; the coordinator's parts must be there.
func (o *Coordinator) registerMetrics() error {
	o.instruments.nacks.Add(context.Background(), 0) // a counter that first appears with 1 does not rise for Prometheus
	return telemetry.RegisterAll(o.meter(), table(), o.measure)
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
