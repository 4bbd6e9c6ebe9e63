package exactness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/e2e/bench/openloop"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

// limits are the rates, per second, each with a burst of as many requests.
var limits = []int{1, 5, 10, 100, 1000, 10_000}

// Cell is a limit and a load, and the figures measured with them.
type Cell struct {
	System string `json:"system"`
	Limit  int    `json:"limit"`
	Load   string `json:"load"`
	Figures
	load load
}

// tenant returns the tenant of the cell's clients. Clients whose limit changes have their own tenant.
func (c *Cell) tenant() string {
	if c.Load == changing {
		return fmt.Sprintf("c%d", c.Limit)
	}
	return fmt.Sprintf("r%d", c.Limit)
}

// demand returns the rate of a cell's two clients together, per second.
func (c *Cell) demand() float64 { return (c.load.above + c.load.below) * float64(c.Limit) }

// system is a rate limiter under test.
type system interface {
	// name returns the name in the tables, sustains the highest rate.
	name() string
	sustains() (requestsPerSecond float64)
	// targets are the addresses of the gateways; the last one may not be up yet.
	targets() []string
	// join starts the last gateway if it is not up; leave stops it.
	join(context.Context) error
	leave(context.Context) error
	// change halves the limit of the tenants with a c; false: it cannot.
	change(ctx context.Context, to float64) (bool, error)
}

// Run measures the cells of all systems whose limit is at most the largest.
func Run(ctx context.Context, r *rig.Rig, largest int) ([]*Cell, []markdown.Section, error) {
	var all []*Cell
	var waits []waited
	tables := func() []markdown.Section { return append(tabulate(all), tabulateWaits(waits)...) }
	for _, start := range starters(r) {
		s, stop, err := start(ctx, r)
		if err == nil {
			var cells []*Cell
			var more []waited
			cells, more, err = measure(ctx, r, s, largest)
			all, waits = append(all, cells...), append(waits, more...)
		}
		stop()
		if err != nil {
			return all, tables(), err
		}
	}
	return all, tables(), nil
}

// starter starts a system; stop is never nil.
type starter func(context.Context, *rig.Rig) (s system, stop func(), err error)

// starters returns the starters of the systems that are wanted and available.
func starters(r *rig.Rig) (all []starter) {
	if r.Wants(rig.TitrateModule) {
		all = append(all, startTitrate(rig.TitrateModule, "LOCAL"))
	}
	if r.Wants(rig.TitrateExact) {
		all = append(all, startTitrate(rig.TitrateExact, "EXACT"))
	}
	if r.Wants(rig.LocalRateLimit) {
		all = append(all, startLocal)
	}
	for _, name := range r.Services() {
		all = append(all, startService(name))
	}
	return all
}

// measure runs a system's cells, as many at once as the system sustains.
func measure(ctx context.Context, r *rig.Rig, s system, largest int) ([]*Cell, []waited, error) {
	var all, batch []*Cell
	var waits []waited
	sum, before := 0.0, &held{}
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		ran := batch
		all, batch, sum = append(all, batch...), nil, 0
		if err := run(ctx, r, s, ran); err != nil {
			return err
		}
		h, is := s.(holder)
		if !is {
			return nil
		}
		now, err := h.held(ctx)
		if err != nil || now == nil {
			return err
		}
		waits = append(waits, waited{now.since(before), span(ran), asked(ran)})
		before = now
		return nil
	}
	for _, limit := range limits {
		for _, l := range loads {
			c := &Cell{System: s.name(), Limit: limit, Load: l.name, load: l}
			if c.demand() > s.sustains() || limit > largest {
				continue
			}
			// The small limits run long, and so apart from the large ones.
			if sum+c.demand() > s.sustains() || len(batch) > 0 && length(batch[0]) != length(c) {
				if err := flush(); err != nil {
					return all, waits, err
				}
			}
			batch = append(batch, c)
			sum += c.demand()
		}
	}
	err := flush()
	return all, waits, err
}

// span names the limits of cells.
func span(batch []*Cell) string {
	from, to := batch[0].Limit, batch[len(batch)-1].Limit
	if from == to {
		return fmt.Sprintf("%d/s", from)
	}
	return fmt.Sprintf("%d/s to %d/s", from, to)
}

