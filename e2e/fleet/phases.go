package main

import (
	"context"
	"fmt"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/fleet/demand"
	"github.com/titrate/titrate/e2e/fleet/wan"
	"github.com/titrate/titrate/e2e/fleet/workload"
	"github.com/titrate/titrate/lab/judge"
)

// steady is the phase in which nothing happens.
const steady = "steady"

// repeat is the time in which agents repeat their unchanged state, and a little more.
const repeat = 4 * time.Second

// phase is an event, and the time after it until the next event.
type phase struct {
	name string
	// event happens to the fleet and returns when it began to act.
	event func(*fleet, context.Context) (time.Time, error)
	// unnoticed: the others are not informed; they find out after -forget.
	unnoticed bool
	// repair is the time after which the counts are right, too, once the claims are.
	repair time.Duration
	// link is the way between sites, nil: the usual one. clients returns the load of the phase. A run of one site has
	// neither.
	link    *wan.Link
	clients func(*fleet) []*demand.Client
	// alone is the number of gateways without agents that clients of all sites go to.
	alone int
}

// phases in their order.
var phases = []phase{
	{name: steady, event: func(*fleet, context.Context) (time.Time, error) { return time.Now(), nil }},
	{name: "join", event: (*fleet).join},
	{name: "leave", event: (*fleet).leave},
	{name: "crash", event: (*fleet).crash, unnoticed: true},
	{name: "partition", event: (*fleet).partition, unnoticed: true},
	{name: "heal", event: (*fleet).heal, repair: repeat},
}

func namesOf(phases []phase) (names []string) {
	for _, p := range phases {
		names = append(names, p.name)
	}
	return names
}

// join starts agents with their own gateways. It returns the time at which the gateways are linked.
func (f *fleet) join(ctx context.Context) (time.Time, error) {
	before := len(f.members)
	if err := f.startAgents(ctx, f.o.parts(), f.o.parts()); err != nil {
		return time.Time{}, err
	}
	err := f.link(f.members[before:])
	return time.Now(), err
}

// stopGrace is the time that an agent has to end in order.
const stopGrace = 10 * time.Second

// some are so many synthetic members that run and are not cut off, from the first on.
func (f *fleet) some(n int) []*member {
	var all []*member
	for _, m := range f.running(true) {
		if m.gateway.Presence() == workload.Present && len(all) < n {
			all = append(all, m)
		}
	}
	return all
}

// drain is the time that a gateway that leaves keeps its link after it has withdrawn its claims. An agent
// informs others only of gateways that are linked or whose process is gone, and the process of the synthetic
// gateways goes on.
const drain = time.Second

// leave lets gateways withdraw their claims, and then stops their agents.
func (f *fleet) leave(ctx context.Context) (time.Time, error) {
	began := time.Now()
	return began, each(f.some(f.o.parts()), func(m *member) error {
		m.running = false
		if err := m.filter.Withdraw(); err != nil {
			return err
		}
		if err := rig.Sleep(ctx, drain); err != nil {
			return err
		}
		m.filter.Close()
		return m.agent.Stop()
	})
}

// crash kills agents, and with them their gateways.
func (f *fleet) crash(context.Context) (time.Time, error) {
	began := time.Now()
	return began, each(f.some(f.o.parts()), func(m *member) error {
		m.running = false
		m.agent.Kill()
		m.filter.Close()
		return nil
	})
}

// partition cuts agents off from each other, from all others and from the coordinator.
func (f *fleet) partition(ctx context.Context) (time.Time, error) {
	began := time.Now()
	return began, each(f.some(f.o.parts()), func(m *member) error { return f.cut(ctx, m, true) })
}

// heal ends the partition.
func (f *fleet) heal(ctx context.Context) (time.Time, error) {
	var cut []*member
	for _, m := range f.running(true) {
		if m.gateway.Presence() == workload.CutOff {
			cut = append(cut, m)
		}
	}
	return time.Now(), each(cut, func(m *member) error { return f.cut(ctx, m, false) })
}

func (f *fleet) cut(ctx context.Context, m *member, on bool) error {
	if _, err := f.rig.Ask(ctx, "POST", m.url(fmt.Sprintf("/fault/partition?on=%v", on))); err != nil {
		return err
	}
	presence := workload.Present
	if on {
		presence = workload.CutOff
	}
	m.gateway.Set(presence)
	return nil
}

