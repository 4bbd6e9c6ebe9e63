// Package memory measures a million clients in one Envoy: their memory, the pauses of Go's collector with them,
// and their effect on latency.
//
// # Method
//
// Two Envoys with the filter. One has room for a million keys and gets requests of a million different clients,
// each once; titrate_keys must then be a million. The other has room for ten thousand keys and has a thousand.
//
//   - Weight: the difference of the two processes' anonymous memory, over a
//     million: tables, and whatever else is more.
//   - Stop-the-world: the filter's runtime prints each collection (GODEBUG=gctrace=1); the
//     figures are the two pauses of each, added, while the Envoy is full and under load.
//     The filter allocates so little that by itself it collects once in two minutes, which
//     is Go's longest. So the configuration is changed ten times a second meanwhile, which
//     allocates. Both Envoys run with GOGC=1, which makes Go collect whenever a hundredth
//     of the heap is new.
//   - Latency: both at half of the highest rate, the full one asked for all its
//     million clients in turn, compared with the Envoy without filter (package latency).
package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/titrate/titrate/e2e/bench/latency"
	"github.com/titrate/titrate/e2e/bench/openloop"
	"github.com/titrate/titrate/e2e/bench/paired"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/papers/markdown"
)

// keys is the number of clients.
const keys = 1_000_000

// documents give the clients of tenant kept a bucket that takes six minutes to
// make up for one request: until then the filter has to remember them. (A client
// whose bucket is full again is as good as forgotten, and its place is free.)
const documents = latency.Documents + `
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/kept, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/kept/limits/each, spec: {rate: 10/h, burst: 100000}}
`

// Figures are the figures of a run.
type Figures struct {
	Keys        float64       `json:"keys"` // in the table, as the filter counts
	BytesPerKey float64       `json:"bytesPerKey"`
	Collections int           `json:"collections"`
	PausesMs    []float64     `json:"pausesMs"` // per collection, sorted
	Rate        float64       `json:"rate"`     // requests/s of the latency
	Latency     paired.Rounds `json:"latency"`
}

// Run measures.
func Run(ctx context.Context, r *rig.Rig, rounds int) (*Figures, []markdown.Section, error) {
	in, err := r.Installation(ctx, "memory", documents)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Stop() }() // the rig kills processes that do not end
	plain, err := r.Envoy(ctx, rig.Spec{Name: "memory-plain", Filter: rig.Plain})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = plain.Stop() }()
	var gateways []*rig.Gateway
	for _, s := range []rig.Spec{{Name: "memory-few", Keys: 10_000}, {Name: "memory-full", Keys: keys * 5 / 4}} {
		s.Env = []string{"GODEBUG=gctrace=1", "GOGC=1"}
		g, err := in.Join(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = g.Stop() }()
		gateways = append(gateways, g)
	}
	f := &Figures{}
	if err := f.fill(ctx, r, gateways[0], gateways[1]); err != nil {
		return nil, nil, err
	}
	targets := []latency.Target{
		{Name: "no filter", Envoy: plain, Tenant: "admit", Clients: 1000},
		{Name: "titrate, 10³ clients", Envoy: gateways[0].Proxy, Tenant: "admit", Clients: 1000},
		{Name: "titrate, 10⁶ clients", Envoy: gateways[1].Proxy, Tenant: "kept", Clients: keys},
	}
	if err := f.load(ctx, r, targets, rounds); err != nil {
		return nil, nil, err
	}
	err = f.collect(ctx, r, in, gateways[1])
	return f, []markdown.Section{f.tabulate(), latency.Tabulate(fmt.Sprintf("Latency with 10⁶ clients, %.0f/s", f.Rate),
		targets, f.Latency)}, err
}

// fill has every client ask one gateway once, and weighs it against the other.
func (f *Figures) fill(ctx context.Context, r *rig.Rig, few, g *rig.Gateway) error {
	const rate = 20_000 // requests/s, which any machine sustains
	r.Say("memory: %d clients ask once, %d a second", keys, rate)
	loop := openloop.Generator{Targets: []string{g.Address()}, Requests: openloop.Requests("kept", keys),
		Connections: 32}
	results, err := loop.Run(ctx, openloop.Steady(rate, keys/rate*1e9, keys, 0))
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(results, func(r openloop.Result) bool { return r.Status != 200 }); i >= 0 {
		return fmt.Errorf("client %d was answered with status %d", i+1, results[i].Status)
	}
	without, err := rig.AnonymousBytes(few.Process())
	if err != nil {
		return err
	}
	with, err := rig.AnonymousBytes(g.Process())
	if err != nil {
		return err
	}
	f.BytesPerKey = float64(with-without) / keys
	return f.count(ctx, r, g)
}

