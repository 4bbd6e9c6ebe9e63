package tokens

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
)

// divided is two agents that know of each other, with a gateway's process each: 7 at a, 8 at b.
func divided(t *testing.T) *fleet {
	f := newFleet(t, "a", "b")
	for _, d := range f.desks {
		d.o.Allowed = func(n *exchange.KeyName) (uint64, grant.Params, bool) {
			key, p, ok := allowed(n)
			p.Burst = 50 * grant.Token
			return key, p, ok
		}
	}
	f.desks["a"].Connected(settled, 7)
	f.desks["b"].Connected(settled, 8)
	f.meet(settled, "a", "b")
	f.meet(settled, "b", "a")
	return f
}

func (f *fleet) meet(now time.Duration, name string, others ...string) {
	var list []Agent
	for _, other := range others {
		list = append(list, Agent{Name: other, Life: 1})
	}
	f.desks[name].Changed(now, list, failed)
}

// play lets time pass; gateways confirm what they are sent. It returns by how many each of them divides.
func (f *fleet) play(from, to time.Duration) (by map[uint64]exchange.Division) {
	by = map[uint64]exchange.Division{}
	for now := from; now <= to; now += 10 * time.Millisecond {
		for _, name := range []string{"a", "b"} {
			d := f.desks[name]
			if d == nil {
				continue
			}
			if (now-from)%time.Second == 0 {
				var others []string
				for _, a := range d.view.agents {
					others = append(others, a.Name)
				}
				d.Second(now, others)
			}
			if due := d.Due(); due != 0 && due <= now {
				d.Tick(now)
			}
			if len(d.view.owners.List) > 0 {
				for p, l := range d.locals {
					if l.registered != d.view.owners.View {
						d.Ask(now, p, &exchange.TokenRequests{Registered: d.view.owners.View})
					}
				}
			}
		}
		f.carry(now)
		for name, got := range f.got {
			for p, a := range got {
				if d := a.Division; d != nil {
					a.Division, by[p] = nil, *d
					f.desks[name].Ask(now, p, &exchange.TokenRequests{Divides: d})
				}
			}
		}
	}
	return by
}

// Agents that know of each other's gateways divide buckets among all of them, and begin with full parts.
func TestAgentsDivide(t *testing.T) {
	f := divided(t)
	by := f.play(settled, settled+15*time.Second)
	if want := (exchange.Division{Gateways: 2, Full: true}); by[7] != want || by[8] != want {
		t.Fatalf("%v, want %v for both", by, want)
	}
	for name, d := range f.desks {
		complete := d.parts.division.Complete(int64(settled + 15*time.Second))
		if r := d.parts.roster; r == nil || r.Least != 2 || len(r.Members) != 2 || !complete {
			t.Errorf("%s counts %+v", name, r)
		}
	}
	// A third process divides the others' parts, and begins with an empty one.
	now := settled + 16*time.Second
	f.desks["b"].Connected(now, 9)
	by = f.play(now, now+5*time.Second)
	if by[7].Gateways != 3 || by[8].Gateways != 3 || by[9] != (exchange.Division{Gateways: 3}) {
		t.Errorf("%v, want 3 for all, the third empty", by)
	}
	// It goes: its part is divided among the others.
	now += 6 * time.Second
	f.desks["b"].Lost(now, 9)
	if by = f.play(now, now+lapsed-time.Second); by[7].Gateways != 3 {
		t.Errorf("%v before its part has lapsed", by)
	}
	if by = f.play(now+lapsed, now+lapsed+15*time.Second); by[7].Gateways != 2 || by[8].Gateways != 2 {
		t.Errorf("%v, want 2 for both", by)
	}
}

