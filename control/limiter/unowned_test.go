package limiter

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// play has a client ask each of some gateways so often a second for so many seconds, and returns what was
// admitted. It also returns the most that was admitted over rate·t + burst.
func (f *exactFleet) play(r Request, now int64, rate, burst, asks float64, seconds int, at ...int) (sum, worst float64) {
	level := 0.0
	due := make([]float64, len(at))
	for range seconds * 20 {
		n := float64(f.ended())
		for i, gateway := range at {
			for due[i] += asks / 20; due[i] >= 1; due[i]-- {
				switch out, _ := f.ask(gateway, now, r, 1); out.Verdict {
				case Admit:
					n++
				case Wait:
					f.waits++
				}
			}
		}
		f.settle(now)
		n += float64(f.ended())
		for _, m := range f.advance(now, true, 10) {
			n += float64(m)
		}
		now += 50 * ms
		sum += n
		level = max(0, level-rate/20) + n
		worst = max(worst, level-burst)
	}
	return sum, worst
}

// A gateway for whose key the owner has no room goes by its ledger, the others by tokens. They admit no
// more than gateways that all go by their ledgers, whatever they are asked for, and the mean is the rate.
func TestUnownedBesideExact(t *testing.T) {
	const rate, burst, seconds = 20.0, 30.0, 30
	for _, tc := range []struct {
		local int // gateways that go by their ledgers
		asks  float64
	}{{1, 4}, {1, 15}, {2, 40}} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			c := unstated(rate, burst)
			c.Pools[0].Queue = config.Queue{Law: config.Police}
			f := newExactFleet(t, 3, c)
			f.full = func(engine int) bool { return engine < tc.local }
			r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
			f.gossip(sec, true)
			sum, worst := f.play(r, sec, rate, burst, tc.asks, seconds, 0, 1, 2)
			// docs/guarantees.md, OPTIMISTIC: r·δ = 2.5, k = 3, p = 1.
			if most := 2 + 3*2.5 + 2*burst; worst > most {
				t.Errorf("%.1f over rate·t + burst, at most %.1f by ledgers", worst, most)
			}
			if wants := 3 * tc.asks * seconds; wants < rate*seconds && sum < wants-1 {
				t.Errorf("%.0f of %.0f admitted of a client below its limit", sum, wants)
			}
			t.Logf("%.0f admitted of r·t + b = %.0f; worst excess %.1f", sum, rate*seconds+burst, worst)
			if counts, _ := tallied(f.engines[0], 100*sec); counts[limitName{"a", "l"}].OwnerUnasked == 0 {
				t.Error("what the ledger decides is not counted")
			}
		})
	}
}

// Once the owner of a key has room for it, the owner receives what the ledger has admitted meanwhile.
func TestOwnerHearsWhatTheLedgerAdmitted(t *testing.T) {
	f := newExactFleet(t, 2, unstated(0.01, 10))
	full := true
	f.full = func(int) bool { return full }
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	f.gossip(sec, true)
	if n := f.total(0, sec, r, 6); n != 6 {
		t.Fatalf("%d admitted by the ledger, want 6 of a burst of 10", n)
	}
	if full = false; f.total(0, 30*sec, r, 4)+f.total(1, 30*sec, r, 10) != 4 {
		t.Error("another burst begins with the owner's answer")
	}
}
