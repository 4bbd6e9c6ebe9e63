package grant

import "testing"

// A gateway that learns what unreachable others have spent has the owner count that.
func TestLearn(t *testing.T) {
	p := Params{Rate: 1, Burst: 40 * Token}
	o, g, w := NewOwner(p, 1, 0), NewGateway(p, 1<<20), &wire{}
	other := NewGateway(p, 1<<20)
	exchange := func(g *Gateway, of Peer) {
		o.Request(0, of, poll(t, g, 0), w)
		if len(w.recalls) > 0 { // the other one has the bucket itself
			other.Recall(0, w.recall(t))
			o.Request(0, 2, poll(t, other, 0), w)
		}
		g.Grant(0, w.grant(t, g))
	}
	other.Take(0, Token)
	exchange(other, 2)
	other.Retry(0, 0, Token)
	g.Take(0, Token)
	exchange(g, 1)
	g.Retry(0, 0, Token)
	want(t, "D before", o.b.spent, int64(2*Token))
	g.Learn(0, 30*Token)
	exchange(g, 1)
	want(t, "D", o.b.spent, int64(30*Token))
	if g.Learn(0, 20*Token); g.Registers() {
		t.Error("the owner is told again what it knows")
	}
}

// A gateway that has the bucket itself counts what it learns there.
func TestLearnWithTheBucket(t *testing.T) {
	p := Params{Rate: 1, Burst: 40 * Token}
	g := NewGateway(p, 1<<20)
	g.exclusive = true
	g.Learn(0, 30*Token)
	want(t, "D", g.alone.spent, int64(30*Token))
	g.Learn(0, 20*Token)
	want(t, "D after it learns of less", g.alone.spent, int64(30*Token))
}