// Another plan is taken in by so many owners at a time that questions do not wait for all of them.
func TestManyOwnersTakeInAPlan(t *testing.T) {
	f, keys := divided(t), 3*stepKeys+10
	b := f.desks["b"]
	for key := range uint64(keys) {
		b.Ask(settled, 8, asks(100+key, 1))
	}
	f.carry(settled)
	counted := func() (n int) {
		for _, k := range b.owned {
			if b.parts.roster != nil && k.roster == b.parts.roster {
				n++
			}
		}
		return n
	}
	if len(b.owned) != keys || counted() != 0 {
		t.Fatalf("%d keys, %d count a plan", len(b.owned), counted())
	}
	now, steps := settled, 0
	for ; counted() < keys && now < settled+20*time.Second; now += 10 * time.Millisecond {
		before := counted()
		f.play(now, now)
		if more := counted() - before; more > stepKeys {
			t.Fatalf("%d owners take in a plan at once, at most %d", more, stepKeys)
		} else if more > 0 {
			steps++
		}
	}
	if steps != 4 || now > settled+12*time.Second {
		t.Errorf("%d of %d owners count the plan after %d steps and %v, want 4 steps", counted(), keys, steps, now-settled)
	}
}

// Gateways of agents that know of another site have no parts any more, and get none after a pause of their agent.
func TestNoPartsOverSites(t *testing.T) {
	f := divided(t)
	now := settled + 15*time.Second
	f.play(settled, now)
	f.desks["a"].Apart()
	f.desks["b"].Apart()
	by := f.play(now, now+2*time.Second)
	for range 2 {
		for process, d := range by {
			if _, has := (grant.Params{Rate: 1, Burst: 1e5 * grant.Token}).Part(int(d.Gateways)); has {
				t.Errorf("process %d divides by %d", process, d.Gateways)
			}
		}
		now += 20 * time.Second
		f.desks["a"].beginDivision(now)
		by = f.play(now, now+15*time.Second)
	}
}

// Until it is time for the first parts owners count none: the whole bucket is there, also when an agent is cut off.
func TestOwnersCountNoPartsBeforeTheFirst(t *testing.T) {
	f := divided(t)
	f.play(settled, settled+9*time.Second)
	for name, d := range f.desks {
		if r := d.parts.roster; r != nil && r.Least != 0 {
			t.Errorf("%s counts %+v", name, r)
		}
	}
}

// An owner that is short calls the parts of gateways here and elsewhere, and grants what they leave.
func TestPartsAreCalled(t *testing.T) {
	f := divided(t)
	now := settled + 15*time.Second
	f.play(settled, now)
	ask := asks(1, 1)
	ask.List[0].Need = 45 * grant.Token
	f.desks["b"].Ask(now, 8, ask)
	f.carry(now)
	here, there := f.got["a"][7].Calls, f.got["b"][8].Calls
	if len(here) != 1 || len(there) != 1 || here[0].Key != 1 || !here[0].Usable() {
		t.Fatalf("calls: %+v, %+v", here, there)
	}
	answer := func(c exchange.PartCall, spent int64) *exchange.TokenRequests {
		return &exchange.TokenRequests{Answers: []exchange.PartAnswer{{Key: c.Key, PartAnswer: grant.PartAnswer{
			Owner: c.Owner, At: c.At, Given: c.Owner, Size: 20 * grant.Token, Spent: spent, Base: spent}}}}
	}
	f.desks["a"].Ask(now, 7, answer(here[0], 0))
	f.desks["b"].Ask(now, 8, answer(there[0], grant.Token))
	f.carry(now)
	g := f.got["b"][8].Grants
	if len(g) == 0 {
		t.Fatal("no answer")
	}
	last := g[len(g)-1]
	all := last.Exclusive && last.Level <= grant.Token+10 // the bucket itself
	if !all && last.Granted != 45*grant.Token || last.Valid <= 0 {
		t.Fatalf("%+v, want 45 tokens for a while", last)
	}
	if due := f.desks["a"].Due(); due <= now {
		t.Errorf("the owner is due at %v, it is %v", due, now)
	}
}

