// Package idle measures the cost of each part without traffic: memory and processor time.
//
// # Method
//
// An installation with two gateways and the demo's kind of configuration (a pool, ten tenants, a limit), an Envoy
// without a filter, and each rate limit service for two gateways. All are left alone for some seconds, then watched
// for some more.
//
//   - CPU: user and system time of each process over the time watched.
//   - Memory: anonymous memory, which no file backs (heaps, stacks, tables), at the end. The pages of programs are
//     not counted: they are shared, and given back when memory is short.
//
// Envoy has one worker. The cost of the filter is the difference of the two Envoys.
package idle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
	"github.com/titrate/titrate/services/dev/child"
)

// settle is the time that the parts run before they are watched: gossip and shares have settled by then.
const settle = 10 * time.Second

// documents are a pool, tenants without traffic, and a limit for each of their clients.
func documents() string {
	var all strings.Builder
	all.WriteString("{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 1000}}\n")
	for i := range 10 {
		fmt.Fprintf(&all, "---\n{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/t%d, "+
			"spec: {weight: 1}}\n", i)
	}
	all.WriteString("---\n{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/-/limits/each, " +
		"spec: {rate: 100/s}}\n")
	return all.String()
}

// Part is one process.
type Part struct {
	Name    string  `json:"name"`
	Bytes   int64   `json:"bytes"`   // anonymous memory
	Percent float64 `json:"percent"` // of one core
}

// Figures are the figures of a run.
type Figures struct {
	Seconds float64 `json:"seconds"` // watched
	Parts   []Part  `json:"parts"`
}

// Run measures for a time.
func Run(ctx context.Context, r *rig.Rig, watched time.Duration) (*Figures, []markdown.Section, error) {
	var all []*child.Process
	in, err := r.Installation(ctx, "idle", documents())
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Stop() }() // the rig kills processes that do not end
	all = append(all, in.Processes()...)
	for _, name := range []string{"idle-1", "idle-2"} {
		g, err := in.Gateway(ctx, rig.Spec{Name: name})
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = g.Stop() }()
		agent, _ := g.Agent()
		all = append(all, agent, g.Process)
	}
	plain, err := r.Envoy(ctx, rig.Spec{Name: "without filter", Filter: rig.Plain})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = plain.Stop() }()
	all = append(all, plain.Process)
	for _, name := range r.Services() {
		s, err := r.Service(ctx, name, []rig.Limit{{Tenant: "t0", Rate: 100}}, 2)
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = s.Stop() }()
		all = append(all, s.Processes(0)...)
	}
	if err := rig.Sleep(ctx, settle); err != nil {
		return nil, nil, err
	}
	f, err := watch(ctx, all, watched)
	if err != nil {
		return nil, nil, err
	}
	return f, []markdown.Section{f.tabulate()}, nil
}

func watch(ctx context.Context, all []*child.Process, watched time.Duration) (*Figures, error) {
	used := func() (times []time.Duration, err error) {
		for _, p := range all {
			t, err := rig.CPU{p}.Of()
			if err != nil {
				return nil, err
			}
			times = append(times, t)
		}
		return times, nil
	}
	began := time.Now()
	before, err := used()
	if err != nil {
		return nil, err
	}
	if err := rig.Sleep(ctx, watched); err != nil {
		return nil, err
	}
	after, err := used()
	if err != nil {
		return nil, err
	}
	f := &Figures{Seconds: time.Since(began).Seconds()}
	for i, p := range all {
		bytes, err := rig.AnonymousBytes(p)
		if err != nil {
			return nil, err
		}
		f.Parts = append(f.Parts, Part{Name: p.Name, Bytes: bytes,
			Percent: 100 * (after[i] - before[i]).Seconds() / f.Seconds})
	}
	return f, nil
}

func (f *Figures) tabulate() markdown.Section {
	t := markdown.Section{Title: "Idle", Head: []string{"process", "memory (MiB)", "CPU (% of a core)"}}
	for _, p := range f.Parts {
		t.Add(p.Name, fmt.Sprintf("%.1f", float64(p.Bytes)/(1<<20)), fmt.Sprintf("%.2f", p.Percent))
	}
	return t
}
