package simulate

import (
	"context"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/traffic"
)

// stride is the virtual time that is played between two looks at the context.
const stride = 100 * time.Millisecond

// pass is one way through a scenario, from its start to its end.
type pass struct {
	s      *scenario.Scenario // its own: follows the events
	cast   *traffic.Cast
	source *traffic.Source
	up     []bool
	report *progress

	now  time.Duration
	next int // id of the next request
	buf  []traffic.Request
}

// hooks are the functions that a pass calls; happen may be nil.
type hooks struct {
	offer   func(id int, r *traffic.Request)
	before  func(now time.Duration) // nothing more happens before now
	changed func()                  // the scenario and the cast have new numbers
	happen  func(e *scenario.Event)
}

func newPass(s *scenario.Scenario, report *progress) *pass {
	p := &pass{s: s.Clone(), report: report}
	p.cast = traffic.NewCast(p.s)
	p.up = make([]bool, len(p.cast.Gateways))
	for i := range s.Replicas {
		p.up[i] = true
	}
	p.source = traffic.NewSource(p.s, p.cast, p.up)
	return p
}

// play goes through the scenario.
func (p *pass) play(ctx context.Context, h hooks) error {
	for _, i := range p.s.Order() {
		e := &p.s.Events[i]
		if err := p.until(ctx, e.At, h); err != nil {
			return err
		}
		p.change(e, h)
	}
	if err := p.until(ctx, p.s.Duration, h); err != nil {
		return err
	}
	p.report.pass()
	return nil
}

// until offers the requests before a time, and lets it pass.
func (p *pass) until(ctx context.Context, end time.Duration, h hooks) error {
	for p.now < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.now = min(end, p.now+stride)
		p.buf = p.source.Next(p.now, p.buf[:0])
		for i := range p.buf {
			h.offer(p.next, &p.buf[i])
			p.next++
		}
		h.before(p.now)
		p.report.at(p.now, p.s.Duration)
	}
	return nil
}

// change lets an event happen.
func (p *pass) change(e *scenario.Event, h hooks) {
	switch e.Kind {
	case scenario.Join:
		p.set(e.Replica, true)
	case scenario.Leave, scenario.Crash:
		p.set(e.Replica, false)
	}
	if p.s.Change(e) {
		p.cast.Refresh(p.s)
		p.source.Refresh(e.At)
		h.changed()
	}
	if h.happen != nil {
		h.happen(e)
	}
}

func (p *pass) set(gateway string, up bool) {
	i := slices.Index(p.cast.Gateways, gateway)
	p.source.SetUp(i, up)
	p.up[i] = up
}

// progress adds up the progress of all passes.
type progress struct {
	report       func(float64)
	passes, done int
	reported     float64
}

// at reports the progress of a pass, if it is a hundredth more than last reported.
func (r *progress) at(now, end time.Duration) {
	f := (float64(r.done) + float64(now)/float64(end)) / float64(r.passes)
	if r.report != nil && (f-r.reported >= .01 || f >= 1 && r.reported < 1) {
		r.reported = min(f, 1)
		r.report(r.reported)
	}
}

func (r *progress) pass() { r.done++ }
