package grant

import "testing"

// Threads read the clock before they get the key's lock. Messages may overtake a request that has read it: the question
// was asked, the bucket was given or went back, the owner changed. Only an owner's no refuses that request.
func TestRequestOvertakenByMessages(t *testing.T) {
	p := Params{Rate: 10, Burst: 10 * Token, Hold: 50 * millisecond}
	const came, now = 10 * millisecond, 11 * millisecond
	for name, happens := range map[string]func(g *Gateway, q Request){
		"the answer": func(g *Gateway, q Request) {
			g.Grant(now, Grant{Owner: 7, Session: q.Session, Seq: q.Seq, Seen: q.Number, Granted: Token, Admit: Token})
		},
		"the bucket came and went": func(g *Gateway, q Request) {
			g.Grant(now, Grant{Owner: 7, Session: q.Session, Seq: q.Seq, Seen: q.Number, Exclusive: true, Full: second})
			g.Recall(now, Recall{Owner: 7, Session: q.Session, Number: 1, Seq: q.Seq})
		},
		"another owner": func(g *Gateway, _ Request) { g.NewOwner(now) },
		"another limit": func(g *Gateway, _ Request) { g.Configure(Params{Rate: 20, Burst: 20 * Token}, now) },
	} {
		g := NewGateway(p, 1<<20)
		g.Take(came, Token)
		q, _ := g.Ask(now)
		happens(g, q)
		if g.Retry(now, came, Token) == Refused {
			t.Errorf("%s: the request that waits is refused", name)
		}
		g.Poll(now)
		if got := g.Take(came, Token); got == Refused {
			t.Errorf("%s: a request that came before is refused", name)
		}
	}
}

// A gateway goes on alone for two seconds below the limit. Its report of that is lost, and the next one is sent while
// it hides what it has admitted since. The owner gets the refill of those two seconds with either report.
func TestLateReportWithHiddenUseIsRefilled(t *testing.T) {
	p := Params{Rate: 60, Burst: 60 * Token, Hold: 50 * millisecond}
	for _, lost := range []bool{false, true} {
		var sent recorded
		o := NewOwner(p, 7, 0)
		other, g := NewGateway(p, 1<<21), NewGateway(p, 1<<20)
		other.Take(0, Token)
		q, _ := other.Ask(0)
		o.Request(0, 2, q, &sent)
		g.Take(0, Token)
		q, _ = g.Ask(0)
		o.Request(0, 1, q, &sent)
		other.Grant(0, sent.grants[0])
		other.Recall(0, sent.recalls[0])
		q, _ = other.Poll(0)
		o.Request(0, 2, q, &sent)
		g.Grant(0, sent.grants[len(sent.grants)-1])
		g.Retry(0, 0, Token)
		g.Poll(0)
		now := int64(second)
		for ; now < 3*second; now += second / 30 {
			if got := g.Take(now, Token); got == Waits {
				g.Expire(now+50*millisecond, Token)
			}
			g.Owe(now+50*millisecond, Token)
			if again, _ := g.Ask(now + 51*millisecond); again.Seq != q.Seq {
				q = again
			}
		}
		g.Grant(now, Grant{Owner: 7, Session: q.Session, Seq: q.Seq, Seen: q.Number}) // of before: it was on its way
		g.Poll(now)
		q, _ = g.Ask(now)
		if !lost {
			o.Request(now, 1, q, &sent)
		}
		if g.Take(now, Token) != Waits || g.Expire(now+50*millisecond, Token) != Unanswered {
			t.Fatal("the gateway does not wait for its owner")
		}
		g.Owe(now+50*millisecond, Token)
		now += 60 * millisecond
		if q, _ = g.Ask(now); q.Extra >= g.owed.extra {
			t.Fatal("nothing is hidden")
		}
		o.Request(now, 1, q, &sent)
		if d := o.Level(now); d > 5*Token {
			t.Errorf("report lost: %v: %d tokens are spent after two seconds at half the rate", lost, d/Token)
		}
	}
}

// recorded has what an owner sends.
type recorded struct {
	grants  []Grant
	recalls []Recall
}

func (r *recorded) Grant(_ Peer, g Grant)   { r.grants = append(r.grants, g) }
func (r *recorded) Recall(_ Peer, c Recall) { r.recalls = append(r.recalls, c) }

// CallPart keeps nothing: no gateway of these tests has parts.
func (*recorded) CallPart(Peer) {}
