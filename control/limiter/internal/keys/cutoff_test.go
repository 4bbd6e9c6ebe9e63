package keys

import (
	"testing"

	"github.com/titrate/titrate/control/exchange"
)

// A gateway was unreachable for so long that the others forgot it. When it is back its count is no end of a silence,
// and the ledger is charged more than was spent. The owner of the key decides meanwhile, so the ledger, which decides
// next, refuses for no longer than an empty bucket does. In a silence what others are assumed to spend stays.
func TestWhatTheOwnerDecidesIsNoDebt(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w := newWorld(16, Numbers{Rate: 2, Burst: 4})
		sum := exchange.KeySum{Key: w.g.Key("c"), Epoch: 1, Claims: 1, Spent: 1, Own: 1, Admitted: 1}
		hear := func() { w.SetSums(w.now, &exchange.Sums{Full: true, Replicas: 3, Keys: []exchange.KeySum{sum}}) }
		w.Mirror(&w.g, "c", w.now, unit)
		hear()
		sum.Admitted, sum.Assumed = 41, 20
		if silent {
			sum.Gap = -1
		}
		hear()
		if u := w.Usage(&w.g, "c", w.now, unit); u.Spent < 12 {
			t.Fatalf("%v is spent, want what the others say", u.Spent)
		}
		for range 10 { // the owner grants the rate
			w.now += 5e8
			w.Mirror(&w.g, "c", w.now, unit)
		}
		w.now += 1e9
		if got := w.WouldTake(&w.g, "c", w.now, unit); got == silent {
			t.Errorf("silent %v: the ledger admits: %v", silent, got)
		}
	}
}
