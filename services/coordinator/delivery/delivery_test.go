package delivery_test

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/delivery"
)

const round = 250 * time.Millisecond

// fleet is a publisher, and agents that put together what they are sent, as simply as can be.
type fleet struct {
	publisher *delivery.Publisher
	now       time.Duration
	leases    map[allocation.Flow]*allocation.Lease
	shares    map[allocation.Flow]float64
	agents    []*agent
	list      []allocation.Replica
	idle      float64
}

type agent struct {
	receiver *delivery.Receiver
	old      bool // it does not understand changes
	uses     map[allocation.Flow]bool
	held     map[allocation.Flow]float64
	idle     float64
	members  map[string]float64
	version  uint64
	last     *controlv1.Leases
	at       time.Duration
}

func newFleet(agents int) *fleet {
	f := &fleet{publisher: delivery.New(10 * time.Second), leases: map[allocation.Flow]*allocation.Lease{},
		shares: map[allocation.Flow]float64{}, idle: 1}
	f.publisher.Begin(1)
	for i := range agents {
		f.list = append(f.list, allocation.Replica{Name: fmt.Sprintf("gw-%04d", i), Weight: 1})
		f.agents = append(f.agents, &agent{uses: map[allocation.Flow]bool{}})
		f.connect(i)
	}
	return f
}

func (f *fleet) connect(i int) {
	a := f.agents[i]
	a.receiver = delivery.NewReceiver(&controlv1.Hello{Agent: fmt.Sprint(i), Changes: !a.old, Members: a.version})
	a.last = nil
}

func flow(i int) allocation.Flow {
	return allocation.Flow{Tenant: fmt.Sprintf("t%06d", i), Pool: "api"}
}

// round publishes the shares, and sends everybody what is new.
func (f *fleet) round(t interface{ Fatalf(string, ...any) }) (messages, leases int) {
	f.now += round
	o := &allocation.Outcome{Revision: 1, Members: f.list,
		Pools: []allocation.PoolShare{{Pool: "api", IdleShare: f.idle, GuaranteeScale: 1}}}
	for key := range maps.Keys(f.leases) {
		if _, has := f.shares[key]; !has {
			delete(f.leases, key)
		}
	}
	for key, share := range f.shares {
		if f.leases[key] == nil {
			f.leases[key] = &allocation.Lease{Flow: key}
		}
		agents := 0
		for _, a := range f.agents {
			if a.uses[key] {
				agents++
			}
		}
		o.Flows = append(o.Flows, allocation.FlowShare{Flow: key, Share: share, Lease: f.leases[key], Agents: agents})
	}
	f.publisher.Publish(f.now, o, len(f.agents))
	for i := range f.agents {
		m, l := f.send(t, i)
		messages, leases = messages+m, leases+l
	}
	return messages, leases
}

// send sends an agent what is new.
func (f *fleet) send(t interface{ Fatalf(string, ...any) }, i int) (messages, leases int) {
	a := f.agents[i]
	var parts []*controlv1.Leases
	for _, m := range f.publisher.Next(f.now, a.receiver, func(yield func(*allocation.Lease)) {
		for key := range a.uses {
			if l := f.leases[key]; l != nil {
				yield(l)
				yield(l)
			}
		}
	}) {
		messages++
		parts = append(parts, m.Leases())
		leases += len(m.Leases().GetLeases())
		if n := proto.Size(m.Leases()); n > 2<<20 {
			t.Fatalf("a message of %d bytes", n)
		}
	}
	if len(parts) > 0 {
		a.take(t, f.now, parts)
	}
	return messages, leases
}

// take puts the parts of a message in force.
func (a *agent) take(t interface{ Fatalf(string, ...any) }, now time.Duration, parts []*controlv1.Leases) {
	l := parts[len(parts)-1]
	for i, p := range parts {
		if p.GetEpoch() != l.GetEpoch() || p.GetSeq() != l.GetSeq() || p.GetMore() != (i < len(parts)-1) {
			t.Fatalf("part %d of %d: %v", i, len(parts), p)
		}
	}
	switch {
	case l.GetBase() == 0:
		a.held = map[allocation.Flow]float64{}
	case a.last == nil || l.GetBase() != a.last.GetSeq() || l.GetEpoch() != a.last.GetEpoch():
		t.Fatalf("leases %d change %d, this agent has %v", l.GetSeq(), l.GetBase(), a.last)
	}
	for _, name := range l.GetRemoved() {
		delete(a.held, allocation.Flow{Tenant: name.GetTenant(), Pool: name.GetPool()})
	}
	for _, p := range parts {
		for _, lease := range p.GetLeases() {
			a.held[allocation.Flow{Tenant: lease.GetTenant(), Pool: lease.GetPool()}] = lease.GetShare()
		}
	}
	for _, p := range l.GetPools() {
		a.idle = p.GetIdleShare()
	}
	if n := l.GetTotal(); n > 0 && int(n) != len(a.held) {
		t.Fatalf("%d leases, want %d", len(a.held), n)
	}
	a.takeMembers(t, l)
	a.last, a.at = l, now
}

