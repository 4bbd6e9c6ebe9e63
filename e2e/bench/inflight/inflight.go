package inflight

import (
	"context"
	"fmt"
	"time"

	"github.com/titrate/titrate/e2e/bench/openloop"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

// Names of the systems.
const (
	slots        = "titrate"
	plainCounter = "INCR, DECR"
	ttlCounter   = "INCR, EXPIRE, DECR"
)

const (
	warmUp = 3 * time.Second
	// settle is the time after a run in which what is in flight ends.
	settle = time.Second
	// spare is the connections of the generator to each gateway beyond the limit: for requests that wait or are
	// refused.
	spare = 100
)

// Options are the length of the measurement.
type Options struct {
	// Rounds are the interleaved rounds of each cell. A cell with crashes has one, three times as long as all rounds
	// of another.
	Rounds   int
	Duration time.Duration // of a system in a round
}

// Cell is a cell's figures of a system.
type Cell struct {
	System     string  `json:"system"`
	Limit      int     `json:"limit"`
	StayMs     float64 `json:"stayMs"`
	TimesLimit float64 `json:"wantedTimesLimit"`
	Crashes    int     `json:"crashes"`
	Figures
	cell *cell
}

// system is a limit over three gateways.
type system interface {
	name() string
	targets() []string
	// prepare is called before each run.
	prepare(*cell) error
	// crash ends a gateway without a word and starts it again.
	crash(ctx context.Context, gateway int) error
	stop()
}

// Run measures all cells.
func Run(ctx context.Context, r *rig.Rig, o Options) ([]Cell, []markdown.Section, error) {
	u, err := startUpstream(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer u.server.Close()
	systems, err := start(ctx, r, u)
	for _, s := range systems {
		defer s.stop()
	}
	var all []Cell
	for i := 0; i < len(cells) && err == nil; i++ {
		var more []Cell
		more, err = cells[i].measure(ctx, r, u, systems, o)
		all = append(all, more...)
	}
	return all, []markdown.Section{tabulate(all)}, err
}

// start starts the systems that are wanted.
func start(ctx context.Context, r *rig.Rig, u *upstream) (all []system, err error) {
	if r.Wants(slots) {
		s, err := startTitrate(ctx, r, u)
		if s != nil {
			all = append(all, s)
		}
		if err != nil {
			return all, err
		}
	}
	if !r.Wants(plainCounter) && !r.Wants(ttlCounter) {
		return all, nil
	}
	counters, err := startCounters(ctx, r, u)
	for _, c := range counters {
		if r.Wants(c.title) {
			all = append(all, c)
		} else {
			c.stop()
		}
	}
	return all, err
}

// measure measures all systems in a cell.
func (c *cell) measure(ctx context.Context, r *rig.Rig, u *upstream, systems []system, o Options) ([]Cell, error) {
	rounds, d := o.Rounds, o.Duration
	if c.crashes > 0 {
		rounds, d = 1, 3*d*time.Duration(rounds)
	}
	tallies := make([]*tally, len(systems))
	for i := range tallies {
		tallies[i] = &tally{limit: c.limit}
	}
	for round := range rounds {
		p := c.plan(warmUp+d, uint64(round+1))
		for i := range systems {
			i = (i + round) % len(systems)
			results, visits, err := c.run(ctx, u, systems[i], p, d)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", c.name(), systems[i].name(), err)
			}
			tallies[i].take(p, results, visits, warmUp, warmUp+d)
		}
	}
	var all []Cell
	for i, s := range systems {
		f := tallies[i].figures()
		all = append(all, Cell{s.name(), c.limit, milliseconds(c.stay), c.wanted, c.crashes, f, c})
		r.Say("in flight: %s, %s: use %.3f, refused wrongly %.2f %%, at the gateways %.3f and %.2f %%, at most %d",
			c, s.name(), f.Use, 100*f.Wrongly, f.Held, 100*f.Free, f.Most)
	}
	return all, nil
}

// run loads a system with a plan.
func (c *cell) run(ctx context.Context, u *upstream, s system, p *plan, d time.Duration) ([]openloop.Result, []visit,
	error) {
	if err := s.prepare(c); err != nil {
		return nil, nil, err
	}
	start := time.Now().Add(settle)
	u.begin(start, len(p.requests))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	crashed := make(chan struct{})
	go func() {
		defer close(crashed)
		if err := c.crash(ctx, s, start.Add(warmUp), d); err != nil {
			stop(err)
		}
	}()
	g := openloop.Generator{Targets: s.targets(), Requests: p.requests, Connections: c.limit + spare, Start: start}
	results, err := g.Run(ctx, p.shots)
	if err != nil {
		stop(err)
	}
	<-crashed
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	return results, u.end(), rig.Sleep(ctx, settle)
}

// crash crashes one gateway after the other, at even intervals.
func (c *cell) crash(ctx context.Context, s system, from time.Time, d time.Duration) error {
	for i := range c.crashes {
		at := from.Add(d * time.Duration(i+1) / time.Duration(c.crashes+1))
		if err := rig.Sleep(ctx, time.Until(at)); err != nil {
			return err
		}
		if err := s.crash(ctx, i%gateways); err != nil {
			return err
		}
	}
	return nil
}

// String describes the cell.
func (c *cell) String() string {
	text := fmt.Sprintf("%d, %v, %g", c.limit, c.stay, c.wanted)
	if c.crashes > 0 {
		text += fmt.Sprintf(", %d crashes", c.crashes)
	}
	return text
}

func tabulate(all []Cell) markdown.Section {
	t := markdown.Section{
		Title: "Limits on requests in flight: limit, mean stay, wanted over the limit",
		Head: []string{"cell", "system", "use", "refused wrongly", "at the gateways: use", "refused wrongly",
			"refused", "failed", "most in flight", "added p50", "starts late p99"},
		Notes: []string{"Wrongly: while the upstream had fewer than the limit; at the gateways, with what is on its " +
			"way to and from the upstream. In brackets: the same rules on virtual time, where nothing is on its way."},
	}
	share := func(part float64) string { return fmt.Sprintf("%.2f %%", 100*part) }
	for i := range all {
		c := &all[i]
		use, wrongly := fmt.Sprintf("%.2f", c.Use), share(c.Wrongly)
		held, free := fmt.Sprintf("%.2f", c.Held), share(c.Free)
		if c.System == slots {
			held += fmt.Sprintf(" (%.2f)", c.cell.use)
			free += fmt.Sprintf(" (%.1f %%)", 100*c.cell.wrongly)
		}
		late := fmt.Sprintf("%.1f ms", c.LateMs)
		if c.Void {
			late += ": VOID"
		}
		asked := float64(max(c.Asked, 1))
		t.Add(c.cell, c.System, use, wrongly, held, free, share(float64(c.Refused)/asked),
			share(float64(c.Failed)/asked), c.Most, fmt.Sprintf("%.1f ms", c.AddedMs), late)
	}
	return t
}
