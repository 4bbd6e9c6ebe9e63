// Package configuration measures the cost of many tenants without traffic: to load them, and to change one of
// them.
//
// # Method
//
// Each number of tenants has its own installation: etcd, a coordinator, an agent and an Envoy with the filter,
// without traffic. Each tenant has a limit, so there are twice as many documents, and a pool. Then the largest number
// once more, with all tenants on one plan, which has the limit. And, as a part of its own, one tenant with a limit that
// has very many overrides, which are loaded by one apply after the other, 400,000 each.
//
//   - Load: one `titrate apply -f FILE` of all of them, from its start to its return, and to the moment when the
//     filter has them in force. Likewise the CPU time of all processes until then. Memory is the anonymous memory of
//     each process a few seconds later.
//   - One change: another rate of one tenant's limit, by the API. The time until it is in force is
//     from the call to the moment when the agent has the filter's report, which comes within 50 ms.
//     The agent is asked every 5 ms. Then the same number of changes again, one each second, without
//     asking. It measures the CPU time of each process over that time, less its CPU time over the
//     same time without changes, per change. Likewise the bytes that the Envoy's process has read.
package configuration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/papers/markdown"
)

// processes are the processes of a gateway's installation, in the order of rig.Gateway.Processes.
var processes = []string{"envoy", "agent", "etcd", "coordinator"}

// Figures are the figures of one number of tenants.
type Figures struct {
	Tenants   int        `json:"tenants"`
	Planned   bool       `json:"planned"`   // all on one plan, and each change is of its limit
	Overrides bool       `json:"overrides"` // Tenants counts overrides of one limit
	FileMB    float64    `json:"fileMB"`
	ApplyS    float64    `json:"applyS"`   // until titrate apply returns
	InForceS  float64    `json:"inForceS"` // until the filter has it, both from the start
	LoadCPUS  [5]float64 `json:"loadCPUS"` // until then: of titrate apply, and of processes
	MemoryMB  [4]float64 `json:"memoryMB"`
	ChangesMs []float64  `json:"changesMs"` // each until in force, sorted
	CPUMs     [4]float64 `json:"cpuMs"`     // per change
	Bytes     float64    `json:"bytes"`     // per change, read by the Envoy
}

// Run measures, with so many changes for each number of tenants.
func Run(ctx context.Context, r *rig.Rig, sizes []int, changes int) ([]Figures, []markdown.Section, error) {
	var all []Figures
	for i := range len(sizes) + 1 {
		f := &Figures{Tenants: sizes[min(i, len(sizes)-1)], Planned: i == len(sizes)}
		if err := f.run(ctx, r, changes); err != nil {
			return all, nil, fmt.Errorf("%s tenants: %w", f.label(), err)
		}
		all = append(all, *f)
	}
	return all, tabulate(all), nil
}

// RunOverrides measures so many overrides of one limit.
func RunOverrides(ctx context.Context, r *rig.Rig, overrides, changes int) ([]Figures, []markdown.Section, error) {
	f := &Figures{Tenants: overrides, Overrides: true}
	if err := f.run(ctx, r, changes); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.label(), err)
	}
	return []Figures{*f}, tabulate([]Figures{*f}), nil
}

// label says how many tenants there are, and whether they are on a plan.
func (f *Figures) label() string {
	if f.Planned {
		return fmt.Sprintf("%d-on-a-plan", f.Tenants)
	}
	if f.Overrides {
		return fmt.Sprintf("%d-overrides", f.Tenants)
	}
	return fmt.Sprint(f.Tenants)
}

// pool is applied first, so that the Envoy has a configuration to begin with.
const pool = `{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 1000000}}
`

func (f *Figures) run(ctx context.Context, r *rig.Rig, changes int) error {
	name := "configuration-" + f.label()
	in, err := r.Installation(ctx, name, pool)
	if err != nil {
		return err
	}
	defer func() { _ = in.Stop() }() // the rig kills processes that do not end
	g, err := in.Join(ctx, rig.Spec{Name: name})
	if err != nil {
		return err
	}
	defer func() { _ = g.Stop() }()
	if err := f.load(ctx, r, in, g); err != nil {
		return err
	}
	for i := range changes {
		took, err := f.change(ctx, in, g, i)
		if err != nil {
			return err
		}
		f.ChangesMs = append(f.ChangesMs, took.Seconds()*1000)
	}
	slices.Sort(f.ChangesMs)
	return f.cost(ctx, r, in, g, changes)
}

