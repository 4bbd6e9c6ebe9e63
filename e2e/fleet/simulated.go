package main

import (
	"context"
	"fmt"
	"time"

	"github.com/titrate/titrate/e2e/fleet/workload"
	"github.com/titrate/titrate/lab/simulate"
	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// simulated plays the steady fleet on virtual time, and returns an agent's traffic there. It has a client for
// each key, whose requests go to the same gateways as the real ones, at the same rate, and below a limit. A
// client's requests come at random.
func simulated(ctx context.Context, o options) (*measure.Gossip, error) {
	synthetic := o.agents - o.envoys
	work, err := workload.New(workload.Plan{Gateways: synthetic, Keys: o.keys, Users: o.users, Rate: o.rate})
	if err != nil {
		return nil, err
	}
	s := scenario.New(10*time.Second, o.agents)
	s.Gossip.Delay = time.Millisecond
	s.Resources = []resource.Message{&quotav1.Pool{Name: "pools/" + pool, Capacity: 10 * o.rate * float64(o.keys)},
		&quotav1.Limit{Name: "tenants/-/limits/each", Rate: fmt.Sprintf("%g/s", 10*o.rate), Burst: 10}}
	for _, t := range tenants {
		s.Resources = append(s.Resources, &quotav1.Tenant{Name: "tenants/" + t})
	}
	for k := range o.keys {
		c := scenario.Client{Name: fmt.Sprintf("key-%d", k), Tenant: tenants[k%len(tenants)], Pool: pool, Cost: 1,
			Demand: scenario.Poisson(o.rate)}
		c.Route.Weights = map[string]float64{}
		for _, g := range work.UsersOf(k) {
			c.Route.Weights[s.Replicas[g].Name] = 1
		}
		s.Clients = append(s.Clients, c)
	}
	r, err := simulate.Run(ctx, s, simulate.Options{})
	if err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	return r.Systems[0].Gossip, nil
}