// A new owner grants nothing before its agent knows which gateways of other agents have parts.
func TestOwnersWaitForAllStatements(t *testing.T) {
	f := newFleet(t, "a", "b")
	silent := f.desks["b"]
	delete(f.desks, "b")
	f.meet(0, "a", "b") // it has not been alone
	f.desks["a"].Connected(settled, 7)
	f.desks["a"].Ask(settled, 7, asks(1, 1))
	f.play(settled, settled+4*time.Second)
	for _, g := range f.got["a"][7].Grants {
		if g.Granted != 0 || !g.Pending {
			t.Fatalf("%+v though it does not know of b's gateways", g)
		}
	}
	f.desks["b"] = silent
	now := settled + 4*time.Second + 500*time.Millisecond
	f.meet(now, "b", "a")
	f.play(now, now+400*time.Millisecond)
	g := f.got["a"][7].Grants
	if last := g[len(g)-1]; last.Granted != grant.Token && !last.Exclusive {
		t.Errorf("%+v, want a token", last)
	}
}

// An agent that stood still until its gateways' parts had lapsed makes the statements of a new life.
func TestPartsAfterAPause(t *testing.T) {
	f := divided(t)
	now := settled + 15*time.Second
	f.play(settled, now)
	life := f.desks["a"].parts.division.StatementFor("b").Life
	f.desks["a"].Stood(now, 3*time.Second)
	if s := f.desks["a"].parts.division.StatementFor("b"); s.Life != life {
		t.Error("a short pause begins a new life")
	}
	now += 5 * time.Second
	f.desks["a"].Stood(now, 5*time.Second)
	if s := f.desks["a"].parts.division.StatementFor("b"); s.Life <= life || f.desks["a"].locals[7].given != 0 {
		t.Errorf("life %d, was %d; given %d", s.Life, life, f.desks["a"].locals[7].given)
	}
	f.desks["a"].Second(now, nil)
	if r := f.desks["a"].parts.roster; len(r.Members) != 2 {
		t.Errorf("owners count %d gateways before the other agent is heard again", len(r.Members))
	}
	by := f.play(now, now+15*time.Second)
	if by[7].Gateways != 2 || by[7].Full {
		t.Errorf("%v, want 2, empty", by)
	}
}

// What no agent says is dropped: too many processes, in no order, or twice.
func TestUnusableStatements(t *testing.T) {
	good := gossipv1.DivisionStatement{Life: 1, Number: 1, Least: 1, Processes: []uint64{1, 2}}
	if _, ok := fromStatement(&good); !ok {
		t.Error("a good statement is dropped")
	}
	for _, bad := range []*gossipv1.DivisionStatement{
		{Number: 1, Least: 1, Processes: []uint64{1}},
		{Life: 1, Least: 1, Processes: []uint64{1}},
		{Life: 1, Number: 1, Least: 1},
		{Life: 1, Number: 1, Least: exchange.MaxGateways + 1, Processes: []uint64{1}},
		{Life: 1, Number: 1, Least: 1, Processes: []uint64{2, 1}},
		{Life: 1, Number: 1, Least: 1, Processes: []uint64{1, 1}},
		{Life: 1, Number: 1, Least: 1, Processes: make([]uint64, grant.MostDivided+1)},
	} {
		if _, ok := fromStatement(bad); ok {
			t.Errorf("%+v is taken", bad)
		}
	}
	f := newFleet(t, "a", "b")
	f.desks["a"].Receive(settled, "b", &gossipv1.Tokens{Statement: &gossipv1.DivisionStatement{Life: 1}})
	if n := f.desks["a"].Stats().Dropped[owners.Unusable]; n != 1 {
		t.Errorf("%d dropped", n)
	}
}

// An agent without a statement keeps owners from granting for a while only. While it is alive no gateway gets parts.
func TestASilentAgent(t *testing.T) {
	f := newFleet(t, "a", "b")
	delete(f.desks, "b")
	f.meet(0, "a", "b")
	f.desks["a"].Connected(time.Second, 7)
	f.desks["a"].Ask(time.Second, 7, asks(1, 1))
	by := f.play(time.Second, 20*time.Second)
	if len(by) != 0 {
		t.Errorf("parts: %v", by)
	}
	g := f.got["a"][7].Grants
	if last := g[len(g)-1]; last.Pending {
		t.Errorf("%+v after 20 s", last)
	}
}