// load applies all documents and waits until they are in force.
func (f *Figures) load(ctx context.Context, r *rig.Rig, in *rig.Installation, g *rig.Gateway) error {
	var files []string
	for i, text := range f.documents() {
		files = append(files, r.File(fmt.Sprintf("tenants-%s-%d.yaml", f.label(), i)))
		if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
			return err
		}
		f.FileMB += float64(len(text)) / 1e6
	}
	r.Say("configuration: %s tenants, %d files of %.0f MB", f.label(), len(files), f.FileMB)
	before, err := read(g)
	if err != nil {
		return err
	}
	began := time.Now()
	for _, file := range files {
		apply := exec.CommandContext(ctx, r.Programs.Titrate, "apply", "--server", in.API(),
			"--timeout", "10m", "-f", file)
		if out, err := apply.CombinedOutput(); err != nil {
			return fmt.Errorf("titrate apply: %w: %.2000s", err, out)
		}
		f.LoadCPUS[0] += (apply.ProcessState.UserTime() + apply.ProcessState.SystemTime()).Seconds()
		r.Say("configuration: %s applied after %.1f s", file, time.Since(began).Seconds())
	}
	f.ApplyS = time.Since(began).Seconds()
	if err := in.Apply(ctx, pool); err != nil { // stored already: the answer has the revision
		return err
	}
	if err := g.Enforces(ctx); err != nil {
		return err
	}
	f.InForceS = time.Since(began).Seconds()
	after, err := read(g)
	if err != nil {
		return err
	}
	for i, cpu := range after.cpu {
		f.LoadCPUS[1+i] = (cpu - before.cpu[i]) / 1000
	}
	const quiet = 5 * time.Second // snapshots are written, collectors have run
	if err := rig.Sleep(ctx, quiet); err != nil {
		return err
	}
	for i, p := range g.Processes() {
		bytes, err := rig.AnonymousBytes(p)
		if err != nil {
			return err
		}
		f.MemoryMB[i] = float64(bytes) / 1e6
	}
	return nil
}

// overridesApplied is the number of overrides in one apply.
const overridesApplied = 400_000

func (f *Figures) documents() (files []string) {
	var b strings.Builder
	if f.Overrides {
		b.WriteString("---\n{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/t000000, spec: {}}\n---\n" +
			"{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/t000000/limits/per-client, " +
			"spec: {rate: 1/s}}\n")
		for i := range f.Tenants {
			if b.WriteString("---\n" + f.limit(i, 600+i%1000)); (i+1)%overridesApplied == 0 {
				files = append(files, b.String())
				b.Reset()
			}
		}
		return append(files, b.String())
	}
	if f.Planned {
		b.WriteString("---\n{apiVersion: titrate.dev/v1alpha1, kind: Plan, name: plans/gold, spec: {}}\n---\n" +
			f.limit(0, 600))
	}
	for i := range f.Tenants {
		if f.Planned {
			fmt.Fprintf(&b, "---\n{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/t%06d, "+
				"spec: {plan: gold}}\n", i)
			continue
		}
		fmt.Fprintf(&b, "---\n{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/t%06d, "+
			"spec: {weight: %d}}\n", i, 1+i%3)
		b.WriteString("---\n" + f.limit(i, 600))
	}
	return []string{b.String()}
}

// limit returns the limit of a tenant, or of the plan, or an override.
func (f *Figures) limit(tenant, rate int) string {
	if f.Overrides {
		return fmt.Sprintf("{apiVersion: titrate.dev/v1alpha1, kind: Override, name: "+
			"tenants/t000000/limits/per-client/overrides/c%07d, spec: {rate: %d/min}}\n", tenant, rate)
	}
	of := fmt.Sprintf("tenants/t%06d", tenant)
	if f.Planned {
		of = "plans/gold"
	}
	return fmt.Sprintf("{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: %s/limits/per-client, "+
		"spec: {rate: %d/min, burst: 30}}\n", of, rate)
}

