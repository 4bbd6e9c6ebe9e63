// Package cpu measures the CPU time of a request with each kind of rate limit, and how many requests one worker
// then answers.
//
// # Method
//
// One Envoy per variant, one worker each, all up at once. In each round every variant gets
// the same closed load in turn (wrk, one thread, 32 connections), in an order that rotates.
// Figures are ratios to the Envoy without filter of the same round (package paired). CPU is
// the user and system time of all processes that the variant needs, over the requests that
// were answered:
//
//	no filter, local_ratelimit    Envoy
//	titrate                       Envoy, agent, coordinator, etcd
//	titrate --rls                 Envoy, its agent
//	ratelimit + Redis             Envoy, envoyproxy/ratelimit, Redis
//	Limitador (library)           Envoy, the server
//
// Titrate and the services have two gateways, so that there is another gateway to inform. The other gateway's
// agent and the load generator are not counted. The Envoy itself answers requests, so that the base is as small
// and the ratio as large as possible. The variants called "proxied" send on to one more Envoy, as a gateway
// does, and are compared with each other. (The ratelimit filter needs a route to an upstream, so it is proxied
// only.)
//
//   - admit: 10⁵ client keys in turn, limits too high to be met. All that are
//     not called otherwise are of this kind.
//     Limits of Titrate are LOCAL, or called EXACT: then a client that has not come for 15 s is new,
//     and its first request waits for the owner of its key. Of 10⁵ keys most are new in each round,
//     of 1000 keys few.
//   - reject: clients whose limit of 1/h is spent; the answer is a 429.
//   - queued: a tenant whose share of the pool is 8000/s, asked for as fast as
//     64 connections can: each request is held, then released by a tick. Its
//     base is no filter at the same rate (open loop), because an Envoy that is
//     less than busy uses more CPU per request.
//   - local_ratelimit: a token bucket per client (dynamic descriptors), or one for all.
//   - services (package rig): one request to the service for each request.
//
// A round counts only if each variant gave the right answers: everything admitted, or, for reject, everything
// refused.
package cpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/titrate/titrate/e2e/bench/openloop"
	"github.com/titrate/titrate/e2e/bench/paired"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

// Options of a run.
type Options struct {
	Rounds   int           // ≥ 1
	Duration time.Duration // of one load, whole seconds ≥ 1
	Keys     int           // clients, ≥ 1
	// Comparison measures only proxied requests with and without a limit.
	Comparison bool
}

// Figures of a sample.
const (
	rate  = "requestsPerSecond"
	Total = "cpuMicrosPerRequest"
	Envoy = "envoyMicrosPerRequest"
)

// Names of variants that others are compared with.
const (
	plain = "no filter"
	paced = "no filter, 8000/s"
)

// Proxied names the variant that sends admitted requests on to another Envoy.
func Proxied(system string) string { return system + ", proxied" }

const (
	connections = 32
	queuedShare = 8000 // requests/s
	documents   = `
{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api,
  spec: {capacity: 10000000, queue: {delayTarget: 200ms, maxWait: 5s}}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/admit, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/admit/limits/each,
  spec: {rate: 100000/s, burst: 100000, precision: LOCAL}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/exact, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/exact/limits/each,
  spec: {rate: 100000/s, burst: 100000, precision: EXACT}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/reject, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/reject/limits/each,
  spec: {rate: 1/h, burst: 1, precision: LOCAL}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/queued, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/queued/quotas/api, spec: {max: 8000}}
`
)

// variant is one way to answer.
type variant struct {
	name, base string
	envoy      *rig.Envoy
	processes  rig.CPU
	load       rig.Closed
	rejects    bool    // everything must be refused, else nothing
	pace       float64 // requests/s of an open loop; 0 is a closed one
}

