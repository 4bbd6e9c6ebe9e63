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
	g.Receive(second, Reply{Owner: 1, Session: g.session, Number: 1, Period: 5, Granted: 10 * Unit, Amount: 100 * Unit}, next)
	if got := g.Take(second, 3*Unit); got != Admitted {
		t.Fatal(got)
	}
	g.Move(second, 2, next())
	g.Undo(second, 5, 3*Unit)
	if m, ok := g.Poll(second, next); !ok || m.Admitted != 0 || m.Settled != -3*Unit || m.Has != 10*Unit {
		t.Errorf("%+v", m)
	}
}
