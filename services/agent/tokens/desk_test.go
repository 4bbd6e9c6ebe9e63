package tokens

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
	"google.golang.org/protobuf/proto"
)

// fleet is desks that deliver to each other at once; keys below 100 belong to the first.
type fleet struct {
	t     *testing.T
	desks map[string]*Desk
	got   map[string]map[uint64]*exchange.TokenAnswers // by agent and process
}

func newFleet(t *testing.T, agents ...string) *fleet {
	f := &fleet{t: t, desks: map[string]*Desk{}, got: map[string]map[uint64]*exchange.TokenAnswers{}}
	for i, name := range agents {
		f.got[name] = map[uint64]*exchange.TokenAnswers{}
		f.desks[name] = New(Options{Agent: name, Life: uint64(i+1) << 32,
			Linked: func(uint64) bool { return false }, Allowed: allowed, Revision: func() int64 { return 1 },
			Owner: func(key uint64) string {
				if key < 100 {
					return agents[0]
				}
				return agents[1]
			}})
	}
	return f
}

// carry delivers what the desks have to send, but for packets to agents that are not there.
func (f *fleet) carry(now time.Duration) {
	for busy := true; busy; {
		busy = false
		for name, d := range f.desks {
			answers, packets := d.Take()
			for p, a := range answers {
				if f.got[name][p] == nil {
					f.got[name][p] = &exchange.TokenAnswers{}
				}
				f.got[name][p].Add(a)
			}
			for to, list := range packets {
				for _, m := range list {
					b, err := proto.Marshal(m)
					if err != nil || len(b) > owners.MaxPacket+10 {
						f.t.Fatalf("a packet of %d bytes, %v", len(b), err)
					}
					copied := &gossipv1.Tokens{}
					if err := proto.Unmarshal(b, copied); err != nil {
						f.t.Fatal(err)
					}
					if f.desks[to] != nil {
						busy = true
						f.desks[to].Receive(now, name, copied)
					}
				}
			}
		}
	}
}

func asks(key uint64, seq uint32) *exchange.TokenRequests {
	return &exchange.TokenRequests{List: []exchange.TokenRequest{{Key: key, KeyName: nameOf(key),
		Request: grant.Request{Session: 1, Number: seq, Seq: seq, Need: grant.Token, Least: grant.Token, Level: -1}}}}
}

// nameOf names a key, and allowed is what the configuration allows it: 10/s, burst 10.
func nameOf(key uint64) exchange.KeyName {
	return exchange.KeyName{Tenant: "t", Limit: "l", Client: strconv.FormatUint(key, 10)}
}

func allowed(n *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	key, err := strconv.ParseUint(n.Client, 10, 64)
	return key, grant.Params{Rate: 10, Burst: 10 * grant.Token}, err == nil && n.Tenant != "" && n.Limit == "l"
}

func failed(string) bool { return true }

const settled = 10 * time.Second // after the start

// A gateway whose agent takes nobody for the owner of a key is answered at once, and goes by its ledger. What was owned
// here grants nothing meanwhile, and goes on later.
func TestNoOwner(t *testing.T) {
	f, apart := newFleet(t, "a", "b"), false
	a := f.desks["a"]
	owner := a.o.Owner
	a.o.Owner = func(key uint64) string {
		if apart {
			return ""
		}
		return owner(key)
	}
	a.Ask(settled, 7, asks(1, 1))
	f.carry(settled)
	apart = true
	a.Changed(settled, nil, func(string) bool { return false })
	a.Ask(settled, 7, asks(1, 2))
	a.Ask(settled, 7, asks(2, 1))
	f.carry(settled)
	if g := f.got["a"][7].Grants; len(g) != 3 || g[0].NoRoom || !g[1].NoRoom || !g[2].NoRoom {
		t.Fatalf("%+v, want a grant, and two answers that there is no owner", g)
	}
	if k := a.owned[1]; k == nil || !k.away || a.owned[2] != nil {
		t.Errorf("%+v, want the key suspended, and no other one", k)
	}
	apart = false
	a.Changed(settled+time.Second, nil, func(string) bool { return false })
	if k := a.owned[1]; k == nil || k.away {
		t.Errorf("%+v, want the key back", k)
	}
}

