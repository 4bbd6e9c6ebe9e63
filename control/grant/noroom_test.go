package grant

import "testing"

// An owner that has no room says so: what waits is left to the caller at once, and the owner is not asked
// again for a while. Then it is asked again, and receives what was admitted without it.
func TestNoRoom(t *testing.T) {
	p := Params{Rate: 0.001, Burst: 5 * Token}
	g, now := NewGateway(p, 1<<20), int64(second)
	if out := g.Take(now, Token); out != Waits {
		t.Fatalf("a new key: %v", out)
	}
	q := poll(t, g, now)
	g.Grant(now, Grant{Session: q.Session, Seq: q.Seq + 1, NoRoom: true})
	if out := g.Retry(now, now, Token); out != Waits {
		t.Errorf("no room, in answer to another question: %v", out)
	}
	g.Grant(now, Grant{Session: q.Session, Seq: q.Seq, NoRoom: true})
	if out := g.Retry(now, now, Token); out != Unowned {
		t.Errorf("what waits: %v", out)
	}
	g.Owe(now, Token)
	for range 50 {
		now += declined/50 - 1
		if out := g.Take(now, Token); out != Unowned {
			t.Fatalf("a request later: %v", out)
		}
		silentPoll(t, g, now)
	}
	if !g.Idle(now) {
		t.Error("it cannot be forgotten though nobody knows it")
	}
	if now += millisecond; g.Take(now, Token) != Waits {
		t.Error("it does not ask again")
	}
	o := NewOwner(p, 7, now)
	q = poll(t, g, now)
	box := &lastGrant{}
	o.Request(now, 1, q, box)
	if g.Grant(now, box.g); g.Retry(now, now, Token) != Admitted || g.Level(now)/Token != 3 {
		t.Errorf("an owner with room: %d left, want 3 of 5", g.Level(now)/Token)
	}
}

// A gateway gives up its bucket where the next owner has no room for it: later that owner
// would grant another one. When the owner has room it receives what was spent.
func TestNoRoomForABucket(t *testing.T) {
	p := Params{Rate: 0.001, Burst: 5 * Token}
	g, o, box, now := NewGateway(p, 1<<20), NewOwner(p, 7, 0), &lastGrant{}, int64(second)
	g.Take(now, Token)
	q := poll(t, g, now)
	o.Request(now, 1, q, box)
	g.Grant(now, box.g)
	g.Retry(now, now, Token)
	g.NewOwner(now)
	q = poll(t, g, now)
	if !q.Exclusive {
		t.Fatalf("it registers %+v", q)
	}
	g.Grant(now, Grant{Session: q.Session, Seq: q.Seq, NoRoom: true})
	if out := g.Take(now, Token); out != Unowned {
		t.Errorf("a request while the owner has no room: %v", out)
	}
	g.Owe(now, Token)
	silentPoll(t, g, now)
	if g.Idle(now) || !g.Idle(now+1000*second) {
		t.Error("it must be kept until it is whole, and no longer")
	}
	now += declined
	g.Take(now, Token)
	next := NewOwner(p, 8, now)
	next.Request(now, 1, poll(t, g, now), box)
	if g.Grant(now, box.g); g.Retry(now, now, Token) != Admitted || g.Level(now)/Token != 2 {
		t.Errorf("an owner with room: %d left, want 2 of 5", g.Level(now)/Token)
	}
}

// A gateway that has the bucket itself has not got too little: later it takes its turn as others do.
func TestBucketIsAFairPart(t *testing.T) {
	o, box, now := NewOwner(Params{Rate: 1, Burst: 5 * Token}, 7, 0), &lastGrant{}, int64(second)
	o.Request(now, 1, Request{Session: 1, Number: 1, Seq: 1, Need: Token, Least: Token, Level: -1}, box)
	if !box.g.Exclusive {
		t.Fatalf("granted %+v", box.g)
	}
	now += 3600 * second
	o.Request(now, 2, Request{Session: 1, Number: 1, Seq: 1, Need: Token, Least: Token, Level: -1}, box)
	o.users[1].claimed = Token // and says that it has used more
	if u := &o.users[0]; o.starves(now, u) || u.visits.fair != 0 {
		t.Errorf("after an hour with the bucket it starves since %d s", u.visits.fair/second)
	}
}

type lastGrant struct{ g Grant }

func (l *lastGrant) Grant(_ Peer, g Grant) { l.g = g }
func (*lastGrant) Recall(Peer, Recall)     {}
func (l *lastGrant) CallPart(Peer)         {}
