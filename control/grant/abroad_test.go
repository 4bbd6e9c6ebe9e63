package grant

import "testing"

type quietBox struct {
	grants  []Grant
	recalls int
	calls   int
}

func (q *quietBox) Grant(_ Peer, g Grant) { q.grants = append(q.grants, g) }
func (q *quietBox) Recall(Peer, Recall)   { q.recalls++ }
func (q *quietBox) CallPart(Peer)         { q.calls++ }
func (q *quietBox) last() (g Grant)       { return q.grants[len(q.grants)-1] }
func ownerOf(rate float64, b int64) *Owner {
	return NewOwner(Params{Rate: rate, Burst: b * Token}, 1, 1)
}
func ask(n uint32, need int64) Request {
	return Request{Session: 1, Owner: 1, Number: n, Seq: n, Need: need * Token, Least: Token}
}

// While other sites use a key no gateway gets the bucket, and what the others admit is charged.
func TestChargeOfOtherSites(t *testing.T) {
	o, out := ownerOf(1, 10), &quietBox{}
	o.SetAbroad(1, true, out)
	q := ask(1, 1)
	q.Owner, q.Register, q.Level = 0, true, -1
	o.Request(second, 7, q, out)
	if g := out.last(); g.Exclusive || g.Admit != Token {
		t.Fatalf("granted %+v, want one token and not the bucket", g)
	}
	before := o.Admitted(second)
	o.Charge(second, second, 9*Token, 20*Token, out)
	if got := o.Admitted(second); got != before {
		t.Errorf("the charge counts as admitted here: %d", got-before)
	}
	q = ask(2, 1)
	q.Granted, q.Spent = Token, Token
	o.Request(second, 7, q, out)
	if g := out.last(); g.Admit != 0 || g.Wait == 0 {
		t.Errorf("granted %+v of an empty bucket", g)
	}
	if got := o.Admitted(second); got != before {
		t.Errorf("admitted %d more, want none", got-before)
	}
	o.Charge(second, second, 100*Token, 20*Token, out)
	if got := o.Level(second); got != 20*Token {
		t.Errorf("D is %d, want the deepest, 20 tokens", got/Token)
	}
	o.Charge(second, second, -15*Token, 20*Token, out)
	o.SetAbroad(second, false, out)
	if got := o.Level(second); got != 5*Token {
		t.Errorf("D is %d after 15 tokens were taken back, want 5", got/Token)
	}
}

// A bucket that a gateway has is recalled when another site uses the key, and charged when it is back.
func TestChargeWaitsForTheBucket(t *testing.T) {
	o, out := ownerOf(1, 10), &quietBox{}
	q := ask(1, 1)
	q.Owner, q.Register, q.Level = 0, true, -1
	o.Request(10*second, 7, q, out)
	if !out.last().Exclusive {
		t.Fatal("the only gateway has not got the bucket")
	}
	o.SetAbroad(10*second, true, out)
	if out.recalls != 1 {
		t.Fatalf("%d recalls, want 1", out.recalls)
	}
	o.Charge(10*second, 10*second, 3*Token, 20*Token, out)
	q = Request{Session: 1, Owner: 1, Number: 2, Seq: 1, Recalled: 1, Exclusive: true, Level: 4 * Token,
		Granted: Token, Spent: Token}
	o.Request(10*second, 7, q, out)
	if got := o.Level(10 * second); got != 7*Token {
		t.Errorf("D is %d, want 4 that the gateway spent and 3 that other sites did", got/Token)
	}
}