// An owner says no at once, to gateways here and elsewhere, when a limit has its part of the room. Keys of
// other tenants find room. Then keys that are whole are forgotten soon.
func TestNoRoom(t *testing.T) {
	f := newFleet(t, "a", "b")
	a := f.desks["a"]
	for key := range uint64(3) { // they are asked about, and given back
		a.Ask(settled, 7, asks(10+key, 1))
		f.carry(settled)
		owner := f.got["a"][7].Grants[key].Owner
		a.Ask(settled, 7, &exchange.TokenRequests{List: []exchange.TokenRequest{{Key: 10 + key, Request: grant.Request{
			Session: 1, Number: 2, Owner: owner, Exclusive: true, Released: true}}}})
	}
	limit, held := budget.Of("t", "l"), 0
	for ; a.room.Fits(limit); held++ {
		a.room.Take(limit)
	}
	if held < MaxKeys*2/5 || held > MaxKeys/2 {
		t.Errorf("a limit has %d of %d keys", held, MaxKeys)
	}
	delete(f.got["a"], 7)
	a.Ask(settled, 7, asks(1, 1))
	f.desks["b"].Ask(settled, 8, asks(2, 1))
	f.carry(settled)
	for name, g := range map[string]*exchange.TokenAnswers{"here": f.got["a"][7], "elsewhere": f.got["b"][8]} {
		if g == nil || len(g.Grants) != 1 || !g.Grants[0].NoRoom || g.Grants[0].Seq != 1 || g.Grants[0].Session != 1 {
			t.Errorf("%s: %+v, want an answer that there is no room", name, g)
		}
	}
	neighbour := asks(4, 1)
	neighbour.List[0].Tenant = "neighbour"
	a.Ask(settled, 7, neighbour)
	if f.carry(settled); f.got["a"][7].Grants[1].NoRoom {
		t.Error("no room for another tenant")
	}
	if s := a.Stats(); s.Dropped[owners.Crowded] != 2 || s.Keys != 4 {
		t.Errorf("%+v", s)
	}
	if a.Second(settled+sweepFull, nil); len(a.owned) != 1 || a.owned[4] == nil {
		t.Errorf("%d keys, want only the one that is not whole", len(a.owned))
	}
	a.Ask(settled+sweepFull, 7, asks(1, 2))
	if f.carry(settled + sweepFull); f.got["a"][7].Grants[2].NoRoom {
		t.Error("no room though keys were forgotten")
	}
}

// Keys at rest are looked for in a part of all keys at a time, so that questions do not wait for all of them.
func TestKeysAtRestAreLookedForInParts(t *testing.T) {
	const keys = 5 * leastSwept
	f := newFleet(t, "a", "b")
	b := f.desks["b"]
	for key := range uint64(keys) {
		b.Ask(settled, 7, asks(100+key, 1))
		f.carry(settled)
		owner := f.got["b"][7].Grants[key].Owner
		b.Ask(settled, 7, &exchange.TokenRequests{List: []exchange.TokenRequest{{Key: 100 + key, Request: grant.Request{
			Session: 1, Number: 2, Owner: owner, Exclusive: true, Released: true}}}})
	}
	now := settled + time.Minute
	b.Second(now, nil)
	b.Second(now+sweepEvery, nil) // the search goes on: it does not begin again, or the last keys were never reached
	if left, of := len(b.sweep.keys), keys-b.sweep.part; left != of {
		t.Fatalf("%d keys are still to be looked at, want %d", left, of)
	}
	for n := 0; len(b.owned) > 0; n++ {
		if before := len(b.owned); n > 5 {
			t.Fatalf("%d keys after %d parts", before, n)
		} else if b.Sweep(now); before-len(b.owned) > keys/sweepParts+leastSwept {
			t.Fatalf("%d keys are looked at at once", before-len(b.owned))
		}
	}
}

