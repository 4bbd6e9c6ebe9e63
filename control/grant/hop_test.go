package grant

import (
	"math/rand/v2"
	"testing"
)

// A client below its limit that hops from gateway to gateway in full bursts is refused nothing, though messages
// are late, some later than a request waits. What its caller has admitted without tokens until then is charged
// once. The owner had granted tokens for these requests, which came too late: it has them back before the
// next burst.
func TestHoppingClientIsRefusedNothing(t *testing.T) {
	late := func(r *rand.Rand) int64 {
		d := 100_000 + r.Int64N(millisecond)
		if r.IntN(5) == 0 {
			d += r.Int64N(60 * millisecond)
		}
		return d
	}
	for _, l := range []struct {
		rate   float64
		burst  int
		period int64
	}{{10, 10, second * 10 / 9}, {100, 100, second * 10 / 9}, {5, 20, 4 * second * 10 / 9}} {
		alone := 0
		for seed := range uint64(60) {
			w := newWorld(Params{Rate: l.rate, Burst: int64(l.burst) * Token, Hold: 50 * millisecond}, 2+int(seed%4), 1, seed)
			w.delay, w.lenient = late, true
			w.bursts(l.burst, l.period, 20*l.period)
			w.run(25 * l.period)
			if w.wrongful > 0 {
				t.Errorf("%v/s in bursts of %d, %d gateways, seed %d: %d of %d refused", l.rate, l.burst, len(w.gates),
					seed, w.wrongful, w.offered)
			}
			alone += w.alone
		}
		if alone == 0 {
			t.Errorf("%v/s in bursts of %d: no answer was too late", l.rate, l.burst)
		}
	}
}

// What went back is turned-away refill as far as it was refilled in the meantime. It refills a spend of that
// time that is reported only now.
func TestGiveBackOfWhatWasRefilled(t *testing.T) {
	p := Params{Rate: 10, Burst: 10 * Token}.withDefaults()
	var b bucket
	b.charge(p.Burst, 4*Token)
	b.advance(p, second/2) // full since 0.4 s
	b.giveBack(p, 4*Token)
	b.charge(p.Burst, 4*Token) // spent at 0
	b.late(p, 0, 4*Token)
	if b.spent != 0 || b.spans != 1 || b.missed[0].to-b.missed[0].from > second/10 {
		t.Errorf("%d is spent, %v was turned away; want 0, and 0.1 s", b.spent, b.missed[:b.spans])
	}
}

// Requests that were admitted without tokens before the bucket itself comes to their gateway are charged as of
// when they were admitted. Until the bucket was granted it was full and has turned refill away.
func TestBucketComesAfterRequestsWentOn(t *testing.T) {
	p := Params{Rate: 10, Burst: 10 * Token, Hold: 50 * millisecond}
	g := NewGateway(p, 1<<20)
	for range 10 {
		g.Take(0, Token)
	}
	q, _ := g.Ask(0)
	for range 10 {
		if g.Expire(50*millisecond, Token) == Unanswered {
			g.Owe(50*millisecond, Token)
		}
	}
	g.Grant(150*millisecond, Grant{Owner: 7, Session: q.Session, Seq: q.Seq, Seen: q.Number, Exclusive: true, Full: second})
	if got := g.Level(150 * millisecond); got < Token-rounding || got > Token+rounding {
		t.Errorf("%d is left 100 ms after a burst, want a token", got)
	}
}

// The debt since a question was asked is not reported with its repeats: its answer may have tokens for the same
// requests. It is reported at once when the answer has come, with the tokens that go back; and without an answer
// when the owner counts as unreachable.
func TestOwedIsToldAfterTheAnswer(t *testing.T) {
	for _, answered := range []bool{true, false} {
		g := NewGateway(Params{Rate: 10, Burst: 10 * Token, Hold: 50 * millisecond}, 1<<20)
		g.Take(0, Token)
		q, _ := g.Ask(0)
		if g.Expire(50*millisecond, Token) == Unanswered {
			g.Owe(50*millisecond, Token)
		}
		if again, _ := g.Ask(60 * millisecond); again.Extra != 0 || again.Need != 0 {
			t.Fatalf("repeat: %+v", again)
		}
		if answered {
			g.Grant(70*millisecond, Grant{Owner: 7, Session: q.Session, Seq: q.Seq, Seen: q.Number, Granted: Token, Admit: Token})
			g.Poll(70 * millisecond)
		}
		q, ok := g.Ask(160 * millisecond)
		if !ok || q.Extra != Token || answered != (q.Returned == Token) {
			t.Errorf("answered: %v: told %v: %+v", answered, ok, q)
		}
		if !answered {
			continue
		}
		g.Grant(161*millisecond, Grant{Owner: 7, Session: q.Session, Seq: q.Seq, Seen: q.Number, Granted: Token})
		if is, _ := g.Wants(161 * millisecond); is {
			t.Error("it is told again though the owner has heard it")
		}
	}
}
