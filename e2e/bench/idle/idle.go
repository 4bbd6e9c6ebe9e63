// Package idle measures the cost of each part without traffic, and while a thousand clients ask a little: memory,
// processor time and task switches.
//
// # Method
//
// An installation with three gateways and the demo's kind of configuration (a pool, ten tenants, a limit), an Envoy
// without a filter, and each rate limit service for two gateways. All are left alone for some seconds, then watched
// for some more. Then a thousand clients ask once a second each, a third of them at each gateway, and the
// installation is watched again.
//
//   - CPU: user and system time of each process over the time watched, and of its threads by their names.
//   - Switches: how often threads of it gave up their processor by themselves, which is how often something woke them.
//   - Memory: anonymous memory, which no file backs (heaps, stacks, tables), after the idle time. The pages of
//     programs are not counted: they are shared, and given back when memory is short.
//
// Envoy has one worker. The cost of the filter is the difference of the two Envoys.
package idle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/titrate/titrate/e2e/bench/openloop"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/installation/child"
	"github.com/titrate/titrate/papers/markdown"
)

const (
	// settle is the time that the parts run before they are watched: gossip and shares have settled by then.
	settle = 10 * time.Second
	// gateways is the number of gateways of the installation.
	gateways = 3
	// clients ask once a second each.
	clients = 1000
	// warm is the time for which the clients have asked before the measurement begins.
	warm = 5 * time.Second
	// least is the processor time of threads that are shown, in ms per second.
	least = .2
)

// documents are a pool, tenants, and a limit for each of their clients that none of them meets.
func documents() string {
	var all strings.Builder
	all.WriteString("{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 10000}}\n")
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
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"` // anonymous memory
	Idle  Work   `json:"idle"`
	Asked *Work  `json:"asked,omitempty"` // while clients ask; nil: it is not part of the installation
}

// Work is the processor use of a process in each second.
type Work struct {
	Milliseconds float64      `json:"milliseconds"` // of processor time
	Switches     float64      `json:"switches"`
	Threads      []rig.Thread `json:"threads"` // of the time watched, the busiest first
}

// Figures are the figures of a run.
type Figures struct {
	Seconds float64 `json:"seconds"` // watched
	Parts   []Part  `json:"parts"`
}

// Run measures for a time.
func Run(ctx context.Context, r *rig.Rig, watched time.Duration) (*Figures, []markdown.Section, error) {
	in, err := r.Installation(ctx, "idle", documents())
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Stop() }() // the rig kills processes that do not end
	all := slices.Clone(in.Processes())
	var targets []string
	for i := range gateways {
		g, err := in.Join(ctx, rig.Spec{Name: fmt.Sprintf("idle-%d", i+1)})
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = g.Stop() }()
		all, targets = append(all, g.Agent.Process(), g.Process()), append(targets, g.Address())
	}
	installation := len(all)
	beside, stop, err := others(ctx, r)
	defer stop()
	if err != nil {
		return nil, nil, err
	}
	all = append(all, beside...)
	if err := rig.Sleep(ctx, settle); err != nil {
		return nil, nil, err
	}
	f := &Figures{Seconds: watched.Seconds(), Parts: make([]Part, len(all))}
	idle, err := watch(ctx, all, watched)
	if err != nil {
		return nil, nil, err
	}
	for i, p := range all {
		f.Parts[i].Name, f.Parts[i].Idle = p.Name, idle[i]
		if f.Parts[i].Bytes, err = rig.AnonymousBytes(p); err != nil {
			return nil, nil, err
		}
	}
	asked, err := askedWork(ctx, all[:installation], targets, watched)
	if err != nil {
		return nil, nil, err
	}
	for i := range asked {
		f.Parts[i].Asked = &asked[i]
	}
	return f, []markdown.Section{f.tabulate(), f.tabulateThreads()}, nil
}

// others starts an Envoy without a filter and the rate limit services.
func others(ctx context.Context, r *rig.Rig) (all []*child.Process, stop func(), err error) {
	var ends []func() error
	stop = func() {
		for _, end := range slices.Backward(ends) {
			_ = end() // the rig kills processes that do not end
		}
	}
	plain, err := r.Envoy(ctx, rig.Spec{Name: "without filter", Filter: rig.Plain})
	if err != nil {
		return nil, stop, err
	}
	all, ends = append(all, plain.Process()), append(ends, plain.Stop)
	for _, name := range r.Services() {
		s, err := r.Service(ctx, name, []rig.Limit{{Tenant: "t0", Rate: 100}}, 2)
		if err != nil {
			return nil, stop, err
		}
		all, ends = append(all, s.Processes(0)...), append(ends, s.Stop)
	}
	return all, stop, nil
}

