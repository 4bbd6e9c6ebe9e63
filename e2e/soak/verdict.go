package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Bounds of growth over the time judged.
const (
	// mostEnvoy is the permitted rise of the line through an Envoy's memory, MiB: heaps vary by some MiB, a
	// leak does not stop.
	mostEnvoy = 8
	// mostAgent is the same of an agent. It keeps some 30,000 keys here, each for
	// half a minute after its last use, and its heap doubles between collections.
	mostAgent = 32
	// agentGrown is the time after which an agent has its first half minute of keys.
	agentGrown = 40 * time.Second
	// mostGoroutines is the same of goroutines: a few come and go with connections.
	mostGoroutines = 3
)

// verdict is the outcome of a run.
type verdict struct {
	Pass    bool    `json:"pass"`
	Seconds float64 `json:"seconds"` // judged
	Missed  int     `json:"missed"`  // samples
	Load    tally   `json:"load"`
	Faults  faults  `json:"faults"`
	Checks  []check `json:"checks"`
}

// faults are the counts of faults during the run.
type faults struct {
	Reloads      int64 `json:"reloads"`
	Agents       int64 `json:"agentsKilled"`
	Coordinators int64 `json:"coordinatorsKilled"`
}

// check is a figure and its bound.
type check struct {
	Name   string  `json:"name"`
	Figure float64 `json:"figure"`
	Most   float64 `json:"most"`
	Unit   string  `json:"unit"`
	// Mean and PerMinute are set for figures of growth only; 0 otherwise.
	Mean      float64 `json:"mean,omitempty"`
	PerMinute float64 `json:"perMinute,omitempty"`
	Pass      bool    `json:"pass"`
}

// least is the shortest time over which a line is fitted.
const least = 15 * time.Second

// judge judges the samples after the warm-up. A process that takes longer to have
// its size is judged from then on, in a short run not at all.
func judge(all []sample, missed int, t tally, f faults, l left, warm time.Duration) verdict {
	v := verdict{Load: t, Faults: f, Missed: missed, Seconds: (all[len(all)-1].at - warm).Seconds()}
	for i, p := range all[0].processes {
		judged := since(all, max(warm, p.grown))
		if p.grown > warm && judged[len(judged)-1].at-judged[0].at < least {
			continue
		}
		v.growth(p.name+": memory", "MiB", p.most, judged,
			func(s *sample) float64 { return s.processes[i].bytes / mib })
		v.growth(p.name+": goroutines", "", mostGoroutines, judged,
			func(s *sample) float64 { return s.processes[i].goroutines })
	}
	last := all[len(all)-1]
	v.atMost("failed requests", float64(t.Failed), 0)
	v.atMost("panics recovered", last.panics, 0)
	v.atMost("updates refused", last.refused, 0)
	v.atMost("held after the load", l.Held, 0)
	v.atMost("in flight after the load", l.Active, 0)
	v.Pass = t.Answered > 0
	for _, c := range v.Checks {
		v.Pass = v.Pass && c.Pass
	}
	return v
}

// since are the samples from then on, the last two at least.
func since(all []sample, from time.Duration) []sample {
	for len(all) > 2 && all[0].at < from {
		all = all[1:]
	}
	return all
}

func (v *verdict) atMost(name string, figure, most float64) {
	v.Checks = append(v.Checks, check{Name: name, Figure: figure, Most: most, Pass: figure <= most})
}

// growth judges the rise of a fitted line over the time judged.
func (v *verdict) growth(name, unit string, most float64, samples []sample, of func(*sample) float64) {
	slope, mean := line(samples, of)
	c := check{Name: name, Unit: unit, Most: most, Mean: mean, PerMinute: 60 * slope,
		Figure: slope * (samples[len(samples)-1].at - samples[0].at).Seconds()}
	c.Pass = c.Figure <= most
	v.Checks = append(v.Checks, c)
}

// line fits one by least squares: its slope per second, and the mean.
func line(samples []sample, of func(*sample) float64) (slope, mean float64) {
	n := float64(len(samples))
	var t, y, tt, ty float64
	for i := range samples {
		at, value := samples[i].at.Seconds(), of(&samples[i])
		t, y = t+at, y+value
		tt, ty = tt+at*at, ty+at*value
	}
	if d := n*tt - t*t; d > 0 {
		slope = (n*ty - t*y) / d
	}
	return slope, y / n
}

// write prints the verdict as a table, or as JSON.
func (v *verdict) write(to io.Writer, output string) error {
	if output == "json" {
		e := json.NewEncoder(to)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	fmt.Fprintf(to, "\n%d answered (%d limited), %d clients invented, %d left before their answer; %d reloads, %d "+
		"agents and %d coordinators killed; %.0f s judged, %d samples missed\n\n",
		v.Load.Answered, v.Load.Limited, v.Load.Invented, v.Load.Left, v.Faults.Reloads, v.Faults.Agents,
		v.Faults.Coordinators, v.Seconds, v.Missed)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "check\tfigure\tat most\tper minute\tmean\t")
	for _, c := range v.Checks {
		grows := "\t"
		if c.Mean != 0 {
			grows = fmt.Sprintf("%+.2f\t%.1f", c.PerMinute, c.Mean)
		}
		fmt.Fprintf(w, "%s\t%+.2f %s\t%.0f\t%s\t%s\n", c.Name, c.Figure, c.Unit, c.Most, grows, word(c.Pass))
	}
	if v.Load.Failure != "" {
		fmt.Fprintf(w, "\nthe first failure: %s\n", v.Load.Failure)
	}
	fmt.Fprintf(w, "\n%s\n", word(v.Pass))
	return w.Flush()
}

func word(pass bool) string {
	if pass {
		return "PASS"
	}
	return "FAIL"
}
