package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
)

const (
	gateways = 3
	// keys and contended are the key budgets of each Envoy: small, so that its tables are
	// full after seconds and evict from then on.
	keys, contended = 20_000, 1250
)

// documents are the tenants of the load.
const documents = `
{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api,
  spec: {capacity: 10000000, queue: {aqm: DROP_TAIL, delayTarget: 2s, maxWait: 5s}}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/steady, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/invented, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/invented/limits/each, spec: {rate: 10/s, burst: 10}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/limited, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/limited/limits/each, spec: {rate: 20/s, burst: 20}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/held, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/held/quotas/api, spec: {max: 60}}
`

// system is the installation under load.
type system struct {
	rig      *rig.Rig
	in       *rig.Installation
	gateways []*rig.Gateway
	routes   string // the file
	broken   counts
}

// counts are the faults so far.
type counts struct{ reloads, agents, coordinators atomic.Int64 }

func (c *counts) faults() faults {
	return faults{c.reloads.Load(), c.agents.Load(), c.coordinators.Load()}
}

func newSystem(ctx context.Context, r *rig.Rig) (*system, error) {
	w := &system{rig: r, routes: r.File("routes.yaml")}
	r.Client.Timeout = 10 * time.Second // a busy machine is late
	if err := w.route(0); err != nil {
		return nil, err
	}
	upstream, err := r.Upstream(ctx)
	if err != nil {
		return nil, err
	}
	if w.in, err = r.Installation(ctx, "soak", documents); err != nil {
		return nil, err
	}
	for i := range gateways {
		g, err := w.in.Join(ctx, rig.Spec{Name: fmt.Sprintf("soak-%d", i+1), Upstream: upstream, Routes: w.routes,
			Keys: keys, Contended: contended})
		if err != nil {
			return nil, err
		}
		w.gateways = append(w.gateways, g)
	}
	return w, nil
}

// route replaces the routes of all Envoys. Each version overrides the filter for
// one path in another way, so that overrides come and go.
func (w *system) route(version int) error {
	text := fmt.Sprintf(`version_info: "%d"
resources:
  - "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
    name: all
    virtual_hosts:
      - name: all
        domains: ["*"]
        routes:
          - match: {prefix: /through}
            route: {cluster: upstream}
          - match: {prefix: /}
            direct_response: {status: 200, body: {inline_string: ok}}
            typed_per_filter_config:
              titrate:
                "@type": >-
                  type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute
                dynamic_module_config: {name: titrate, do_not_close: true}
                filter_name: titrate
                filter_config: {"@type": type.googleapis.com/google.protobuf.Struct, value: {cost: {literal: %d}}}
`, version, 1+version%2)
	if err := os.WriteFile(w.routes+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(w.routes+".new", w.routes) // at once: Envoy watches for it
}

// statistics is a regular expression of the statistics of an Envoy that the soak watches.
const statistics = "titrate_|downstream_rq_active|rds.all"

// disturb breaks something every few seconds, until ctx ends. The third gateway's
// agent is left alone, so that its memory can be judged.
func (w *system) disturb(ctx context.Context) error {
	for turn := 1; ; turn++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(3 * time.Second):
		}
		var err error
		switch turn % 6 {
		case 2:
			err = w.gateways[turn/6%2].Agent.Restart(ctx)
			w.broken.agents.Add(1)
		case 5:
			err = w.in.Coordinators[0].Restart(ctx)
			w.broken.coordinators.Add(1)
		default:
			err = w.route(turn)
			w.broken.reloads.Add(1)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// left are the requests that are still there when the load has ended.
type left struct{ Held, Active float64 }

// left waits until nothing is, for a while.
func (w *system) left(ctx context.Context) (l left, err error) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		l = left{}
		for _, g := range w.gateways {
			s, err := g.Statistics(ctx, statistics)
			if err != nil {
				return l, err
			}
			l.Held += s["titrate_held"]
			l.Active += s["http.http.downstream_rq_active"]
		}
		if l == (left{}) {
			break
		}
	}
	return l, nil
}