// askedWork watches processes while clients ask.
func askedWork(ctx context.Context, all []*child.Process, targets []string, watched time.Duration) ([]Work, error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() {
		g := openloop.Generator{Targets: targets, Connections: 16, Requests: openloop.Requests("t0", clients)}
		results, err := g.Run(asking, shots(len(targets), watched+2*warm))
		for _, r := range results {
			if err == nil && r.Status != 200 {
				err = fmt.Errorf("a client below its limit was answered %d", r.Status)
			}
		}
		failed <- err
	}()
	select {
	case err := <-failed:
		return nil, fmt.Errorf("idle: the clients ended early: %w", err)
	case <-time.After(warm):
	}
	work, err := watch(ctx, all, watched)
	if err != nil {
		return nil, err
	}
	return work, <-failed
}

// shots has each client ask its gateway once a second.
func shots(targets int, d time.Duration) []openloop.Shot {
	all := openloop.Steady(clients, d, clients, 0)
	for i := range all {
		all[i].Target = all[i].Request % int32(targets)
	}
	return all
}

// watch measures what processes do in a time.
func watch(ctx context.Context, all []*child.Process, watched time.Duration) ([]Work, error) {
	type reading struct {
		at      time.Time
		used    time.Duration
		threads rig.Threads
	}
	read := func() (out []reading, err error) {
		for _, p := range all {
			one := reading{at: time.Now()}
			if one.used, err = (rig.CPU{p}).Of(); err != nil {
				return nil, err
			}
			if one.threads, err = rig.ThreadsOf(p); err != nil {
				return nil, err
			}
			out = append(out, one)
		}
		return out, nil
	}
	before, err := read()
	if err != nil {
		return nil, err
	}
	if err := rig.Sleep(ctx, watched); err != nil {
		return nil, err
	}
	after, err := read()
	if err != nil {
		return nil, err
	}
	out := make([]Work, len(all))
	for i := range all {
		seconds := after[i].at.Sub(before[i].at).Seconds()
		out[i] = Work{Milliseconds: 1000 * (after[i].used - before[i].used).Seconds() / seconds,
			Threads: after[i].threads.Since(before[i].threads)}
		for _, t := range out[i].Threads {
			out[i].Switches += t.Switches / seconds
		}
	}
	return out, nil
}

func (f *Figures) tabulate() markdown.Section {
	t := markdown.Section{Title: fmt.Sprintf("Idle, and with %d clients that ask once a second each", clients),
		Head: []string{"process", "memory (MiB)", "idle: CPU (ms/s)", "idle: switches/s", "asked: CPU (ms/s)",
			"asked: switches/s"}}
	for _, p := range f.Parts {
		row := []any{p.Name, fmt.Sprintf("%.1f", float64(p.Bytes)/(1<<20)), fmt.Sprintf("%.2f", p.Idle.Milliseconds),
			fmt.Sprintf("%.0f", p.Idle.Switches), "", ""}
		if p.Asked != nil {
			row[4], row[5] = fmt.Sprintf("%.2f", p.Asked.Milliseconds), fmt.Sprintf("%.0f", p.Asked.Switches)
		}
		t.Add(row...)
	}
	return t
}

// tabulateThreads shows the threads of the installation that do anything.
func (f *Figures) tabulateThreads() markdown.Section {
	t := markdown.Section{Title: "Idle, by threads", Head: []string{"process", "threads", "idle: CPU (ms/s)",
		"asked: CPU (ms/s)"}}
	for _, p := range f.Parts {
		if p.Asked == nil {
			continue
		}
		for _, asked := range p.Asked.Threads {
			var idle rig.Thread
			if i := slices.IndexFunc(p.Idle.Threads, func(t rig.Thread) bool { return t.Name == asked.Name }); i >= 0 {
				idle = p.Idle.Threads[i]
			}
			perSecond := func(t rig.Thread) float64 { return 1000 * t.CPU.Seconds() / f.Seconds }
			if perSecond(idle) >= least || perSecond(asked) >= least {
				t.Add(p.Name, asked.Name, fmt.Sprintf("%.2f", perSecond(idle)), fmt.Sprintf("%.2f", perSecond(asked)))
			}
		}
	}
	return t
}