// count reads how many keys there are; the filter counts them every ten seconds.
func (f *Figures) count(ctx context.Context, r *rig.Rig, g *rig.Gateway) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return g.Process().Ready(ctx, func(ctx context.Context) (err error) {
		f.Keys, err = g.Metric(ctx, "titrate_keys")
		if err == nil && f.Keys < .99*keys {
			err = fmt.Errorf("the filter counts %.0f keys of %d: the table gave some away, and the run proves nothing",
				f.Keys, keys)
		}
		return err
	})
}

func (f *Figures) load(ctx context.Context, r *rig.Rig, targets []latency.Target, rounds int) error {
	highest, err := latency.Highest(ctx, r, targets[0])
	if err != nil {
		return err
	}
	f.Rate = highest / 2
	f.Latency, err = latency.Measure(ctx, r, targets, f.Rate, rounds)
	return err
}

// collect has the full Envoy collect garbage under load, and reads how long it
// stopped the world for.
func (f *Figures) collect(ctx context.Context, r *rig.Rig, in *rig.Installation, g *rig.Gateway) error {
	r.Say("memory: the configuration changes ten times a second, under load")
	from, err := os.Stat(g.Log())
	if err != nil {
		return err
	}
	changes, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		every := time.NewTicker(100 * time.Millisecond)
		defer every.Stop()
		for i := 0; ; i++ {
			select {
			case <-changes.Done():
				done <- nil
				return
			case <-every.C:
			}
			if err := in.Apply(ctx, others(1000+i%2)); err != nil {
				done <- err
				return
			}
		}
	}()
	_, err = r.Wrk(ctx, g.URL(), rig.Closed{Tenant: "kept", Keys: 100_000, Connections: 32, Duration: 10 * time.Second})
	stop()
	if err := errors.Join(err, <-done); err != nil {
		return err
	}
	f.PausesMs, err = pauses(g.Log(), from.Size())
	f.Collections = len(f.PausesMs)
	return err
}

// others returns tenants without requests.
func others(burst int) string {
	var b strings.Builder
	for i := range 45 {
		fmt.Fprintf(&b, "---\n{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/other-%d, spec: "+
			"{weight: 1}}\n", i)
		fmt.Fprintf(&b, "---\n{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/other-%d/limits/each, "+
			"spec: {rate: 1000/s, burst: %d}}\n", i, burst)
	}
	return b.String()
}

// trace is a collection as the runtime prints it. The clock times are: pause,
// concurrent, pause.
var trace = regexp.MustCompile(`gc \d+ @[0-9.]+s \d+%: ([0-9.]+)\+[0-9.]+\+([0-9.]+) ms clock`)

// pauses reads the collections from a log, from an offset on, in ms.
func pauses(log string, from int64) ([]float64, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	var all []float64
	for _, m := range trace.FindAllSubmatch(text[min(from, int64(len(text))):], -1) {
		first, err := strconv.ParseFloat(string(m[1]), 64)
		second, err2 := strconv.ParseFloat(string(m[2]), 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		all = append(all, first+second)
	}
	slices.Sort(all)
	return all, nil
}

func (f *Figures) tabulate() markdown.Section {
	t := markdown.Section{Title: "A million clients in one Envoy", Head: []string{"what", "seen", "target"}}
	t.Add("keys in the table", fmt.Sprintf("%.0f", f.Keys), "10⁶")
	t.Add("memory per key", fmt.Sprintf("%.0f B", f.BytesPerKey), "≤ 100 B")
	if f.Collections == 0 {
		t.Add("stop-the-world", "no collection happened", "≤ 1 ms")
		return t
	}
	t.Add(fmt.Sprintf("stop-the-world, both pauses, %d collections", f.Collections),
		fmt.Sprintf("median %.2f ms, p99 %.2f ms, worst %.2f ms", paired.Median(f.PausesMs),
			judge.Quantile(f.PausesMs, .99), f.PausesMs[f.Collections-1]), "≤ 1 ms")
	return t
}
