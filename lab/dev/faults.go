package dev

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/dev/scenario"
)

// play makes the scenario's faults at their times, and calls note with the text of each. It returns when all
// faults are made, ctx ends, or a fault fails.
func (w *Installation) play(ctx context.Context, start time.Time, note func(string)) error {
	for _, phase := range w.scenario.Phases {
		for _, event := range phase.Events {
			timer := time.NewTimer(time.Until(start.Add(time.Duration(event.At * float64(time.Second)))))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return nil
			}
			what, err := w.do(ctx, event)
			if err != nil {
				return fmt.Errorf("%s %s: %w", event.Fault, event.Target, err)
			}
			note(what)
		}
	}
	return nil
}

// do makes one fault and returns its description.
func (w *Installation) do(ctx context.Context, e scenario.Event) (string, error) {
	switch e.Fault {
	case scenario.KillCoordinator:
		w.Coordinators[0].Kill()
		return "coordinator killed", nil
	case scenario.StartCoordinator:
		from := time.Now()
		err := w.Coordinators[0].Start(ctx)
		return fmt.Sprintf("coordinator back, ready after %.1f s", time.Since(from).Seconds()), err
	case scenario.CutAgent:
		return "agent of " + e.Target + " cut off", w.partition(ctx, e.Target, true)
	case scenario.HealAgent:
		return "agent of " + e.Target + " back", w.partition(ctx, e.Target, false)
	}
	return "", fmt.Errorf("unknown fault")
}

// partition cuts the agent of a gateway off, or undoes it.
func (w *Installation) partition(ctx context.Context, gateway string, on bool) error {
	i := slices.IndexFunc(w.scenario.Gateways, func(g scenario.Gateway) bool { return g.Name == gateway })
	if i < 0 {
		return fmt.Errorf("no gateway %q", gateway)
	}
	url := fmt.Sprintf("%s/fault/partition?on=%v", w.Gateways[i].AgentWeb, on)
	if _, err := w.Ask(ctx, http.MethodPost, url); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[gateway] = on
	return nil
}

// CutOff reports whether a gateway's agent is cut off.
func (w *Installation) CutOff(gateway string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[gateway]
}