// change changes one limit and waits until that is in force.
func (f *Figures) change(ctx context.Context, in *rig.Installation, g *rig.Gateway, i int) (time.Duration, error) {
	began := time.Now()
	if err := in.Apply(ctx, f.limit(i, 700+i)); err != nil {
		return 0, err
	}
	err := g.Reports(ctx, 5*time.Millisecond)
	return time.Since(began), err
}

// cost measures the cost of changes, less the cost of the same time without changes.
func (f *Figures) cost(ctx context.Context, r *rig.Rig, in *rig.Installation, g *rig.Gateway, changes int) error {
	idle, err := used(ctx, g, changes, nil)
	if err != nil {
		return err
	}
	busy, err := used(ctx, g, changes, func(i int) error { return in.Apply(ctx, f.limit(i, 800+i)) })
	if err != nil {
		return err
	}
	for i := range processes {
		f.CPUMs[i] = max(0, busy.cpu[i]-idle.cpu[i]) / float64(changes)
	}
	f.Bytes = max(0, busy.bytes-idle.bytes) / float64(changes)
	r.Say("configuration: %+v", *f)
	return nil
}

// use is the use in a time: CPU in ms by process, and bytes read by the Envoy.
type use struct {
	cpu   [4]float64
	bytes float64
}

// used measures the use while step is called once a second, nil for nothing, and for a second
// more.
func used(ctx context.Context, g *rig.Gateway, steps int, step func(i int) error) (use, error) {
	before, err := read(g)
	if err != nil {
		return use{}, err
	}
	for i := range steps + 1 {
		if step != nil && i < steps {
			if err := step(i); err != nil {
				return use{}, err
			}
		}
		if err := rig.Sleep(ctx, time.Second); err != nil {
			return use{}, err
		}
	}
	after, err := read(g)
	for i := range after.cpu {
		after.cpu[i] -= before.cpu[i]
	}
	after.bytes -= before.bytes
	return after, err
}

func read(g *rig.Gateway) (u use, err error) {
	all := g.Processes()
	for i := range all {
		t, err := rig.CPU(all[i : i+1]).Of()
		if err != nil {
			return u, err
		}
		u.cpu[i] = t.Seconds() * 1000
	}
	bytes, err := rig.ReadBytes(all[0])
	u.bytes = float64(bytes)
	return u, err
}

func tabulate(all []Figures) []markdown.Section {
	load := markdown.Section{Title: "Many tenants: load", Head: []string{"tenants", "file, MB", "titrate apply, s",
		"in force in Envoy, s", "etcd, MB", "coordinator, MB", "agent, MB", "Envoy, MB"}}
	cpu := markdown.Section{Title: "Many tenants: CPU of the load, s", Head: []string{"tenants", "titrate apply",
		"etcd", "coordinator", "agent", "Envoy"}}
	one := markdown.Section{Title: "Many tenants: one change", Head: []string{"tenants", "in force, median ms",
		"worst ms", "coordinator, ms CPU", "etcd, ms CPU", "agent, ms CPU", "Envoy, ms CPU", "to Envoy, bytes"}}
	for _, f := range all {
		m, c := f.MemoryMB, f.CPUMs
		load.Add(f.label(), round(f.FileMB), round(f.ApplyS), round(f.InForceS), round(m[2]), round(m[3]), round(m[1]),
			round(m[0]))
		l := f.LoadCPUS
		cpu.Add(f.label(), round(l[0]), round(l[3]), round(l[4]), round(l[2]), round(l[1]))
		one.Add(f.label(), round(judge.Quantile(f.ChangesMs, .5)), round(judge.Quantile(f.ChangesMs, 1)), round(c[3]),
			round(c[2]), round(c[1]), round(c[0]), fmt.Sprintf("%.0f", f.Bytes))
	}
	return []markdown.Section{load, cpu, one}
}

func round(x float64) string { return fmt.Sprintf("%.1f", x) }
