package grant

import "testing"

// A limit is lowered from 1000/s to 1/s while three gateways use it as fast as they can. Whatever each has
// of the bucket then, and whenever it learns of the change, a client passes after 1/rate, and no more
// passes than the smaller bucket allows.
func TestLimitLowered(t *testing.T) {
	before, after := Params{Rate: 1000, Burst: 1000 * Token}, Params{Rate: 1, Burst: 10 * Token}
	for seed := range uint64(20) {
		w := newWorld(before, 3, millisecond, seed)
		for at := int64(0); at < 3*second; at += 500_000 {
			w.at(at, func() { w.request(w.rng.IntN(3), Token) })
		}
		const changed = int64(3 * second)
		w.at(changed, func() { w.owner.Configure(after, w.now) })
		for _, g := range w.gates {
			w.at(changed+w.rng.Int64N(second), func() { g.g.Configure(after, w.now) })
		}
		w.run(changed + second)
		was := len(w.admitted)
		for at := changed + int64(second); at < changed+31*second; at += 100 * millisecond {
			w.at(at, func() { w.request(w.rng.IntN(3), Token) })
		}
		w.run(changed + 32*second)
		if left := len(w.admitted) - was; left < 27 || left > 30+12 {
			t.Errorf("seed %d: %d admitted in 30 s at 1/s", seed, left)
		}
	}
}

// What is configured again as it was changes nothing: neither what is owed, nor when to ask again.
func TestConfiguredAsItWas(t *testing.T) {
	p := Params{Rate: 1, Burst: 10 * Token}
	o := NewOwner(p, 1, 0)
	o.b.charge(o.p.Burst, 20*Token)
	g := NewGateway(p, 1<<20)
	g.Know(0, 20*Token)
	g.until = 11 * second
	strict := p
	strict.Strict = true
	o.Configure(strict, 0)
	g.Configure(strict, 0)
	if o.b.spent != 20*Token || g.Level(0) != -10*Token || g.Until() != 11*second {
		t.Errorf("owner: %d is spent; gateway: %d is left, it asks again at %d", o.b.spent, g.Level(0), g.Until())
	}
	if !o.p.Strict || !g.p.Strict {
		t.Error("STRICT is not in force")
	}
}