// play goes through one phase.
func (f *fleet) play(ctx context.Context, p phase) (r Phase, err error) {
	before, err := f.usage(ctx)
	if err != nil {
		return r, err
	}
	came := f.reconnects()
	began, err := p.event(f, ctx)
	if err != nil {
		return r, err
	}
	r = Phase{Name: p.name, Bound: f.o.within.Seconds(), BoundMembers: (f.o.within + f.o.membership()).Seconds()}
	if p.unnoticed {
		r.Bound += f.o.forget.Seconds()
	}
	if err := f.agree(ctx, began, &r); err != nil {
		return r, err
	}
	if err := rig.Sleep(ctx, p.repair); err != nil {
		return r, fmt.Errorf("%s: %w", r.Name, context.Cause(ctx))
	}
	hold := f.o.hold
	if p.name == steady {
		hold = f.o.steady
	}
	if err := f.watch(ctx, hold, &r); err != nil {
		return r, err
	}
	after, err := f.usage(ctx)
	if err != nil {
		return r, err
	}
	f.costs(before, after, &r)
	r.Present = len(f.some(len(f.members)))
	r.Reconnects = f.reconnects() - came
	return r, f.sound()
}

// costs notes the costs of a phase.
func (f *fleet) costs(before, after usage, r *Phase) {
	r.Seconds, r.Agents = after.at.Sub(before.at).Seconds(), len(f.running(false))
	r.Use = f.spent(before, after)
	r.Coordinator = (after.coordinator - before.coordinator).Seconds() / r.Seconds
	r.Harness = (after.harness - before.harness).Seconds() / r.Seconds
	r.Busy = (after.busy - before.busy).Seconds() / r.Seconds
}

// Looking at all sums takes a time that grows with the keys: pause is at least so much, and
// idle times as long as a look took.
const (
	pause = 10 * time.Millisecond
	idle  = 10
)

// agree waits until all sums are right, and all agents count the same members. It notes when, and the mistake
// if the time was over.
func (f *fleet) agree(ctx context.Context, began time.Time, r *Phase) error {
	last, claims, members, split := 0, false, false, false
	for {
		now := time.Now()
		since := now.Sub(began).Seconds()
		if !claims {
			r.Wrong = f.work.Wrong(&last)
			claims, r.Claims = r.Wrong == "", since
		}
		if !members {
			members, r.Members = f.sameMembers(), since
		}
		if !split {
			split, r.Split = f.cutOffKnow(), since
		}
		if claims && members && split {
			return nil
		}
		if since > max(r.Bound, r.BoundMembers) {
			return nil // judge reports the mistake
		}
		if err := f.sound(); err != nil {
			return err
		}
		if err := rig.Sleep(ctx, max(pause, idle*time.Since(now))); err != nil {
			return fmt.Errorf("%s: %w; what was wrong last: %s", r.Name, context.Cause(ctx), r.Wrong)
		}
	}
}

// sameMembers reports whether every gateway that is there is sent as many replicas as there
// are.
func (f *fleet) sameMembers() bool {
	there := f.some(len(f.members))
	want := len(there) + f.o.envoys
	for _, m := range there {
		if m.gateway.Received().Replicas != want {
			return false
		}
	}
	return true
}

// cutOffKnow reports whether all cut-off gateways know that they are cut off.
func (f *fleet) cutOffKnow() bool {
	for _, m := range f.running(true) {
		if m.gateway.Presence() == workload.CutOff && m.gateway.Received().Isolation < exchange.Split {
			return false
		}
	}
	return true
}

// watch checks counts and shares each second for a while, in which no gateway comes or goes.
func (f *fleet) watch(ctx context.Context, hold time.Duration, r *Phase) error {
	f.work.Settle()
	for end := time.Now().Add(hold); time.Now().Before(end); {
		if err := rig.Sleep(ctx, time.Second); err != nil {
			return fmt.Errorf("%s: %w", r.Name, context.Cause(ctx))
		}
		c := f.work.Audit(time.Since(f.start), judge.Lag(len(f.members), 0, true))
		if c.Off > r.CountOff {
			r.CountOff, r.CountWhere = c.Off, c.Where
		}
		r.Late, r.CountLag = max(r.Late, c.Late.Seconds()), max(r.CountLag, c.Lag.Seconds())
		r.CountsSeen = c.Seen
		r.ShareOff = max(r.ShareOff, f.shareOff())
		if err := f.sound(); err != nil {
			return err
		}
	}
	return nil
}

// reconnects returns how many links of synthetic gateways have failed and been opened again.
func (f *fleet) reconnects() (n int) {
	for _, m := range f.members {
		if m.filter != nil {
			n += m.filter.Reconnects()
		}
	}
	return n
}

// shareOff returns the largest relative difference between the shares that a gateway receives and the pool's
// capacity.
func (f *fleet) shareOff() (worst float64) {
	for _, m := range f.some(len(f.members)) {
		worst = max(worst, abs(m.gateway.Received().Shares/capacity-1))
	}
	return worst
}

func abs(x float64) float64 { return max(x, -x) }
