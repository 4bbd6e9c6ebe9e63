package calendar

import "testing"

// post keeps what an owner sends.
type post struct {
	replies []Reply
	wants   []Want
}

func (p *post) Reply(_ Peer, m Reply) { p.replies = append(p.replies, m) }
func (p *post) Book(w Want)           { p.wants = append(p.wants, w) }

// reply returns the latest Reply, and want the latest Want.
func (p *post) reply() Reply { return p.replies[len(p.replies)-1] }
func (p *post) want() Want   { return p.wants[len(p.wants)-1] }

// booked answers the latest Want with an interval.
func (p *post) booked(now int64, o *Owner, from, to Units, why Reason) {
	w := p.want()
	o.Booked(now, Booked{Session: w.Session, Number: w.Number, Period: w.Period, From: from, To: to, Reason: why}, p)
}

func sessions() func() uint64 {
	n := uint64(100)
	return func() uint64 { n++; return n }
}

// A request that does not start after the key has another owner leaves no count below 0.
func TestUndoAfterMove(t *testing.T) {
	next := sessions()
	g := NewGateway(second, 1, next())
	g.Receive(second, Reply{Owner: 1, Session: g.session, Number: 1, Period: 5, Granted: 10 * Unit,
		Amount: 100 * Unit}, next)
	if got := g.Take(second, 3*Unit); got != Admitted {
		t.Fatal(got)
	}
	g.Move(second, 2, next())
	g.Undo(second, 5, 3*Unit)
	if m, ok := g.Poll(second, next); !ok || m.Admitted != 0 || m.Settled != -3*Unit || m.Has != 10*Unit {
		t.Errorf("%+v", m)
	}
}

// meet carries messages between a gateway and an owner.
func meet(now int64, g *Gateway, o *Owner, p *post, next func() uint64) {
	for range 10 {
		if m, ok := g.Poll(now, next); ok {
			o.Ask(now, 1, m, p)
		}
		replies := p.replies
		for p.replies = nil; len(replies) > 0; replies = replies[1:] {
			g.Receive(now, replies[0], next)
		}
	}
}

// used returns a gateway that has units of period 5 and has spent 80, with their owner.
func used(next func() uint64) (*Gateway, *Owner) {
	g, p := NewGateway(second, 1, next()), &post{}
	o := NewOwner(Terms{Amount: 100 * Unit}, next(), next())
	o.SetPeriod(second, 5, 0, next(), p)
	g.Take(second, 85*Unit)
	meet(second, g, o, p, next)
	p.booked(second, o, 0, 100*Unit, Whole)
	meet(second, g, o, p, next)
	if g.Retry(second, 80*Unit) != Admitted {
		panic("nothing granted")
	}
	g.Leave(second, 5*Unit, false)
	return g, o
}

// An owner that begins in another period takes nothing from what its gateways know of the period before. An owner
// that begins in the same period takes all of it.
func TestOwnerAfterTheOther(t *testing.T) {
	for period := range int64(2) {
		next := sessions()
		g, _ := used(next)
		known, has := (1-period)*int64(g.known.end), (1-period)*int64(g.has)
		period += 5
		o, p := NewOwner(Terms{Amount: 100 * Unit}, next(), next()), &post{}
		meet(second, g, o, p, next) // it does not know the period yet
		o.SetPeriod(second, period, 0, next(), p)
		g.Take(second, 10*Unit)
		meet(2*second, g, o, p, next)
		if len(p.wants) == 0 || int64(p.want().Known) != known || int64(g.has) != has || g.period != period {
			t.Errorf("period %d: asked %+v, has %v", period, p.wants, g.has)
		}
	}
}

