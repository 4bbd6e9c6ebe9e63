package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/system"
	"github.com/titrate/titrate/lab/simulate/traffic"
	"github.com/titrate/titrate/lab/simulate/world"
)

// Result is the outcome of a scenario.
type Result = measure.Result

// Options of a run. The zero value plays Titrate alone.
type Options struct {
	// Baselines are played after Titrate, in this order; see [Baselines].
	Baselines []string
	// Alone leaves Titrate out: only Baselines are played.
	Alone bool
	// Series asks for the rates over time.
	Series bool
	// Progress is called now and then with the part of the whole that is done, 0 to 1.
	Progress func(fraction float64)
}

// Titrate is the name of the first system of a result.
const Titrate = "titrate"

// Run plays a scenario. The error names the first mistake in the scenario (a
// *scenario.FieldError), an unknown baseline, or is ctx's. The scenario is not
// changed, and may be played by several runs at once.
func Run(ctx context.Context, s *scenario.Scenario, o Options) (*Result, error) {
	if mistakes := s.Check(); len(mistakes) > 0 {
		return nil, mistakes[0]
	}
	contenders, err := o.contenders()
	if err != nil {
		return nil, err
	}
	report := progress{report: o.Progress, passes: 1 + len(contenders)}
	reference, err := rehearse(ctx, s, &report)
	if err != nil {
		return nil, err
	}
	r := outline(s)
	for _, c := range contenders {
		played, err := perform(ctx, s, c, reference, o.Series, &report)
		if err != nil {
			return nil, err
		}
		r.Systems = append(r.Systems, played)
	}
	return r, nil
}

// contenders are the systems to play.
func (o *Options) contenders() ([]contender, error) {
	var out []contender
	if !o.Alone {
		out = append(out, contender{Titrate, world.New})
	}
	for _, name := range o.Baselines {
		i := slices.IndexFunc(baselines, func(c contender) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no baseline has the name %q; known are %s", name, strings.Join(Baselines(), ", "))
		}
		out = append(out, baselines[i])
	}
	return out, nil
}

// outline is a result without systems.
func outline(s *scenario.Scenario) *Result {
	r := &Result{Name: s.Name, Seed: s.Seed, DurationSeconds: s.Duration.Seconds(), WarmupSeconds: s.Warmup.Seconds(),
		Events: []measure.Event{}, Systems: []measure.System{}}
	r.Gateways, _ = traffic.Gateways(s)
	for _, i := range s.Order() {
		e := &s.Events[i]
		r.Events = append(r.Events, measure.Event{AtSeconds: e.At.Seconds(), What: e.String()})
	}
	return r
}

// rehearse plays the requests without a system, to measure the demand.
func rehearse(ctx context.Context, s *scenario.Scenario, report *progress) (*measure.Reference, error) {
	p := newPass(s, report)
	reference := measure.NewReference(p.s, p.cast)
	err := p.play(ctx, hooks{
		offer:   func(_ int, r *traffic.Request) { reference.Request(r) },
		before:  reference.Advance,
		changed: reference.Changed,
	})
	reference.Finish()
	return reference, err
}

// perform plays a system.
func perform(ctx context.Context, s *scenario.Scenario, c contender, reference *measure.Reference, series bool,
	report *progress) (measure.System, error) {
	p := newPass(s, report)
	recorded := reference.Record(p.cast)
	played, err := c.make(system.Stage{Scenario: p.s, Cast: p.cast, Up: slices.Clone(p.up), Answer: recorded.Answer})
	if err != nil {
		return measure.System{}, fmt.Errorf("%s: %w", c.name, err)
	}
	err = p.play(ctx, hooks{
		offer: func(id int, r *traffic.Request) {
			recorded.Offered(id, r)
			played.Offer(id, r)
			recorded.Unanswered()
		},
		before:  played.Advance,
		changed: func() { recorded.Changed(p.now) },
		happen: func(e *scenario.Event) {
			recorded.Happened(e)
			played.Happen(e)
		},
	})
	if err != nil {
		return measure.System{}, err
	}
	result := recorded.Finish(c.name, series)
	if t, ok := played.(system.Talker); ok {
		result.Gossip = measure.NewGossip(t.Sent())
	}
	return result, nil
}
