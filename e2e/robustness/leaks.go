package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/lab/judge"
)

// usage is the use of a process at a time.
type usage struct {
	at                       time.Duration
	goroutines, files, bytes float64
}

// Bounds of what a process may have more at the end than when it was young. A
// coordinator that becomes the leader has 5 goroutines for each agent, of which there
// are up to 6 while gateways join and leave. Heaps double between collections. A stall
// of the machine or a fault lets clients open up to 64 connections to each gateway,
// which stay, as do those to the upstream. Clients of the crowd come to a gateway for the first time
// during 600 s, and the gateway keeps each for a minute or two. An Envoy that begins has 20 to 27 MiB, and 87
// after 100 s and 20,000 clients. From the third minute on it stays at 100 to 107.
const (
	moreGoroutines = 40
	moreFiles      = 200
	moreMiB        = 40
	moreOfClient   = 3. / 1024 // MiB for each client of the crowd
)

// Times of the comparison.
const (
	young   = 15 * time.Second // of the run: a process is settled after that
	compare = 40 * time.Second // that lie between the first and the last sample, at least
	around  = 3                // samples whose median counts
)

const mib = 1 << 20

// measure samples each process that runs.
func (w *watcher) measure(ctx context.Context) {
	for _, s := range w.s.world.Servers() {
		p := s.Process()
		if p == nil {
			continue
		}
		within, cancel := context.WithTimeout(ctx, lookWithin)
		goroutines, err := s.Goroutines(within)
		cancel()
		files, err2 := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
		bytes, err3 := rig.AnonymousBytes(p)
		if err != nil || err2 != nil || err3 != nil {
			continue // dead or frozen just now
		}
		name := fmt.Sprintf("%s, process %d", s.Name, p.PID())
		u := usage{w.s.load.Now(), goroutines, float64(len(files)), float64(bytes) / mib}
		w.usages[name] = append(w.usages[name], u)
	}
}

// leaks judges what processes have more at the end.
func (r *Result) leaks(usages map[string][]usage, crowd int) {
	most := []Check{
		{Name: "goroutines more", Bound: moreGoroutines},
		{Name: "files more", Bound: moreFiles},
		{Name: "memory more", Bound: moreMiB + moreOfClient*float64(crowd), Unit: "MiB"},
	}
	of := []func(usage) float64{
		func(u usage) float64 { return u.goroutines },
		func(u usage) float64 { return u.files },
		func(u usage) float64 { return u.bytes },
	}
	for name, all := range usages {
		for len(all) > 0 && all[0].at < young {
			all = all[1:]
		}
		all = all[min(len(all), 1):] // not the first of a process that began later
		if len(all) < 2*around || all[len(all)-1].at-all[0].at < compare {
			continue
		}
		for i := range most {
			from, to := median(all[:around], of[i]), median(all[len(all)-around:], of[i])
			if to-from > most[i].Figure {
				most[i].Figure, most[i].Subject = to-from, name
			}
			if to-from > most[i].Bound {
				r.Findings = append(r.Findings, check.Finding{Check: most[i].Name, At: all[len(all)-1].at,
					What: fmt.Sprintf("%s: %.1f, from %.1f at %.0f s", name, to, from, all[0].at.Seconds())})
			}
		}
	}
	for _, c := range most {
		r.atMost(c.Name, c.Subject, c.Figure, c.Bound, c.Unit)
	}
}

func median(of []usage, value func(usage) float64) float64 {
	var all []float64
	for _, u := range of {
		all = append(all, value(u))
	}
	return judge.Quantile(all, .5)
}

// emptyWithin is the longest time that gateways may hold requests after clients have gone.
const emptyWithin = 10 * time.Second

// held returns the number of requests that the gateways still hold a while after the load has ended.
func (s *scene) held(ctx context.Context) (held float64) {
	deadline := time.Now().Add(emptyWithin)
	for ; time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		held = 0
		for _, g := range s.world.Gateways() {
			stats, err := g.Statistics(ctx)
			if err != nil {
				held++
				continue
			}
			held += stats["titrate_held"]
		}
		if held == 0 {
			return 0
		}
	}
	return held
}