// An owner that is one period behind does not make a gateway go back.
func TestOwnerIsBehind(t *testing.T) {
	next := sessions()
	g, _ := used(next)
	o, p := NewOwner(Terms{Amount: 100 * Unit}, next(), next()), &post{}
	o.SetPeriod(second, 4, 0, next(), p)
	g.Take(second, 10*Unit)
	if meet(second, g, o, p, next); g.period != 5 {
		t.Fatalf("period %d", g.period)
	}
	o.SetPeriod(second, 5, 0, next(), p)
	if meet(3*second, g, o, p, next); g.period != 5 || len(p.wants) == 0 {
		t.Errorf("period %d, asked %+v", g.period, p.wants)
	}
}

// ownerOf returns an owner of 100 units in period 5, with a first question to the coordinators.
func ownerOf(next func() uint64, open bool) (*Owner, *post) {
	o, p := NewOwner(Terms{Amount: 100 * Unit, Open: open}, next(), next()), &post{}
	o.SetPeriod(second, 5, 0, next(), p)
	o.Ask(second, 1, Ask{Session: 1, Number: 1, Want: 10 * Unit}, p)
	return o, p
}

// What a gateway has spent before it forgot a key does not come back.
func TestUnknownReturnsNothingSpent(t *testing.T) {
	o, p := ownerOf(sessions(), false)
	p.booked(second, o, 0, 30*Unit, Whole)
	o.Ask(second, 1, Ask{Owner: o.life, Session: 1, Number: 2, Heard: p.reply().Number, Period: 5, Received: 10 * Unit,
		Want: 5 * Unit, Use: Use{Admitted: 10 * Unit, Settled: 10 * Unit}}, p)
	late := p.reply()
	m, ok := Unknown(late)
	if o.Ask(second, 1, m, p); !ok || late.Granted != 15*Unit || o.Out() != 10*Unit {
		t.Errorf("%v out after %+v, want the ten that were spent", o.Out(), m)
	}
}

// A coordinator that has another amount for a moment does not end the period.
func TestUsedUpIsNotKnown(t *testing.T) {
	o, p := ownerOf(sessions(), true)
	p.booked(second, o, 0, 0, UsedUp)
	if r := p.reply(); r.Remaining != 0 || r.Refuse == 0 {
		t.Errorf("%+v", r)
	}
	now := int64(second + usedUpFor)
	o.Ask(now, 1, Ask{Owner: o.life, Session: 1, Number: 2, Heard: 1, Period: 5, Want: 10 * Unit}, p)
	if w := p.want(); w.Known != 0 || w.Number != 2 {
		t.Errorf("%+v", w)
	}
	if o.Tick(now+SlowAfter, p); o.Out() != 0 {
		t.Errorf("%v granted by the owner's own count", o.Out())
	}
	p.booked(now, o, 0, 30*Unit, Whole)
	if r := p.reply(); r.Refuse != 0 || r.Remaining != 100*Unit {
		t.Errorf("%+v", r)
	}
}

// What an owner gives back when it leaves, it does not say to be used.
func TestLeaveLowersTheEnd(t *testing.T) {
	o, p := ownerOf(sessions(), false)
	p.booked(second, o, 20*Unit, 50*Unit, Whole)
	if o.Leave(p); p.want().Returned != 30*Unit {
		t.Fatalf("%+v", p.want())
	}
	if o.Close(p); !p.want().Final || p.want().Known != 30*Unit {
		t.Errorf("%+v", p.want())
	}
}

// An OPEN owner that does not know what was used does not grant the amount again because one booking takes 20 ms. It
// says at its end what it has granted beyond its intervals.
func TestFirstBookingIsSlow(t *testing.T) {
	o, p := ownerOf(sessions(), true)
	if o.Tick(second+SlowAfter, p); o.Out() != 0 {
		t.Errorf("%v granted after 20 ms", o.Out())
	}
	p.booked(second+30*millisecond, o, 80*Unit, 95*Unit, Whole)
	if o.Out() != 10*Unit {
		t.Errorf("%v granted after the answer", o.Out())
	}
	o, p = ownerOf(sessions(), true)
	p.booked(second, o, 0, 0, StoreAway)
	if o.Close(p); o.Out() != 0 || p.want().Known != 10*Unit {
		t.Errorf("%+v", p.want())
	}
}

