package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
)

// sample are the measurements of one instant.
type sample struct {
	at        time.Duration // since the load began
	processes []process     // the same in each sample
	held      float64
	panics    float64
	refused   float64 // updates of routes
}

// process is one whose growth is judged.
type process struct {
	name       string
	most       float64       // MiB that it may grow
	grown      time.Duration // when it has its size
	bytes      float64
	goroutines float64
}

// unresponsive is the longest time that a process may not answer its watcher: a busy machine is late by
// seconds.
const unresponsive = 30 * time.Second

// watch samples until ctx ends, and prints a line now and then. Samples that came too late
// are missed; they are counted.
func (w *system) watch(ctx context.Context, o options, l *load) (all []sample, missed int, err error) {
	began, said, answered := time.Now(), time.Now(), time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if len(all) < 5 {
				return nil, missed, errors.New("stopped before there was anything to judge")
			}
			return all, missed, nil
		case <-tick.C:
		}
		s, err := w.sample(ctx)
		if ctx.Err() != nil {
			continue
		}
		if err != nil {
			var late net.Error
			if !errors.As(err, &late) || !late.Timeout() || time.Since(answered) > unresponsive {
				return nil, missed, err
			}
			missed++
			continue
		}
		s.at, answered = time.Since(began), time.Now()
		all = append(all, s)
		if time.Since(said) >= o.every {
			said = time.Now()
			w.say(&s, l.tally())
		}
	}
}

func (w *system) sample(ctx context.Context) (s sample, err error) {
	for _, g := range w.gateways {
		found, err := g.Statistics(ctx, statistics)
		if err == nil {
			err = alive(g.Process())
		}
		if err != nil {
			return s, err
		}
		s.held += found["titrate_held"]
		s.panics += found["titrate_panics_total"]
		s.refused += found["http.http.rds.all.update_rejected"]
		if err := s.add(process{name: g.Name, most: mostEnvoy}, g.Process(), found["titrate_goroutines"]); err != nil {
			return s, err
		}
	}
	last := w.gateways[gateways-1]
	page, err := w.rig.Get(ctx, last.AgentWeb+"/metrics")
	if err != nil {
		return s, err
	}
	goroutines, found := installation.Numbers(page, " ")["go_goroutines"]
	if !found {
		return s, fmt.Errorf("%s/metrics has no go_goroutines", last.AgentWeb)
	}
	return s, s.add(process{name: "agent of " + last.Name, most: mostAgent, grown: agentGrown}, last.Agent.Process(),
		goroutines)
}

func (s *sample) add(as process, p *child.Process, goroutines float64) error {
	bytes, err := rig.AnonymousBytes(p)
	as.bytes, as.goroutines = float64(bytes), goroutines
	s.processes = append(s.processes, as)
	return err
}

// alive returns an error if a process has ended.
func alive(p *child.Process) error {
	select {
	case <-p.Exited():
		return p.Obituary()
	default:
		return nil
	}
}

// say prints a line of progress.
func (w *system) say(s *sample, t tally) {
	line := fmt.Sprintf("%5.0fs  %9d answered  %8d invented  %7d left  %d failed  held %3.0f  panics %.0f  MiB",
		s.at.Seconds(), t.Answered, t.Invented, t.Left, t.Failed, s.held, s.panics)
	for _, p := range s.processes {
		line += fmt.Sprintf(" %.1f", p.bytes/mib)
	}
	w.rig.Say("%s  goroutines %.0f  reloads %d  killed: agents %d, coordinator %d", line, s.processes[0].goroutines,
		w.broken.reloads.Load(), w.broken.agents.Load(), w.broken.coordinators.Load())
}

const mib = 1 << 20
