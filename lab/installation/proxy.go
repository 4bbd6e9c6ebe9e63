package installation

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/titrate/titrate/lab/installation/child"
)

// Proxy is the server of an Envoy.
type Proxy struct {
	Envoy
	*Server
	generation int // of a hot restart
}

// Envoy writes an Envoy's configuration and returns its server. Its name is the name of its gateway.
func (r *Rig) Envoy(e Envoy) (*Proxy, error) {
	if e.Port == 0 || e.Admin == 0 {
		free, err := Ports(2)
		if err != nil {
			return nil, err
		}
		e.Port, e.Admin = cmp.Or(e.Port, free[0]), cmp.Or(e.Admin, free[1])
	}
	if e.Base == AdminPort {
		e.Base = e.Admin
	}
	e.Host, e.Socket = cmp.Or(e.Host, r.Host), cmp.Or(e.Socket, r.Socket(e.Name))
	text, err := e.Bootstrap()
	if err != nil {
		return nil, err
	}
	file := r.File(strings.ReplaceAll(e.Name, " ", "-") + ".yaml")
	args := append(e.Wrap[:len(e.Wrap):len(e.Wrap)], r.Programs.Envoy, "-c", file, "--concurrency", "1",
		"--log-level", "warning", "--drain-time-s", "1", "--parent-shutdown-time-s", "3")
	spec := child.Spec{Name: "envoy " + e.Name, Path: args[0], Args: append(args[1:], e.restartEpoch(0)...),
		Born: e.Born, Env: append([]string{"ENVOY_DYNAMIC_MODULES_SEARCH_PATH=" + r.File("modules")}, e.Env...)}
	p := &Proxy{Envoy: e, Server: r.Server(spec, e.AdminURL()+"/ready")}
	return p, os.WriteFile(file, []byte(text), 0o600)
}

// restartEpoch returns the arguments that select the n-th Envoy of a hot restart.
func (e *Envoy) restartEpoch(n int) []string {
	if e.Base == 0 {
		return []string{"--disable-hot-restart"}
	}
	return []string{"--base-id", strconv.Itoa(e.Base), "--restart-epoch", strconv.Itoa(n)}
}

// epoch replaces the arguments of the generation.
func (p *Proxy) epoch(n int) {
	p.Args = append(slices.Clone(p.Args[:len(p.Args)-len(p.restartEpoch(p.generation))]), p.restartEpoch(n)...)
	p.generation = n
}

// First begins a new row of hot restarts with the next start.
func (p *Proxy) First() { p.epoch(0) }

// HotRestart starts the next Envoy of a hot restart and waits until it serves. It takes over the listeners. Its
// parent, the process so far, then ends by itself. Base is not 0.
func (p *Proxy) HotRestart(ctx context.Context) (parent *child.Process, err error) {
	parent = p.Process()
	p.epoch(p.generation + 1)
	return parent, p.Start(ctx)
}

// Statistics returns Envoy's counters and gauges whose names match the filter, a regular expression. Those of the
// module have no prefix.
func (p *Proxy) Statistics(ctx context.Context, filter string) (map[string]float64, error) {
	page, err := p.rig.Get(ctx, p.AdminURL()+"/stats?filter="+filter)
	if err != nil {
		return nil, fmt.Errorf("statistics of %s: %w", p.Envoy.Name, err)
	}
	return Numbers(page, ": "), nil
}

// Metric returns one counter or gauge.
func (p *Proxy) Metric(ctx context.Context, name string) (float64, error) {
	all, err := p.Statistics(ctx, name+"$")
	if err != nil {
		return 0, err
	}
	value, found := all[name]
	if !found {
		return 0, fmt.Errorf("%s has no metric %s: %v", p.Envoy.Name, name, all)
	}
	return value, nil
}

// Numbers reads lines of name, separator, number. It leaves out other lines, and the prefix that Envoy puts before
// the names of a module.
func Numbers(page, separator string) map[string]float64 {
	found := map[string]float64{}
	for line := range strings.Lines(page) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), separator)
		if value, err := strconv.ParseFloat(text, 64); ok && err == nil {
			found[strings.TrimPrefix(name, "dynamicmodulescustom.")] = value
		}
	}
	return found
}
