package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/lab/dev/verdict"
	"github.com/titrate/titrate/lab/dev/view"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/services/wording"
)

// Outcome of a run that came to its end.
type Outcome int

const (
	// Failed: a bound was broken, or the run did not get to a verdict.
	Failed Outcome = iota
	// Passed: every bound was kept. Also a run without load that ended as asked.
	Passed
	// Void: the load was not the scenario's, so the run proves nothing.
	Void
)

// ErrInterrupted is the cause of a run that the user ended.
var ErrInterrupted = errors.New("interrupted")

// Session is a run that is ready to begin.
type Session struct {
	config   Config
	scenario *scenario.Scenario
	ports    *installation.PortPlan
}

// Run starts the installation, plays the scenario, stops everything, and judges. An
// error means that there is no verdict; the outcome is then Failed.
func (s *Session) Run(parent context.Context) (outcome Outcome, err error) {
	dir, err := runDirectory()
	if err != nil {
		return Failed, err
	}
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	w, err := newInstallation(&s.config, s.scenario, s.ports, dir, fail)
	if err != nil {
		return Failed, err
	}
	defer func() {
		err = errors.Join(err, w.Stop())
		if err != nil {
			outcome = Failed
		}
		s.tidy(dir, outcome == Passed || errors.Is(err, ErrInterrupted))
	}()
	fmt.Fprintf(s.config.Out, "starting etcd, a coordinator, an upstream, %s and %s in %s\n",
		wording.Count(s.config.Gateways, "agent"), wording.Count(s.config.Gateways, "Envoy"), dir)
	if err := w.Start(ctx); err != nil {
		return Failed, because(ctx, err)
	}
	fmt.Fprintf(s.config.Out, "watch it in a browser: http://%s\n", s.ports.Console())
	if s.config.NoLoad {
		return s.serve(ctx, w)
	}
	records, err := s.load(ctx, w, fail)
	if err != nil {
		return Failed, because(ctx, err)
	}
	return s.judge(records)
}

// because prefers the reason for which ctx ended to its consequence.
func because(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return ErrInterrupted
}

// runDirectory makes the run's directory, short enough for the path of a socket
// in it (107 bytes on Linux).
func runDirectory() (string, error) {
	const room = 60
	base := os.TempDir()
	if len(base) > room {
		base = "/tmp"
	}
	return os.MkdirTemp(base, "titrate-dev-")
}

// tidy removes the run's directory if it is no longer needed.
func (s *Session) tidy(dir string, clean bool) {
	if clean && !s.config.Keep {
		os.RemoveAll(dir)
		return
	}
	// The sockets are useless without their processes.
	sockets, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
	for _, path := range sockets {
		os.Remove(path)
	}
	fmt.Fprintf(s.config.Out, "logs and configurations are in %s\n", dir)
}

// load plays the scenario.
func (s *Session) load(ctx context.Context, w *Installation, fail context.CancelCauseFunc) ([]trace.Record, error) {
	plan := load.NewPlan(s.scenario)
	// A moment, so that the first starts are not late because of this setup.
	start := time.Now().Add(200 * time.Millisecond)
	l := newLive(w, start)
	side, stop := context.WithCancel(ctx)
	watched, played := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(watched)
		view.Run(side, s.config.Out, s.config.Terminal, l.sample, func() { fail(ErrInterrupted) })
	}()
	go l.poll(side)
	film, filmed := new(view.Film), make(chan struct{})
	go func() {
		defer close(filmed)
		if s.config.Film != "" {
			film.Record(side, l.sample)
		}
	}()
	go func() {
		err := w.play(side, start, l.note)
		if err != nil {
			fail(err)
		}
		played <- err
	}()
	g := load.Generator{URLs: w.URLs(), Observe: l.observe}
	records, err := g.Run(ctx, s.scenario, plan, start)
	stop()
	<-watched
	<-filmed
	return records, errors.Join(err, <-played, writeFilm(s.config.Film, film))
}

func writeFilm(path string, film *view.Film) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(film.WriteSVG(f), f.Close())
}

// judge writes the trace and the verdict.
func (s *Session) judge(records []trace.Record) (Outcome, error) {
	if err := writeTrace(s.config.Trace, s.scenario, records); err != nil {
		return Failed, err
	}
	return Report(s.config.Out, s.config.JSON, verdict.Judge(s.scenario, records), s.config.Verbose)
}

func writeTrace(path string, s *scenario.Scenario, records []trace.Record) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(trace.Write(f, s, records), f.Close())
}

// Recompute judges the trace of an earlier run again.
func Recompute(path string) (*verdict.Verdict, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, records, err := trace.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return verdict.Judge(s, records), nil
}