func (a *agent) takeMembers(t interface{ Fatalf(string, ...any) }, l *controlv1.Leases) {
	if v := l.GetMembersVersion(); v != 0 && v == a.version {
		return
	}
	if l.GetMembersBase() == 0 {
		a.members = map[string]float64{}
	} else if l.GetMembersBase() != a.version {
		t.Fatalf("members of %x, this agent has %x", l.GetMembersBase(), a.version)
	}
	for _, name := range l.GetMembersRemoved() {
		delete(a.members, name)
	}
	for _, m := range l.GetMembers() {
		a.members[m.GetName()] = m.GetWeight()
	}
	a.version = l.GetMembersVersion()
}

// check compares what an agent holds with what is so, to within off.
func (f *fleet) check(t interface{ Fatalf(string, ...any) }, i int, off float64) {
	a := f.agents[i]
	want := 0
	for key, share := range f.shares {
		held, has := a.held[key]
		if a.uses[key] && !has || has && math.Abs(held-share) > off*share {
			t.Fatalf("agent %d holds %v of %v, the share is %v", i, held, key, share)
		}
		if has {
			want++
		}
	}
	if len(a.held) != want || len(a.members) != len(f.list) || a.idle != f.idle {
		t.Fatalf("agent %d holds %d leases, %d of them right; %d members of %d; idle %v of %v", i, len(a.held), want,
			len(a.members), len(f.list), a.idle, f.idle)
	}
	if a.last.GetMembersVersion() != a.version || f.now-a.at > delivery.Renew {
		t.Fatalf("agent %d was served at %v, now is %v", i, a.at, f.now)
	}
}

// Whatever happens, after each round each agent holds what it needs: exactly where there
// are few leases, to within a step where there are many.
func TestAgentsHoldTheirLeases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		many := rapid.IntRange(0, 7).Draw(t, "many") == 0
		f := newFleet(5)
		f.agents[4].old = true
		f.connect(4)
		flows, off := 8, 0.0
		if many {
			for i := range delivery.Everywhere/5 + 1 {
				f.shares[flow(100+i)] = 1
			}
			off = delivery.Step
		}
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			key := flow(rapid.IntRange(0, flows-1).Draw(t, "flow"))
			i := rapid.IntRange(0, 4).Draw(t, "agent")
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0:
				f.agents[i].uses[key] = true
				f.send(t, i)
			case 1:
				delete(f.agents[i].uses, key)
			case 2:
				delete(f.shares, key)
			case 3:
				f.connect(i)
			case 4:
				f.list = f.list[: len(f.list)-1 : len(f.list)-1]
				if len(f.list) == 0 {
					f.list = []allocation.Replica{{Name: "b", Weight: 2}, {Name: "c", Weight: 1}, {Name: "d"}}
				}
			case 5:
				f.publisher.Begin(int64(f.now))
			case 6:
				f.publisher.Again(f.agents[i].receiver)
				f.agents[i].version = 0
			default:
				f.shares[key] = rapid.Float64Range(.5, 1000).Draw(t, "share")
			}
			f.round(t)
			for i := range f.agents {
				f.check(t, i, off)
			}
		}
	})
}

