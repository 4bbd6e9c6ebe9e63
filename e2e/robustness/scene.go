package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/titrate/titrate/e2e/robustness/calls"
	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/load"
	"github.com/titrate/titrate/e2e/robustness/world"
)

// documents are the configuration. See clients for the demand of each client.
const documents = `
apiVersion: titrate.dev/v1alpha1
kind: Pool
name: pools/api
spec: {capacity: 60, queue: {delayTarget: 200ms, maxWait: 1s}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/steady, spec: {weight: 3}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/heavy, spec: {weight: 2}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/greedy, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/capped, spec: {weight: 2}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/capped/quotas/api, spec: {max: 6}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/limited, spec: {weight: 3}}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/limited/limits/per-client
spec:
  rate: 1000/s
  burst: 1000
  overrides:
    - {client: two, rate: 2/s, burst: 4}
    - {client: minute, rate: 60/min, burst: 10}
    - {client: below, rate: 6/s, burst: 6}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/strict, spec: {weight: 2}}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/strict/limits/per-client
spec: {rate: 3/s, burst: 3, strict: true}
---
apiVersion: titrate.dev/v1alpha1
kind: Pool
name: pools/found
spec: {capacity: 100, adaptive: {min: 40, max: 400}, queue: {delayTarget: 200ms, maxWait: 1s}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/queued, spec: {weight: 1}}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/queued/limits/slow
spec: {rate: 8/s, burst: 4, queue: {delayTarget: 200ms, maxWait: 1s}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/exact, spec: {weight: 1}}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/exact/limits/per-client
spec: {rate: 3/s, burst: 6, precision: EXACT}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/global, spec: {weight: 1}}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/global/limits/per-client
spec: {rate: 3/s, burst: 6, precision: EXACT, scope: GLOBAL}
---
apiVersion: titrate.dev/v1alpha1
kind: Pool
name: pools/crowd
spec: {capacity: 1000, queue: {delayTarget: 200ms, maxWait: 1s}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/crowd, spec: {weight: 1}}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/crowd/limits/per-client
spec: {rate: 1/s, burst: 5}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/flights, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/flights/limits/in-flight, spec: {concurrency: 20}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/spare, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/probe, spec: {weight: 1}}
`

// inFlight is the limit on requests in flight of client "flies".
const inFlight = 20

// capacity of the pool api, and its tenants, as documents has them. The pool found
// has more than it is asked for.
const capacity = 60

var tenants = []check.Tenant{
	{Name: "steady", Weight: 3}, {Name: "heavy", Weight: 2}, {Name: "greedy", Weight: 1},
	{Name: "capped", Weight: 2, Most: 6}, {Name: "limited", Weight: 3},
	// A STRICT limit may refuse what a central bucket would not.
	{Name: "strict", Weight: 2, Unjudged: true},
}

// limit of a client, requests per second and requests.
type limit struct {
	rate, burst          float64
	strict, exact, queue bool
	global               bool // over all sites
}

// limits by client, as documents has them.
var limits = map[string]limit{
	"two": {rate: 2, burst: 4}, "minute": {rate: 1, burst: 10}, "below": {rate: 6, burst: 6},
	"strict": {rate: 3, burst: 3, strict: true}, "waits": {rate: 8, burst: 4, queue: true},
	"exact": {rate: 3, burst: 6, exact: true}, "within": {rate: 3, burst: 6, exact: true},
	"everywhere": {rate: 3, burst: 6, exact: true, global: true},
	"across":     {rate: 3, burst: 6, exact: true, global: true},
}

// clients are the load: some 120 requests per second, more than the pool has, and
// a watchdog of each tenant.
var clients = append([]load.Client{
	{Tenant: "steady", Name: "a", Rate: 8}, {Tenant: "steady", Name: "b", Rate: 4},
	{Tenant: "heavy", Name: "a", Rate: 20}, {Tenant: "heavy", Name: "b", Rate: 10},
	{Tenant: "greedy", Name: "a", Rate: 30},
	{Tenant: "capped", Name: "a", Rate: 9},
	{Tenant: "limited", Name: "two", Rate: 12}, {Tenant: "limited", Name: "minute", Rate: 4},
	{Tenant: "limited", Name: "below", Rate: 3},
	{Tenant: "strict", Name: "strict", Rate: 8},
	{Tenant: "queued", Name: "waits", Pool: "found", Rate: 11},
	{Tenant: "exact", Name: "exact", Pool: "found", Rate: 9},
	{Tenant: "exact", Name: "within", Pool: "found", Rate: 2.4},
	{Tenant: "global", Name: "everywhere", Pool: "found", Rate: 9},
	{Tenant: "global", Name: "across", Pool: "found", Rate: 2.4},
	{Tenant: "flights", Name: "flies", Pool: "crowd", Rate: 30, Leaves: .3,
		Stays: [2]time.Duration{50 * time.Millisecond, 10 * time.Second}},
	{Tenant: "metered", Name: "metered", Pool: "crowd", Rate: quotaRate},
	{Tenant: "booked", Name: "booked", Pool: "crowd", Rate: quotaRate},
	{Tenant: "daily", Name: "daily", Pool: "crowd", Rate: quotaRate},
}, watchdogs()...)

