package grant

import "testing"

// Cost that is owed before the owner knows the gateway is charged once: what the gateway knows of the bucket when it
// registers does not have what it owes beside.
func TestOwedBeforeRegistering(t *testing.T) {
	p := Params{Rate: 1, Burst: 40 * Token}
	o, g, w := NewOwner(p, 1, 0), NewGateway(p, 1<<20), &wire{}
	g.Know(0, 3*Token)
	g.Owe(0, 5*Token)
	o.Request(0, 1, poll(t, g, 0), w) // the owner of this life asks for a session
	g.Owe(0, 7*Token)                 // while the question is open
	g.Grant(0, w.grant(t, g))
	g.Owe(0, 4*Token)
	for range 3 {
		if is, _ := g.Wants(0); !is {
			break
		}
		o.Request(0, 1, poll(t, g, 0), w)
		g.Grant(0, w.grant(t, g))
	}
	want(t, "D", o.b.spent, int64(19*Token))
	want(t, "D at the gateway", g.known(0), int64(19*Token))
}