// Counts stop at the bound of a message, which would be refused as a whole.
func TestCountsAreBounded(t *testing.T) {
	next := sessions()
	g := NewGateway(second, 1, next())
	g.Receive(second, Reply{Owner: 1, Session: g.session, Number: 1, Period: 5, Refuse: second, Amount: Unit}, next)
	for range 9 {
		if g.Take(second, MaxUnits-1) != Refused {
			t.Fatal("not refused")
		}
	}
	for range 3 {
		g.Settle(second, MaxUnits-1)
	}
	m, _ := g.Poll(second, next)
	if m.Refused != MaxUnits || m.Settled != MaxUnits || m.Ahead > MaxUnits {
		t.Errorf("%+v", m)
	}
	if m.Add(Use{Refused: MaxUnits, Settled: MaxUnits}); m.Refused != MaxUnits || m.Settled != MaxUnits {
		t.Errorf("%+v", m.Use)
	}
}

// A gateway that says nonsense makes no more remain than there is, and no end beyond the amount.
func TestNumbersOfAGatewayAreBounded(t *testing.T) {
	o, p := ownerOf(sessions(), false)
	o.Ask(second, 2, Ask{Session: 2, Number: 1, Period: 5, Has: MaxUnits, Known: MaxUnits}, p)
	if r := p.reply(); r.Remaining > 100*Unit || r.Known > 100*Unit {
		t.Errorf("%+v", r)
	}
}

// Units that a session brings and returns count once, though its messages come twice.
func TestEndedSessionCountsOnce(t *testing.T) {
	o, p := ownerOf(sessions(), false)
	p.booked(second, o, 50*Unit, 80*Unit, Whole)
	out := o.Out()
	brings := Ask{Session: 2, Number: 1, Period: 5, Brought: 8 * Unit, Returned: 8 * Unit}
	ends := brings
	ends.Number, ends.Ended = 2, true
	for _, m := range []Ask{brings, ends, brings, ends} {
		o.Ask(second, 2, m, p)
	}
	if out -= 8 * Unit; o.Out() != out {
		t.Errorf("%v out, want %v", o.Out(), out)
	}
	if !p.reply().Begin || o.Due(second) > second+keepEnded {
		t.Errorf("%+v", p.reply())
	}
	if o.Tick(second+keepEnded, p); len(o.now.users) != 1 {
		t.Errorf("%d sessions", len(o.now.users))
	}
}

// A request that costs more than the amount is refused at once, and asks for nothing.
func TestCostAboveTheAmount(t *testing.T) {
	next := sessions()
	g, o := used(next)
	out := o.Out()
	if got := g.Take(second, 101*Unit); got != Refused {
		t.Errorf("%v", got)
	}
	if meet(2*second, g, o, &post{}, next); o.Out() != out {
		t.Errorf("%v granted", o.Out()-out)
	}
}

// A gateway that has forgotten a key answers a late message once: what was on its way to it comes back.
func TestForgottenKeyIsAtRest(t *testing.T) {
	next := sessions()
	g, o := used(next)
	p := &post{}
	o.Ask(second, 1, g.message(second), p) // a Reply is on its way
	o.now.grant(o.now.find(1, g.session), 4*Unit)
	o.Ask(second, 1, g.Release(second), p)
	out := o.Out()
	messages := 0
	for ; len(p.replies) > 0 && messages < 10; messages++ {
		m := p.replies[0]
		if p.replies = p.replies[1:]; m.Session != g.session {
			continue
		}
		if a, ok := Unknown(m); ok {
			o.Ask(second, 1, a, p)
		}
	}
	if messages > 4 || o.Out() != out-4*Unit {
		t.Errorf("%d messages; %v granted, then %v", messages, out, o.Out())
	}
}