// watchdogs ask once a second at every gateway.
func watchdogs() (all []load.Client) {
	for _, t := range tenants {
		all = append(all, load.Client{Tenant: t.Name, Name: "watchdog", Rate: 1, Everywhere: true})
	}
	return append(all, load.Client{Tenant: "queued", Name: "watchdog", Pool: "found", Rate: 1, Everywhere: true})
}

// below reports whether a client stays below its limit and its tenant below its
// share, so that it must not be refused.
func below(c *load.Client) bool {
	return c.Tenant == "steady" || c.Tenant == "limited" && (c.Name == "below" || c.Name == "watchdog") ||
		c.Name == "within" || c.Name == "across" || c.Tenant == "crowd"
}

// named reports whether a lying gateway names the client and its tenant's share of the pool api: of clients that are
// refused anyway.
func named(c *load.Client) bool { return !below(c) && !c.Everywhere && !metered(c) }

// spared reports whether a client must not be refused beside a lying gateway either: nothing of its limit or its pool
// is named.
func spared(c *load.Client) bool { return below(c) && c.Pool != "" }

// scene holds all parts of a run.
type scene struct {
	world  *world.World
	api    *calls.API
	load   *load.Load
	quotas quotas
	turn   time.Duration // since the load's start: when the day of the quota "daily" ends
}

// World, Configure and Delete are for faults.
func (s *scene) World() *world.World { return s.world }

func (s *scene) Configure(ctx context.Context, text string) error { return s.api.Apply(ctx, text) }

func (s *scene) Delete(ctx context.Context, limit string) error { return s.api.Delete(ctx, limit) }

// Remember and Alone are for faults too.
func (s *scene) Remember() (forget func()) { return s.api.Remember() }

// Named is for faults too.
func (s *scene) Named() (all []string) {
	for i := range clients {
		if c := &clients[i]; named(c) {
			all = append(all, c.Tenant+"/"+c.Name)
		}
	}
	return all
}

// Alone is described at Remember.
func (s *scene) Alone(do func() error) error { return s.api.Alone(do) }

// build starts everything; close ends it, also after an error.
func (s *scene) build(ctx context.Context, o world.Options) (err error) {
	if s.world, err = world.New(ctx, o); err != nil {
		return err
	}
	var addresses []string
	for _, c := range s.world.Coordinators {
		addresses = append(addresses, world.APIAddress(c))
	}
	if s.api, err = calls.Dial(addresses); err != nil {
		return err
	}
	if err := s.api.Apply(ctx, documents+s.quotas.documents(time.Now())); err != nil {
		return err
	}
	upstream, err := net.Listen("tcp4", s.world.Upstream())
	if err != nil {
		return err
	}
	s.load = load.New(upstream, s.targets)
	for range world.Gateways {
		if _, err := s.world.AddGateway(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) targets() (all []load.Target) {
	for _, g := range s.world.Gateways() {
		if !g.Away() {
			all = append(all, load.Target{Name: g.Name, Address: g.Address()})
		}
	}
	return all
}

// crowdRate is the rate of one client of the crowd, requests per second.
const crowdRate = .005

// begin starts the clients, and a crowd of more; they ask until ctx ends.
func (s *scene) begin(ctx context.Context, seed uint64, crowd int) {
	run := func(i int, c *load.Client) { go s.load.Run(ctx, c, rand.New(rand.NewPCG(seed, uint64(i)+100))) }
	for i := range clients {
		run(i, &clients[i])
	}
	for i := range crowd {
		run(len(clients)+i, &load.Client{Tenant: "crowd", Name: fmt.Sprint("c", i), Pool: "crowd", Rate: crowdRate})
	}
}

func (s *scene) close() error {
	if s.api != nil {
		_ = s.api.Close()
	}
	return s.world.Close()
}