// Run measures and returns the rounds and their tables.
func Run(ctx context.Context, r *rig.Rig, o Options) (paired.Rounds, []markdown.Section, error) {
	stage, err := start(ctx, r, o)
	defer stage.stop()
	if err != nil {
		return nil, nil, err
	}
	variants := stage.all
	for _, v := range variants { // also fills the key tables and spends the bursts
		r.Say("cpu: warming up %s", v.name)
		warm := v
		warm.load.Duration = time.Second + time.Duration(v.load.Keys/50_000)*time.Second
		if _, err := warm.measure(ctx, r); err != nil {
			return nil, nil, err
		}
	}
	rounds := paired.Rounds{}
	for round := range o.Rounds {
		for i := range variants {
			v := &variants[(i+round)%len(variants)]
			s, err := v.measure(ctx, r)
			if err == nil {
				err = v.sound(s)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", v.name, err)
			}
			rounds[v.name] = append(rounds[v.name], s)
			r.Say("cpu: round %d/%d  %-26s %8.0f/s %8.2f µs", round+1, o.Rounds, v.name, s[rate], s[Total])
		}
	}
	return rounds, []markdown.Section{tabulate(variants, rounds)}, nil
}

// measure runs one load.
func (v *variant) measure(ctx context.Context, r *rig.Rig) (paired.Sample, error) {
	before, err := v.processes.Of()
	if err != nil {
		return nil, err
	}
	own, err := rig.CPU{v.envoy.Process()}.Of()
	if err != nil {
		return nil, err
	}
	a, err := v.ask(ctx, r)
	if err != nil {
		return nil, err
	}
	after, err := v.processes.Of()
	if err != nil {
		return nil, err
	}
	ownAfter, err := rig.CPU{v.envoy.Process()}.Of()
	return paired.Sample{
		rate: a.Rate, "refused": a.Refused / a.Count, "broken": a.Broken,
		Total: float64((after - before).Nanoseconds()) / 1e3 / a.Count,
		Envoy: float64((ownAfter - own).Nanoseconds()) / 1e3 / a.Count,
	}, err
}

func (v *variant) ask(ctx context.Context, r *rig.Rig) (rig.Answered, error) {
	if v.pace == 0 {
		return r.Wrk(ctx, v.envoy.URL(), v.load)
	}
	g := openloop.Generator{Targets: []string{v.envoy.Address()}, Connections: connections,
		Requests: openloop.Requests(v.load.Tenant, v.load.Keys)}
	results, err := g.Run(ctx, openloop.Steady(v.pace, v.load.Duration, v.load.Keys, 0))
	a := rig.Answered{Count: float64(len(results)), Rate: float64(len(results)) / v.load.Duration.Seconds()}
	for i := range results {
		switch status := results[i].Status; {
		case status == 0:
			a.Broken++
		case status/100 != 2:
			a.Refused++
		}
	}
	return a, err
}

// sound checks that the variant gave the right answers.
func (v *variant) sound(s paired.Sample) error {
	want := 0.0
	if v.rejects {
		want = 1
	}
	if got := s["refused"]; got < want-.01 || got > want+.0001 {
		return fmt.Errorf("%.2f %% of the requests were refused, %.0f %% should be; the run proves nothing", 100*got,
			100*want)
	}
	if s["broken"] > 0 {
		return errors.New("connections broke; the run proves nothing")
	}
	return nil
}

func tabulate(variants []variant, rounds paired.Rounds) markdown.Section {
	t := markdown.Section{
		Title: "CPU per request",
		Head: []string{"variant", "base", "CPU, all processes", "CPU, Envoy alone", "requests/s", "µs, all",
			"µs, Envoy"},
		Notes: []string{fmt.Sprintf("Medians of %d interleaved rounds with their 95 %% intervals; ratios within a "+
			"round.", len(rounds[Proxied(plain)]))},
	}
	for _, v := range variants {
		t.Add(v.name, v.base, paired.Spread(rounds.Ratios(v.name, v.base, Total), 3),
			paired.Spread(rounds.Ratios(v.name, v.base, Envoy), 3),
			paired.Spread(rounds.Ratios(v.name, v.base, rate), 2), paired.Spread(rounds.Values(v.name, Total), 1),
			paired.Spread(rounds.Values(v.name, Envoy), 1))
	}
	return t
}
