package latency

import (
	"context"
	"fmt"

	"github.com/titrate/titrate/e2e/bench/paired"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/bench/table"
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
	lowRate = 1000 // requests/s that ratelimit + Redis bears anywhere
	clients = 10_000
)

// Figures are what a run measured.
type Figures struct {
	HalfRate float64       `json:"halfRate"` // requests/s
	Half     paired.Rounds `json:"half"`
	Low      paired.Rounds `json:"low"`
}

// Run measures at both rates.
func Run(ctx context.Context, r *rig.Rig, rounds int) (*Figures, []table.Table, error) {
	r.Say("latency: starting an Envoy per variant")
	in, err := r.Installation(ctx, "latency", Documents)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Stop() }() // what does not end, the rig kills
	upstream, err := r.Envoy(ctx, rig.Spec{Name: "latency upstream", Filter: rig.Plain})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = upstream.Stop() }()
	f := &Figures{}
	half, err := f.half(ctx, r, in, rounds)
	if err != nil {
		return nil, nil, err
	}
	low, err := f.low(ctx, r, in, upstream.Port, rounds/2+1)
	return f, []table.Table{half, low}, err
}

// half measures direct answers at half of the highest rate.
func (f *Figures) half(ctx context.Context, r *rig.Rig, in *rig.Installation, rounds int) (t table.Table, err error) {
	targets, stop, err := start(ctx, r, in, "half", []rig.Spec{{Filter: rig.Plain}, {Filter: rig.Local},
		{Filter: rig.Titrate}})
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
	upstream, rounds int) (t table.Table, err error) {
	specs := []rig.Spec{{Filter: rig.Plain}, {Filter: rig.Local}, {Filter: rig.Titrate}}
	if r.HasRateLimit() {
		service, err := r.RateLimit(ctx, []rig.Limit{{Tenant: "admit", Rate: 1_000_000}})
		if err != nil {
			return t, err
		}
		defer func() { _ = service.Stop() }()
		specs = append(specs, rig.Spec{Filter: rig.Remote, RateLimit: service.Port})
	}
	for i := range specs {
		specs[i].Upstream = upstream
	}
	targets, stop, err := start(ctx, r, in, "low", specs)
	defer stop()
	if err != nil {
		return t, err
	}
	if f.Low, err = Measure(ctx, r, targets, lowRate, rounds); err != nil {
		return t, err
	}
	return Tabulate(fmt.Sprintf("Latency at %d/s, proxied", lowRate), targets, f.Low), nil
}

// names of the variants in the tables.
var names = map[rig.Filter]string{
	rig.Plain: "no filter", rig.Local: "local_ratelimit", rig.Remote: "ratelimit + Redis", rig.Titrate: "titrate",
}

// start starts the Envoys and warms them up. stop is never nil.
func start(ctx context.Context, r *rig.Rig, in *rig.Installation, group string,
	specs []rig.Spec) (targets []Target, stop func(), err error) {
	stop = func() {
		for _, t := range targets {
			_ = t.Envoy.Stop() // what does not end, the rig kills
		}
	}
	for _, s := range specs {
		s.Name = fmt.Sprintf("%s-%s", group, s.Filter)
		var e *rig.Envoy
		if s.Filter == rig.Titrate {
			var g *rig.Gateway
			if g, err = in.Gateway(ctx, s); err == nil {
				e = g.Envoy
			}
		} else {
			e, err = r.Envoy(ctx, s)
		}
		if err != nil {
			return targets, stop, err
		}
		t := Target{Name: names[s.Filter], Envoy: e, Tenant: "admit", Clients: clients}
		targets = append(targets, t)
		if _, err := Measure(ctx, r, []Target{t}, lowRate, 1); err != nil {
			return targets, stop, err
		}
	}
	return targets, stop, nil
}
