package tokens

import (
	"testing"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
	"google.golang.org/protobuf/proto"
)

// What a limit allows is what the owner's configuration says: no message names it, and none of a gateway
// with another revision changes it. It changes with the owner's configuration, without a message. A limit
// that is gone keeps its numbers until its keys are forgotten.
func TestTheOwnersConfigurationDecides(t *testing.T) {
	p, revision, known := grant.Params{Rate: 1, Burst: 5 * grant.Token}, int64(1), true
	d := New(Options{Agent: "a", Life: 1, Owner: func(uint64) string { return "a" },
		Linked: func(uint64) bool { return false }, Revision: func() int64 { return revision },
		Allowed: func(n *exchange.KeyName) (uint64, grant.Params, bool) {
			key, _, ok := allowed(n)
			return key, p, ok && known
		}})
	asked := uint32(0)
	want := func(why string, want grant.Params) {
		t.Helper()
		asked++
		q := asks(1, asked)
		d.Ask(settled, uint64(asked), q) // each time another process
		if got := d.owned[1].params; got != want {
			t.Errorf("%s: %+v, want %+v", why, got, want)
		}
	}
	first, second := p, grant.Params{Rate: 2, Burst: 8 * grant.Token, Strict: true}
	want("at first", first)
	p = second
	want("the same revision", first)
	revision++
	want("another revision", second)
	known, revision = false, 3
	want("the limit is gone", second)
}

// Two names have the same hash: the key keeps the first name.
func TestOneKeyHasOneName(t *testing.T) {
	d := New(Options{Agent: "a", Life: 1, Owner: func(uint64) string { return "a" },
		Linked: func(uint64) bool { return false }, Revision: func() int64 { return 1 },
		Allowed: func(n *exchange.KeyName) (uint64, grant.Params, bool) { // all names have one hash
			return 1, grant.Params{Rate: float64(len(n.Client)), Burst: grant.Token}, true
		}})
	for i, client := range []string{"1", "22"} {
		q := asks(1, 1)
		q.List[0].Client = client
		d.Ask(settled, uint64(i), q)
	}
	if k := d.owned[1]; k.name.Client != "1" || k.params.Rate != 1 || d.Stats().Dropped[owners.Unknown] != 1 {
		t.Errorf("%+v, %+v", k.name, d.Stats())
	}
}

// An agent that begins after the gateways have met an owner of the same key does not know whose key it is. It is sent
// the name before it grants anything.
func TestAnOwnerIsToldWhoseKeyItIs(t *testing.T) {
	f := newFleet(t, "a", "b")
	a := f.desks["a"]
	q := asks(1, 1)
	q.List[0].Owner, q.List[0].KeyName = 99, exchange.KeyName{}
	a.Ask(settled, 7, q)
	f.carry(settled)
	got := f.got["a"][7].Grants
	if len(got) != 1 || got[0].Seq != 0 || got[0].Granted != 0 {
		t.Fatalf("told %+v, want the name of the owner alone", got)
	}
	q.List[0].Owner, q.List[0].Session, q.List[0].Register, q.List[0].KeyName = got[0].Owner, 2, true, nameOf(1)
	a.Ask(settled, 7, q)
	f.carry(settled)
	if got = f.got["a"][7].Grants; len(got) != 2 || got[1].Owner != got[0].Owner || got[1].Granted == 0 &&
		!got[1].Exclusive {
		t.Errorf("then %+v", got)
	}
}

// A key that gets its name later takes a place of its limit then, if there is one.
func TestALaterNameNeedsRoom(t *testing.T) {
	f := newFleet(t, "a", "b")
	a, limit := f.desks["a"], budget.Of("t", "l")
	q := asks(1, 1)
	q.List[0].Owner, q.List[0].KeyName = 99, exchange.KeyName{}
	a.Ask(settled, 7, q)
	f.carry(settled)
	for a.room.Fits(limit) {
		a.room.Take(limit)
	}
	keys, told := a.room.Keys(), len(f.got["a"][7].Grants)
	q = asks(1, 2)
	q.List[0].Session = 2
	a.Ask(settled, 7, q)
	f.carry(settled)
	if got := f.got["a"][7].Grants[told:]; len(got) != 1 || !got[0].NoRoom || a.owned[1] != nil || a.room.Keys() != keys-1 {
		t.Errorf("answered %+v with %d keys, had %d", got, a.room.Keys(), keys)
	}
}

