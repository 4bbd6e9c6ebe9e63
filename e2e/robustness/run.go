package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/fault"
)

// inside runs the one seed in this process's network namespace and writes the
// result to a file.
func inside(ctx context.Context, o options, file string) error {
	o.world.Progress = os.Stderr
	r, err := play(ctx, o)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if !r.Pass {
		return errors.New("FAIL")
	}
	return nil
}

// play runs a seed and judges it.
func play(ctx context.Context, o options) (r *Result, err error) {
	events := fault.Schedule(o.seeds[0], o.duration, o.kinds)
	s := &scene{quotas: quotasOf(o.duration)}
	zones, err := os.MkdirTemp("", "titrate-zones-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(), os.RemoveAll(zones)) }()
	if err := os.Setenv("ZONEINFO", zones); err != nil { // this process reads documents, and coordinators inherit it
		return nil, err
	}
	if err := s.build(ctx, o.world); err != nil {
		return nil, err
	}
	say("seed %d, %v, %d faults: %s", o.seeds[0], o.duration, len(events), s.means())
	fault.Print(os.Stderr, events)
	loaded, unload := context.WithCancel(ctx)
	defer unload()
	if err := s.daily(ctx, zones, o.duration); err != nil {
		return nil, err
	}
	s.begin(loaded, o.seeds[0], o.crowd)
	go s.api.Count(loaded, changeEvery)
	stalls := s.stalls(loaded)
	watcher := watch(loaded, s)
	d := disturb(ctx, s, events)
	recovery := s.recover(ctx, s.load.Now())
	sleepUntil(ctx, s, check.Over(d.known())+judgedAfter)
	end := s.load.Now()
	unload()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r = &Result{Seed: o.seeds[0], Seconds: o.duration.Seconds(), Only: o.only(), Version: version(ctx, o.world.Titrate)}
	s.judge(ctx, r, &seen{d, watcher.done(), <-stalls, end, recovery, o.crowd})
	return r, s.seconds(filepath.Join(os.TempDir(), "seconds.csv"))
}

// version of the binary under test, "" if it does not say.
func version(ctx context.Context, titrate string) string {
	out, err := exec.CommandContext(ctx, titrate, "version").Output()
	if err != nil {
		return ""
	}
	name := strings.Fields(string(out)) // titrate VERSION (…)
	return name[min(1, len(name)-1)]
}

// judgedAfter is the time that the load continues after the grace of the last fault: a quiet span.
const judgedAfter = shortest + time.Second

// changeEvery is the time between two changes of the configuration.
const changeEvery = 2 * time.Second

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// means says by which means links are disturbed.
func (s *scene) means() string {
	if err := s.world.Clocks(); err != nil {
		return fmt.Sprintf("clocks cannot be stepped here (%v), such faults do nothing", err)
	}
	if err := s.world.Switch.Disturbs(); err != nil {
		return fmt.Sprintf("links cannot be disturbed here (%v), such faults do nothing", err)
	}
	return "hosts are network namespaces on a switch in user space"
}

// disturbance are the faults of a run.
type disturbance struct {
	mu       sync.Mutex
	faults   []check.Fault
	findings []check.Finding
}

// undoWithin is the longest time of undoing a fault: processes start, links heal.
const undoWithin = 40 * time.Second

// disturb does the faults at their times and returns when all are undone.
func disturb(ctx context.Context, s *scene, events []fault.Event) *disturbance {
	d := &disturbance{}
	var all sync.WaitGroup
	broken := map[string]*sync.WaitGroup{} // by what is touched: faults that are not undone yet
	for _, e := range events {
		if !sleepUntil(ctx, s, e.At) {
			break
		}
		// A machine that is slow takes longer than the schedule expects.
		for touched, faults := range broken {
			if touched == e.Kind.Touches || touched == fault.Everything || e.Kind.Touches == fault.Everything {
				faults.Wait()
			}
		}
		here := broken[e.Kind.Touches]
		if here == nil {
			here = &sync.WaitGroup{}
			broken[e.Kind.Touches] = here
		}
		f := e.Kind.Draw(rand.New(rand.NewPCG(e.Seed, 2)), s)
		i := d.begin(s, &e, f)
		err := f.Apply(ctx)
		here.Add(1)
		all.Go(func() {
			defer here.Done()
			d.finish(ctx, s, &e, f, i, err)
		})
	}
	all.Wait()
	return d
}

func (d *disturbance) begin(s *scene, e *fault.Event, f fault.Fault) int {
	now := s.load.Now()
	say("%7.1f s  %s, for %.1f s", now.Seconds(), f.What(), e.Last.Seconds())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, check.Fault{Kind: e.Kind.Name, What: f.What(), Gateway: f.Gateway(), From: now,
		To: now + e.Last + undoWithin, Grace: e.Kind.Grace})
	return len(d.faults) - 1
}

func (d *disturbance) finish(ctx context.Context, s *scene, e *fault.Event, f fault.Fault, i int, applied error) {
	sleepUntil(ctx, s, d.known()[i].From+e.Last)
	within, cancel := context.WithTimeout(ctx, undoWithin)
	defer cancel()
	err := errors.Join(applied, f.Undo(within))
	now := s.load.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults[i].To = now
	if err != nil && ctx.Err() == nil {
		say("%7.1f s  %s: %v", now.Seconds(), f.What(), err)
		d.findings = append(d.findings, check.Finding{Check: "fault", At: now, What: f.What() + ": " + err.Error()})
	}
}

// known are the faults so far.
func (d *disturbance) known() []check.Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.faults)
}

func sleepUntil(ctx context.Context, s *scene, at time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(at - s.load.Now()):
		return true
	}
}