// Beyond Everywhere an agent is sent its own flows and no others; the lease of a flow that it begins to use at once;
// small moves after Refresh.
func TestManyLeasesAreSentWhereTheyAreUsed(t *testing.T) {
	f := newFleet(10)
	const flows = 3000
	for i := range flows {
		f.shares[flow(i)] = 100
		f.agents[i%10].uses[flow(i)] = true
	}
	if _, leases := f.round(t); leases != flows || !f.publisher.Stats().Selected {
		t.Fatalf("%d leases of %d were sent first", leases, flows)
	}
	if messages, leases := f.round(t); messages+leases > 0 {
		t.Errorf("nothing has changed, and %d messages with %d leases were sent", messages, leases)
	}
	f.agents[3].uses[flow(4)] = true
	if messages, leases := f.send(t, 3); messages != 1 || leases != 1 {
		t.Errorf("a flow that comes to an agent: %d messages, %d leases", messages, leases)
	}
	f.shares[flow(7)] = 102.5
	if _, leases := f.round(t); leases != 1 {
		t.Errorf("one share has moved by a step, %d leases were sent", leases)
	}
	sent := 0
	f.shares[flow(8)] = 101
	for range 2 * int(delivery.Refresh/round) {
		_, leases := f.round(t)
		sent += leases
	}
	if sent != 1 {
		t.Errorf("one share has moved by less than a step, %d leases were sent later", sent)
	}
	f.check(t, 8, 0)
}

// When everything moves at once, the largest moves go first, and no round sends more than
// the budget.
func TestTheLargestMovesGoFirst(t *testing.T) {
	f := newFleet(10)
	const flows = delivery.Budget
	for i := range flows {
		f.shares[flow(i)] = 100
		f.agents[i%10].uses[flow(i)], f.agents[(i+1)%10].uses[flow(i)] = true, true
	}
	f.round(t)
	for i := range flows {
		f.shares[flow(i)] = 103 // a step and a half
		if i%4 == 0 {
			f.shares[flow(i)] = 110 // five steps
		}
	}
	_, leases := f.round(t)
	if s := f.publisher.Stats(); leases > delivery.Budget || leases < delivery.Budget/4 || s.Deferred == 0 ||
		s.Step <= delivery.Step {
		t.Fatalf("%d leases, %+v", leases, s)
	}
	if held := f.agents[0].held[flow(0)]; held != 110 {
		t.Errorf("the largest move has not been sent: %v", held)
	}
}

// The leases of an epoch that is over are not sent, and a new one begins with everything.
func TestLeasesOfAnOlderEpochAreNotSent(t *testing.T) {
	f := newFleet(1)
	f.shares[flow(1)] = 5
	f.round(t)
	f.publisher.Begin(9)
	if messages, _ := f.send(t, 0); messages != 0 {
		t.Error("leases before the first round of an epoch")
	}
	f.round(t)
	if l := f.agents[0].last; l.GetEpoch() != 9 || l.GetSeq() != 1 || l.GetBase() != 0 || len(l.GetLeases()) != 1 {
		t.Errorf("%v", l)
	}
}

// A leader that has lost etcd renews what it sent, although flows are used no more.
func TestRenewalChangesNothing(t *testing.T) {
	f := newFleet(10)
	for i := range 3000 {
		f.shares[flow(i)] = 100
		f.agents[i%10].uses[flow(i)] = true
	}
	f.round(t)
	for _, a := range f.agents {
		a.uses = map[allocation.Flow]bool{}
	}
	for range 8 {
		f.now += round
		if !f.publisher.Renew() {
			t.Fatal("nothing to renew")
		}
		for i := range f.agents {
			f.send(t, i)
		}
	}
	for _, a := range f.agents {
		if len(a.held) != 300 || f.now-a.at > delivery.Renew {
			t.Fatalf("%d leases are left, served at %v of %v", len(a.held), a.at, f.now)
		}
	}
}

// A new leader with the same members as the agent's list does not send them again.
func TestEqualMembersHaveEqualVersions(t *testing.T) {
	f, g := newFleet(3), newFleet(3)
	f.round(t)
	a := f.agents[0]
	g.agents[0].version, g.agents[0].members = a.version, a.members
	g.connect(0)
	g.round(t)
	if l := g.agents[0].last; len(l.GetMembers()) != 0 || l.GetMembersVersion() != a.version {
		t.Errorf("%v", l)
	}
	g.check(t, 0, 0)
}

// The demand of a share that stays, as at a max, is published when it has moved by a fifth of the share.
func TestDemandIsPublished(t *testing.T) {
	p, lease := delivery.New(time.Second), &allocation.Lease{Flow: flow(1)}
	for i, tc := range [][2]float64{{10, 10}, {29, 10}, {31, 31}, {60, 60}, {500, 500}, {900, 500}} {
		p.Publish(time.Duration(i)*round, &allocation.Outcome{
			Flows: []allocation.FlowShare{{Flow: flow(1), Share: 100, Demand: tc[0], Lease: lease}}}, 1)
		if lease.Demand != tc[1] {
			t.Errorf("demand %v: %v is published, want %v", tc[0], lease.Demand, tc[1])
		}
	}
}