// An agent asks for so many processes at most. An unreachable process makes room; processes of other agents are not
// concerned.
func TestProcessesAreBounded(t *testing.T) {
	f := newFleet(t, "a", "b")
	a := f.desks["a"]
	ask := func(process uint64) {
		m := toRequest(process, &asks(1, 1).List[0])
		a.Receive(settled, "b", &gossipv1.Tokens{Requests: []*gossipv1.TokenRequest{m}})
	}
	for p := range uint64(owners.MaxProcesses + 10) {
		ask(p)
	}
	if s := a.Stats(); s.Dropped[owners.Processes] != 10 || len(a.clients) != owners.MaxProcesses {
		t.Errorf("%+v, %d processes", s, len(a.clients))
	}
	a.Ask(settled, 1, asks(1, 1))
	if len(a.clients) != owners.MaxProcesses+1 {
		t.Error("a process of another agent is refused")
	}
	a.processes["b"][3] -= 2 * silentProcess
	if ask(1 << 40); a.Stats().Dropped[owners.Processes] != 10 || len(a.processes["b"]) != owners.MaxProcesses {
		t.Errorf("one that is silent makes no room: %+v", a.Stats())
	}
	if a.Receive(settled, "b", &gossipv1.Tokens{Lost: []uint64{1, 2}}); len(a.processes["b"]) != owners.MaxProcesses-2 {
		t.Errorf("%d processes after two have gone", len(a.processes["b"]))
	}
	for range 2 { // gone, back with other processes and gone again, before its tokens count as spent
		a.Changed(settled, nil, failed)
		a.Changed(settled, []Agent{{Name: "b", Life: 1}}, failed)
		for p := range uint64(owners.MaxProcesses) {
			ask(1<<20 + p)
		}
	}
	if len(a.clients) > 1+owners.MaxProcesses {
		t.Errorf("%d processes of an agent that comes and goes", len(a.clients)-1)
	}
	a.Changed(settled, nil, failed)
	if a.Tick(settled + DeadAfter); len(a.processes) != 1 || len(a.clients) != 1 {
		t.Errorf("processes of an agent that is gone are kept: %d", len(a.processes["b"]))
	}
}

// What a gateway asks that its key's owner would drop, or that does not fit into a packet with others' requests, is
// dropped at its own agent, which names it.
func TestAGatewaysUnusableRequestsGoNowhere(t *testing.T) {
	d := New(Options{Agent: "a", Life: 1, Owner: func(uint64) string { return "b" },
		Linked: func(uint64) bool { return true }, Revision: func() int64 { return 1 }})
	good := exchange.TokenRequest{Key: 1, KeyName: exchange.KeyName{Tenant: "acme", Limit: "each", Client: "\xff"},
		Request: grant.Request{Session: 1, Need: grant.Token, Level: -1}}
	bad := make([]exchange.TokenRequest, 5)
	for i := range bad {
		bad[i] = good
	}
	bad[0].Tenant, bad[1].Limit = "a\xff", "\xfe"
	bad[2].Client = string(make([]byte, exchange.MaxKeyName))
	bad[3].Need, bad[4].Refills[1].Age = most+1, -1
	d.Ask(settled, 7, &exchange.TokenRequests{List: append(bad, good)})
	_, packets := d.Take()
	sent := 0
	for _, m := range packets["b"] {
		if _, err := proto.Marshal(m); err != nil {
			t.Error(err)
		}
		sent += len(m.GetRequests())
	}
	if of := d.Complaints(settled); sent != 1 || d.Stats().Dropped[owners.Unusable] != 5 || len(of) != 1 || of[0].Number != 7 {
		t.Errorf("%d requests are sent, dropped %v, complaints %+v", sent, d.Stats().Dropped, of)
	}
}
