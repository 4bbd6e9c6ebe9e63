package latency

import (
	"context"
	"errors"
	"fmt"

	"github.com/titrate/titrate/e2e/bench/paired"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

// Documents are an installation in which tenant admit is never limited.
const Documents = `
{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 10000000}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/admit, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/admit/limits/each, spec: {rate: 100000/s, burst: 100000}}
`

const (
	lowRate = 1000 // requests/s that ratelimit + Redis sustains on any machine
	clients = 10_000
	tenant  = "admit"
)

// limits are the limits of Envoy's own filter and of services: none is reached here.
var limits = []rig.Limit{{Tenant: tenant, Rate: 1_000_000}}

// Figures are the figures of a run.
type Figures struct {
	HalfRate float64       `json:"halfRate"` // requests/s
	Half     paired.Rounds `json:"half"`
	Low      paired.Rounds `json:"low"`
}

// Options of a run.
type Options struct {
	Rounds int // ≥ 1
	// Comparison measures only proxied requests, at the low rate.
	Comparison bool
}

// Run measures at both rates.
func Run(ctx context.Context, r *rig.Rig, o Options) (*Figures, []markdown.Section, error) {
	r.Say("latency: starting an Envoy per variant")
	in, err := r.Installation(ctx, "latency", Documents)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Stop() }() // the rig kills processes that do not end
	upstream, err := r.Envoy(ctx, rig.Spec{Name: "latency upstream", Filter: rig.Plain})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = upstream.Stop() }()
	f := &Figures{}
	var tables []markdown.Section
	if !o.Comparison {
		half, err := f.half(ctx, r, in, o.Rounds)
		if err != nil {
			return nil, nil, err
		}
		tables = append(tables, half)
	}
	low, err := f.low(ctx, r, in, upstream.Port, o.Rounds/2+1)
	return f, append(tables, low), err
}

// half measures direct answers at half of the highest rate.
func (f *Figures) half(ctx context.Context, r *rig.Rig, in *rig.Installation,
	rounds int) (t markdown.Section, err error) {
	targets, stop, err := start(ctx, r, in, "half", 0, []variant{{NoFilter, rig.Plain},
		{rig.LocalRateLimit, rig.Dynamic}, {rig.TitrateModule, rig.Titrate}})
	defer stop()
	if err != nil {
		return t, err
	}
	highest, err := Highest(ctx, r, targets[0])
	if err != nil {
		return t, err
	}
	f.HalfRate = highest / 2
	if f.Half, err = Measure(ctx, r, targets, f.HalfRate, rounds); err != nil {
		return t, err
	}
	return Tabulate(fmt.Sprintf("Latency at half of the highest rate, %.0f/s", f.HalfRate), targets, f.Half), nil
}

// low measures proxied requests at 1000/s.
func (f *Figures) low(ctx context.Context, r *rig.Rig, in *rig.Installation,
	upstream, rounds int) (t markdown.Section, err error) {
	all := []variant{{NoFilter, rig.Plain}}
	for _, v := range []variant{{rig.LocalRateLimit, rig.Dynamic}, {rig.TitrateModule, rig.Titrate}} {
		if r.Wants(v.name) {
			all = append(all, v)
		}
	}
	for _, name := range r.Services() {
		all = append(all, variant{name, rig.Remote})
	}
	targets, stop, err := start(ctx, r, in, "low", upstream, all)
	defer stop()
	if err != nil {
		return t, err
	}
	if f.Low, err = Measure(ctx, r, targets, lowRate, rounds); err != nil {
		return t, err
	}
	return Tabulate(fmt.Sprintf("Latency at %d/s, proxied", lowRate), targets, f.Low), nil
}

// NoFilter is the variant that the others are compared with.
const NoFilter = "no filter"

// variant is an Envoy with a filter, named after its system.
type variant struct {
	name   string
	filter rig.Filter
}

// start starts the Envoys and warms them up. stop is never nil.
func start(ctx context.Context, r *rig.Rig, in *rig.Installation, group string, upstream int,
	all []variant) (targets []Target, stop func(), err error) {
	var ends []func() error
	stop = func() {
		for _, end := range ends {
			_ = end() // the rig kills processes that do not end
		}
	}
	for i, v := range all {
		spec := rig.Spec{Name: fmt.Sprintf("%s-%d", group, i), Filter: v.filter, Upstream: upstream, Limits: limits}
		e, end, err := v.start(ctx, r, in, spec)
		if err != nil {
			return targets, stop, err
		}
		ends = append(ends, end)
		t := Target{Name: v.name, Envoy: e, Tenant: tenant, Clients: clients}
		targets = append(targets, t)
		if _, err := Measure(ctx, r, []Target{t}, lowRate, 1); err != nil {
			return targets, stop, err
		}
	}
	return targets, stop, nil
}

// start starts the Envoy of a variant, and the service that it asks.
func (v variant) start(ctx context.Context, r *rig.Rig, in *rig.Installation,
	spec rig.Spec) (*rig.Envoy, func() error, error) {
	switch v.filter {
	case rig.Titrate:
		g, err := in.Join(ctx, spec)
		if err != nil {
			return nil, nil, err
		}
		return g.Proxy, g.Stop, nil
	case rig.Remote:
		service, err := r.Service(ctx, v.name, limits, 2)
		if err != nil {
			return nil, nil, err
		}
		spec.RateLimit = service.Port(0)
		e, err := r.Envoy(ctx, spec)
		if err != nil {
			return nil, nil, err
		}
		return e, func() error { return errors.Join(e.Stop(), service.Stop()) }, nil
	}
	e, err := r.Envoy(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	return e, e.Stop, nil
}
