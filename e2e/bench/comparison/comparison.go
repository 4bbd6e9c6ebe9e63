// Package comparison keeps the figures by which README.md and docs/comparison.md compare rate
// limiters, and writes their tables.
//
// # Model
//
// The file figures.json has the figures of each system from three parts of the benchmark: cpu, latency and
// exactness. A run replaces the figures that it has measured and keeps the rest, so that a comparison can be
// measured in pieces. CPU and latency of systems are comparable between pieces: they are ratios and differences
// to an Envoy without a limit in the same round. With each figure the machine's load average before the part is
// kept.
package comparison

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/titrate/titrate/e2e/bench/cpu"
	"github.com/titrate/titrate/e2e/bench/exactness"
	"github.com/titrate/titrate/e2e/bench/latency"
	"github.com/titrate/titrate/e2e/bench/paired"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

// Limit is the limit of the clients whose exactness is compared, requests per second.
const Limit = 100

// Estimate is a median over rounds with its 95 % interval, or its range with fewer than six.
type Estimate struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

func estimate(values []float64) *Estimate {
	e := &Estimate{Median: paired.Median(values)}
	e.Low, e.High = paired.Interval(values)
	if math.IsInf(e.Low, 0) {
		e.Low, e.High = slices.Min(values), slices.Max(values)
	}
	return e
}

// System are the figures of one system.
type System struct {
	// CPU of all processes and of Envoy alone per proxied request, over that without a limit.
	CPU   *Estimate `json:"cpu,omitempty"`
	Envoy *Estimate `json:"envoy,omitempty"`
	// P50 and P99 are the latency added to proxied requests at 1000/s, in µs.
	P50 *Estimate `json:"p50,omitempty"`
	P99 *Estimate `json:"p99,omitempty"`
	// Exactness by load.
	Exactness map[string]exactness.Figures `json:"exactness,omitempty"`
	// Load is the machine's load average before each part.
	Load map[string]float64 `json:"load"`
}

// Figures are the systems by name.
type Figures map[string]*System

// file has the figures, relative to the repository's root.
const file = "e2e/bench/comparison/figures.json"

// Read reads the figures of a repository; without a file there are none.
func Read(root string) (Figures, error) {
	f := Figures{}
	text, err := os.ReadFile(filepath.Join(root, file))
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	return f, json.Unmarshal(text, &f)
}

// Write keeps the figures and writes the tables into the documents.
func (f Figures) Write(root string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(root, file), append(text, '\n'), 0o644),
		markdown.Update(filepath.Join(root, "README.md"), writer, f.summary()),
		markdown.Update(filepath.Join(root, "docs/comparison.md"), writer, f.document()))
}

// Take takes over the figures of a part, and the load average of the machine before the part.
func (f Figures) Take(measured any, load float64) {
	switch m := measured.(type) {
	case paired.Rounds:
		f.cost(m, load)
	case *latency.Figures:
		f.latency(m.Low, load)
	case []*exactness.Cell:
		f.exactness(m, load)
	}
}

// of is a system's entry, with the load of a part.
func (f Figures) of(name, part string, load float64) *System {
	if f[name] == nil {
		f[name] = &System{Load: map[string]float64{}}
	}
	f[name].Load[part] = load
	return f[name]
}

func (f Figures) cost(rounds paired.Rounds, load float64) {
	base := cpu.Proxied(latency.NoFilter)
	for _, name := range rig.Systems() {
		if variant := cpu.Proxied(name); len(rounds[variant]) > 0 {
			s := f.of(name, "cpu", load)
			s.CPU = estimate(rounds.Ratios(variant, base, cpu.Total))
			s.Envoy = estimate(rounds.Ratios(variant, base, cpu.Envoy))
		}
	}
}

func (f Figures) latency(rounds paired.Rounds, load float64) {
	for _, name := range rig.Systems() {
		if len(rounds[name]) > 0 {
			s := f.of(name, "latency", load)
			s.P50 = estimate(rounds.Differences(name, latency.NoFilter, "p50"))
			s.P99 = estimate(rounds.Differences(name, latency.NoFilter, "p99"))
		}
	}
}

func (f Figures) exactness(cells []*exactness.Cell, load float64) {
	for _, c := range cells {
		if c.Limit != Limit {
			continue
		}
		s := f.of(c.System, "exactness", load)
		if s.Exactness == nil {
			s.Exactness = map[string]exactness.Figures{}
		}
		s.Exactness[c.Load] = c.Figures
	}
}
