package slots

import "testing"

type replies struct{ sent []Reply }

func (o *replies) Reply(_ Peer, m Reply) { o.sent = append(o.sent, m) }

// A gateway says once that it has forgotten a key. Where that is lost, its owner forgets the gateway after a while.
func TestAGatewayAtRestIsForgotten(t *testing.T) {
	var out replies
	o := NewOwner(5, 9, 0)
	ask := Ask{Session: 1, Number: 1, Register: true, Want: 1, Patience: MaxWait}
	o.Ask(second, 1, ask, &out)
	ask = Ask{Owner: 9, Session: 1, Number: 2, Heard: 1, Received: 1, Confirm: true}
	o.Ask(2*second, 1, ask, &out)
	o.Tick(10*second, &out)
	if o.Idle() {
		t.Fatal("a gateway with a slot is forgotten")
	}
	ask.Number, ask.Returned = 3, 1
	o.Ask(11*second, 1, ask, &out)
	for o.Due() != 0 && o.Due() <= 11*second+ExpireAfter {
		o.Tick(o.Due(), &out)
	}
	if !o.Idle() {
		t.Error("a gateway without a slot is kept for ever")
	}
}

// A lease that has run out does not end another one to which keys of both come.
func TestInheritALapsedLease(t *testing.T) {
	live, lapsed, l := Lease{until: 5}, Lease{}, Lease{}
	l.Inherit(&live)
	l.Inherit(&lapsed)
	if !l.Live(4) || !l.Lapsed(5) {
		t.Error("the lease has run out already, and without a notice: idle slots would be kept")
	}
}

// Before the numbers of messages run out a gateway begins another session, with what it has.
func TestNumbersBeginAnew(t *testing.T) {
	g := NewGateway(1, &Lease{until: second}, 1<<20)
	g.Take(1)
	g.Poll(1)
	g.Reply(1, Reply{Owner: 9, Session: 1 << 20, Number: 1, Seen: 1, Granted: 1})
	g.Retry(1)
	g.number = lastNumber
	g.Take(1)
	a, ok := g.Poll(2)
	if !ok || a.Session != 1<<20+1 || a.Number != 1 || !a.Register || a.Brought != 1 || a.Want != 1 {
		t.Errorf("%+v, %v", a, ok)
	}
}

// The work of one message does not grow with the limit.
func TestGrantsComeInBlocks(t *testing.T) {
	var out replies
	o := NewOwner(1<<40, 9, second)
	for p := range Peer(2) {
		o.Ask(1, p, Ask{Session: 1, Number: 1, Register: true, Want: 1 << 40, Patience: second, Rate: 1000}, &out)
	}
	steps := 0
	for o.grant(second / 2) {
		steps++
	}
	if a, b := o.users[0].granted, o.users[1].granted; steps > 5000 || a+b != 1<<40 || max(a, b)-min(a, b) > 1<<34 {
		t.Errorf("%d steps; %d and %d are granted", steps, a, b)
	}
}