// A gateway is answered by the owner of its key, here or at another agent.
func TestAnswers(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.desks["a"].Ask(settled, 7, asks(1, 1))
	f.desks["a"].Ask(settled, 7, asks(200, 1))
	f.carry(settled)
	if a := f.got["a"][7]; a == nil || len(a.Grants) != 2 || !a.Grants[0].Exclusive || !a.Grants[1].Exclusive {
		t.Fatalf("answered %+v", a)
	}
	for _, name := range []string{"a", "b"} {
		if s := f.desks[name].Stats(); s.Keys != 1 || s.Requests != 1 || s.Grants != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	// Another gateway wants the key: the first one is recalled, until it answers.
	f.desks["b"].Ask(settled, 8, asks(1, 1))
	f.carry(settled)
	if a := f.got["a"][7]; len(a.Recalls) != 1 || a.Recalls[0].Key != 1 {
		t.Fatalf("recalled %+v", a)
	}
	due := f.desks["a"].Due()
	f.desks["a"].Tick(due)
	f.carry(due)
	if a := f.got["a"][7]; due == 0 || len(a.Recalls) != 2 {
		t.Errorf("recalled again at %v: %+v", due, a)
	}
	// It is gone: the second one has the key.
	f.desks["a"].Lost(due, 7)
	f.carry(due)
	if a := f.got["b"][8]; a == nil || len(a.Grants) != 1 {
		t.Errorf("after the first has gone: %+v", a)
	}
}

// A new owner receives what gateways know before it grants.
func TestNewOwnerListens(t *testing.T) {
	f := newFleet(t, "a", "b")
	d, b := f.desks["a"], f.desks["b"]
	d.Changed(0, []Agent{{Name: "b", Life: 1}, {Name: "c", Life: 1}}, failed)
	d.Tick(unsettled)
	key := uint64(1) // until now c's
	for d.view.owners.Of(key) != d.view.owners.List[2].Life {
		key++
	}
	granted := func() int {
		f.carry(d.now)
		n := 0
		for _, g := range f.got["a"][7].Grants {
			if !g.Pending {
				n++
			}
		}
		return n
	}
	d.Connected(settled-time.Second, 7)
	b.Connected(settled-time.Second, 8)
	d.Changed(settled, []Agent{{Name: "b", Life: 1}}, failed)
	d.Ask(settled, 7, asks(key, 1))
	if n := granted(); n != 0 || len(f.got["a"][7].Grants) != 1 {
		t.Fatalf("granted at once: %+v", f.got["a"][7])
	}
	b.Changed(settled+time.Millisecond, []Agent{{Name: "a", Life: 1}}, failed)
	now := settled + 2*quiet
	d.Tick(now)
	b.Tick(now)
	f.carry(now)
	views := map[*Desk]uint64{d: f.got["a"][7].Owners.View, b: f.got["b"][8].Owners.View}
	if len(f.got["a"][7].Owners.List) != 2 || views[b] == 0 {
		t.Fatalf("the gateways are not told who owns keys: %+v", f.got)
	}
	d.Ask(now, 7, &exchange.TokenRequests{Registered: views[d]})
	if n := granted(); n != 0 {
		t.Fatal("granted before the gateways of b have registered")
	}
	b.Ask(now, 8, &exchange.TokenRequests{Registered: views[b]})
	if n := granted(); n != 1 {
		t.Fatalf("then: %+v", f.got["a"][7])
	}
	// An agent that says nothing is waited for, but not without end.
	d.Changed(now, []Agent{{Name: "b", Life: 2}, {Name: "c", Life: 1}}, failed)
	d.Changed(now, []Agent{{Name: "b", Life: 2}}, failed)
	d.disown(d.owned[key])
	d.Ask(now, 7, asks(key, 2))
	if due := now + unsettled; granted() != 1 {
		t.Error("granted before b has said anything")
	} else if d.Tick(due); granted() != 2 {
		t.Error("b is waited for for ever")
	}
}

// A key that leaves an owner and comes back before a gateway knows of it has one bucket: the owner still knows that the
// gateway has it. It forgets the key once all gateways have registered with the other owner.
func TestKeyComesBack(t *testing.T) {
	f, owner, now := newFleet(t, "a", "b"), "a", settled
	a, b := f.desks["a"], f.desks["b"]
	a.o.Owner = func(uint64) string { return owner }
	b.o.Owner = a.o.Owner
	change := func(who string, others ...Agent) {
		owner, now = who, now+time.Millisecond
		a.Changed(now, others, failed)
	}
	run := func(d time.Duration) {
		for end := now + d; now < end; now += 10 * time.Millisecond {
			a.Tick(now)
			f.carry(now)
		}
	}
	change("a", Agent{Name: "b", Life: 1})
	a.Connected(now, 7)
	run(6 * unsettled)
	a.Ask(now, 7, asks(1, 1))
	f.carry(now)
	if g := f.got["a"][7]; len(g.Grants) != 1 || !g.Grants[0].Exclusive {
		t.Fatalf("the first gateway: %+v", g)
	}
	change("c", Agent{Name: "b", Life: 1}, Agent{Name: "c", Life: 1})
	change("a", Agent{Name: "b", Life: 1})
	b.Ask(now, 8, asks(1, 1))
	f.carry(now)
	run(6 * unsettled)
	if len(f.got["a"][7].Recalls) == 0 {
		t.Errorf("the first gateway's bucket is not recalled; the second one is answered %+v", f.got["b"][8].Grants)
	}
	change("c", Agent{Name: "b", Life: 1}, Agent{Name: "c", Life: 1})
	run(6 * unsettled)
	if len(a.owned) != 1 {
		t.Error("the key is forgotten though no gateway has registered elsewhere")
	}
	a.Ask(now, 7, &exchange.TokenRequests{Registered: a.view.owners.View})
	for _, name := range []string{"b", "c"} {
		a.Receive(now, name, &gossipv1.Tokens{View: &gossipv1.TokenView{Agents: a.view.digest, Registered: true}})
	}
	if a.Second(now, nil); len(a.owned) != 0 || a.room.Keys() != 0 {
		t.Error("the key is kept though all gateways have registered elsewhere")
	}
}

// What does not belong here, or has unusable numbers, is dropped and counted.
func TestRefused(t *testing.T) {
	f := newFleet(t, "a", "b")
	a := f.desks["a"]
	a.Receive(settled, "b", &gossipv1.Tokens{Requests: []*gossipv1.TokenRequest{{Key: 200}}})
	if s := a.Stats(); s.Dropped[owners.Astray] != 1 || s.Keys != 0 {
		t.Errorf("astray: %+v", s)
	}
	for _, c := range []struct {
		q   *gossipv1.TokenRequest
		why owners.Drop
	}{
		{&gossipv1.TokenRequest{Key: 1}, owners.Unknown},
		{&gossipv1.TokenRequest{Key: 1, Tenant: "t", Limit: "another", Client: []byte("1")}, owners.Unknown},
		{&gossipv1.TokenRequest{Key: 1, Tenant: "t", Limit: "l", Client: []byte("2")}, owners.Unknown},
		{&gossipv1.TokenRequest{Key: 1, Tenant: "t", Limit: "l", Client: []byte("1"), Spent: math.MinInt64}, owners.Unusable},
	} {
		before := a.Stats()
		a.Receive(settled, "b", &gossipv1.Tokens{Requests: []*gossipv1.TokenRequest{c.q}})
		if s := a.Stats(); s.Dropped[c.why] != before.Dropped[c.why]+1 || s.Keys != 0 {
			t.Errorf("%v, want %v: %+v", c.q, c.why, s)
		}
	}
	if c := a.Complaints(settled); len(c) != 1 || c[0].Agent != "b" || c[0].Count != 4 {
		t.Errorf("to be logged: %+v", c)
	}
	a.Receive(settled, "b", &gossipv1.Tokens{Requests: []*gossipv1.TokenRequest{{Key: 1}}})
	if c := a.Complaints(settled + complainEvery/2); len(c) != 0 {
		t.Errorf("logged again soon: %+v", c)
	}
	// Nobody grants to gateways that have not asked, nor loses those of another agent.
	a.Receive(settled, "b", &gossipv1.Tokens{Grants: []*gossipv1.TokenGrant{{Key: 1, Process: 9}},
		Recalls: []*gossipv1.TokenRecall{{Key: 1, Process: 9}}})
	a.Ask(settled, 7, asks(1, 1))
	a.Receive(settled, "b", &gossipv1.Tokens{Lost: []uint64{7}})
	f.carry(settled)
	if f.got["a"][9] != nil || len(f.got["a"][7].Grants) != 1 {
		t.Errorf("answers: %+v", f.got["a"])
	}
}

// Keys at rest are forgotten, and other agents are informed of a gateway that is gone, three times.
func TestSecond(t *testing.T) {
	f := newFleet(t, "a", "b")
	b := f.desks["b"]
	b.Ask(settled, 7, asks(1, 1))
	f.carry(settled)
	b.Lost(settled, 7)
	told := 0
	for i := range 5 {
		b.Second(settled+time.Duration(i)*time.Second, []string{"a"})
		_, packets := b.Take()
		for _, m := range packets["a"] {
			told += len(m.GetLost())
			f.desks["a"].Receive(settled, "b", m)
		}
	}
	if told != 3 {
		t.Errorf("told %d times", told)
	}
	a := f.desks["a"]
	if a.Second(settled+time.Minute, nil); a.Stats().Keys != 0 {
		t.Errorf("a key at rest is kept: %+v", a.Stats())
	}
}

// FuzzReceive gives a desk packets of any content, and changes its agents and loses gateways in between:
// nothing panics, and the counts of owners stay consistent.
func FuzzReceive(f *testing.F) {
	seed, _ := proto.Marshal(&gossipv1.Tokens{Lost: []uint64{1}, Requests: []*gossipv1.TokenRequest{
		toRequest(7, &asks(1, 1).List[0]), toRequest(8, &asks(1, 1).List[0])},
		Statement: toStatement(&grant.Statement{Life: 1, Number: 1, Least: 2, Processes: []uint64{7, 8}}),
		Answers: []*gossipv1.PartAnswer{toPartAnswer(7, &exchange.PartAnswer{Key: 1, PartAnswer: grant.PartAnswer{
			Owner: 2, Given: 2, Size: 4 * grant.Token, Spent: grant.Token, Since: 1e9, Base: grant.Token}})},
		Calls: []*gossipv1.PartCall{toPartCall(7, &exchange.PartCall{Key: 1, PartCall: grant.PartCall{Owner: 2,
			Lease: 1e9, Rate: 10, Burst: 10 * grant.Token}})}})
	f.Add(seed, seed, uint8(0))
	f.Add(seed, seed, uint8(255))
	f.Fuzz(func(t *testing.T, first, second []byte, between uint8) {
		d := New(Options{Agent: "a", Life: 1, Owner: func(uint64) string { return "a" }, Allowed: allowed,
			Revision: func() int64 { return 1 }, Linked: func(uint64) bool { return false }})
		now := settled
		for i, b := range [][]byte{first, second, first} {
			m := &gossipv1.Tokens{}
			if proto.Unmarshal(b, m) != nil {
				return
			}
			d.Receive(now, "b", m)
			if at := d.Due(); at != 0 {
				now = max(now, at)
				d.Tick(now)
			}
			d.Take()
			switch between >> (2 * i) & 3 {
			case 1:
				d.Changed(now, []Agent{{Name: "b", Life: 1}}, failed)
			case 2:
				d.Changed(now, nil, failed)
			case 3:
				for p := range uint64(1000) {
					d.Receive(now, "b", &gossipv1.Tokens{Lost: []uint64{p}})
				}
				now += 5 * time.Second
			}
		}
		for _, k := range d.owned {
			if out, level := k.o.Out(), k.o.Level(int64(now)); out < 0 || level < out {
				t.Fatalf("out %d, D %d", out, level)
			}
		}
	})
}

// An owner asks back from a process that no gateway here is: it is answered that the process has gone. While this agent
// has just begun, the process may only have no link yet; with a link it is asked.
func TestRecallOfNobody(t *testing.T) {
	linked := map[uint64]bool{8: true}
	d := New(Options{Agent: "b", Life: 1, Owner: func(uint64) string { return "a" },
		Linked: func(p uint64) bool { return linked[p] }})
	recall := &gossipv1.Tokens{Recalls: []*gossipv1.TokenRecall{{Key: 1, Process: 7}, {Key: 1, Process: 8}}}
	for _, c := range []struct {
		now  time.Duration
		lost int
	}{{DeadAfter - 1, 0}, {DeadAfter, 1}} {
		d.Receive(c.now, "a", recall)
		answers, packets := d.Take()
		if answers[7] != nil || answers[8] == nil || len(answers[8].Recalls) != 1 {
			t.Errorf("at %v: answers %v", c.now, answers)
		}
		var lost []uint64
		for _, p := range packets["a"] {
			lost = append(lost, p.GetLost()...)
		}
		if len(lost) != c.lost || c.lost > 0 && lost[0] != 7 {
			t.Errorf("at %v: lost %v", c.now, lost)
		}
	}
}

// An agent that is received is not gone, though it is no member: what its gateways hold is not granted to others. Once
// it is unreachable, too, it is gone.
func TestAgentThatIsReceivedIsNotGone(t *testing.T) {
	f := newFleet(t, "a", "b")
	a, b := f.desks["a"], f.desks["b"]
	a.Connected(0, 7)
	a.Changed(0, []Agent{{Name: "b", Life: 1}}, failed)
	run := func(from, to time.Duration, received bool) {
		for now := from; now < to; now += 100 * time.Millisecond {
			if received {
				a.Heard(now, "b")
			}
			a.Tick(now)
			f.carry(now)
		}
	}
	run(0, settled, true)
	b.Ask(settled, 8, asks(1, 1))
	f.carry(settled)
	if g := f.got["b"][8]; g == nil || len(g.Grants) == 0 || !g.Grants[0].Exclusive {
		t.Fatalf("granted %+v, want the bucket", g)
	}
	a.Changed(settled, nil, failed)
	end := settled + 3*DeadAfter
	run(settled, end, true)
	a.Ask(end, 7, asks(1, 1))
	f.carry(end)
	if len(f.got["b"][8].Recalls) == 0 {
		t.Error("the bucket is not asked back of a gateway that has it")
	}
	if g := f.got["a"][7]; g != nil && len(g.Grants) > 0 && g.Grants[0].Exclusive {
		t.Error("two gateways have the bucket")
	}
	run(end, end+2*DeadAfter, false)
	if len(a.numbers) != 1 {
		t.Errorf("%d gateways are known, want the one here", len(a.numbers))
	}
}

// A gateway that was taken for gone and asks again is not reported as gone any more.
func TestBackFromLost(t *testing.T) {
	f := newFleet(t, "a", "b")
	b := f.desks["b"]
	b.Ask(0, 5, asks(1, 1))
	b.Lost(time.Second, 5)
	b.Take()
	b.Ask(2*time.Second, 5, asks(1, 2))
	b.Take()
	b.Second(2*time.Second, []string{"a"})
	if _, packets := b.Take(); len(packets) > 0 {
		t.Errorf("told %v", packets)
	}
}

// Of a gateway that is gone nothing is kept; if it comes back, it is another gateway to the owners.
func TestGoneIsForgotten(t *testing.T) {
	f := newFleet(t, "a", "b")
	a := f.desks["a"]
	for i := range uint32(5) {
		a.Ask(settled, 7, asks(1, i+1))
		f.carry(settled)
		if got := len(f.got["a"][7].Grants); got != int(i)+1 {
			t.Fatalf("life %d: %d grants in all", i, got)
		}
		a.Lost(settled, 7)
	}
	if len(a.numbers)+len(a.clients)+len(a.locals) != 0 {
		t.Errorf("kept: %v, %v, %v", a.numbers, a.clients, a.locals)
	}
}
