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