// asked returns the number of requests that cells send.
func asked(batch []*Cell) (n int) {
	for _, c := range batch {
		for _, cl := range c.clients(length(c)) {
			n += len(cl.asks)
		}
	}
	return n
}

// length of a cell's run.
func length(c *Cell) time.Duration {
	switch {
	case c.Limit <= 100:
		return 24 * time.Second
	case c.Limit <= 1000:
		return 12 * time.Second
	}
	return 8 * time.Second
}

// run runs a batch of cells at once.
func run(ctx context.Context, r *rig.Rig, s system, batch []*Cell) error {
	d := length(batch[0])
	r.Say("exactness: %s, %d cells from %d/s %s to %d/s %s, %v", s.name(), len(batch),
		batch[0].Limit, batch[0].Load, batch[len(batch)-1].Limit, batch[len(batch)-1].Load, d)
	p := plan(batch, d)
	// Two seconds for the generator to open its connections; a whole second, for the edges.
	start := time.Now().Add(2 * time.Second).Truncate(time.Second)
	changed := make(chan time.Duration, 1)
	events, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		at, err := halfway(events, s, batch, start, d)
		if err != nil {
			stop(err)
		}
		changed <- at
	}()
	g := openloop.Generator{Targets: s.targets(), Requests: p.requests, Connections: 64, Start: start}
	results, err := g.Run(events, p.shots)
	if err != nil {
		if cause := context.Cause(events); cause != nil {
			err = cause
		}
		return err
	}
	when := <-changed
	p.judge(results, start, when)
	return s.leave(ctx)
}

// halfway makes the batch's change in the middle of the batch, and returns when a limit was changed.
func halfway(ctx context.Context, s system, batch []*Cell, start time.Time,
	d time.Duration) (changed time.Duration, err error) {
	changed = never
	sleep := func(until time.Time) {
		select {
		case <-time.After(time.Until(until)):
		case <-ctx.Done():
		}
	}
	has := func(load string) bool {
		return slices.ContainsFunc(batch, func(c *Cell) bool { return c.Load == load })
	}
	if has(joining) { // it takes a while to start
		sleep(start.Add(d / 4))
		if err := s.join(ctx); err != nil {
			return changed, err
		}
	}
	if has(changing) {
		sleep(start.Add(d / 2))
		at := time.Since(start)
		done, err := s.change(ctx, .5)
		if err != nil || !done {
			return changed, err
		}
		changed = at
	}
	return changed, nil
}

// planned is a batch as the generator has it.
type planned struct {
	clients  []client
	requests [][]byte // one per client
	shots    []openloop.Shot
}

func plan(batch []*Cell, d time.Duration) *planned {
	p := &planned{}
	for _, c := range batch {
		for _, cl := range c.clients(d) {
			name := c.Load + "-below"
			if cl.above {
				name = c.Load + "-above"
			}
			for _, a := range cl.asks {
				p.shots = append(p.shots, openloop.Shot{Due: time.Duration(a.t * 1e9), Target: int32(a.gateway),
					Request: int32(len(p.clients))})
			}
			p.clients = append(p.clients, cl)
			p.requests = append(p.requests, openloop.Request(c.tenant(), name))
		}
	}
	slices.SortStableFunc(p.shots, func(a, b openloop.Shot) int { return int(a.Due - b.Due) })
	return p
}

// judge fills in the cells' figures.
func (p *planned) judge(results []openloop.Result, start time.Time, changed time.Duration) {
	arrivals := make([][]arrival, len(p.clients))
	for i := range results {
		r := &results[i]
		if r.Status != 200 && r.Status != 429 || r.Stamp == 0 {
			p.clients[r.Request].cell.Failed++
			continue
		}
		arrivals[r.Request] = append(arrivals[r.Request], arrival{
			t: time.Duration(r.Stamp-start.UnixMicro()) * time.Microsecond, admitted: r.Status == 200})
	}
	for i, c := range p.clients {
		slices.SortStableFunc(arrivals[i], func(a, b arrival) int { return cmp.Compare(a.t, b.t) })
		rate := float64(c.cell.Limit)
		r := regime{before: limit{rate, rate}, after: limit{rate, rate}, changed: never}
		if c.cell.Load == changing {
			r.changed, r.after = changed, limit{rate / 2, max(rate/2, 1)}
		}
		if c.above {
			c.cell.above(r, arrivals[i])
		} else {
			c.cell.below(r, arrivals[i])
		}
	}
}
