package pacing

import "testing"

// The product's loop holds the rate on both kernels, and the loop without bursts on neither.
func TestLoops(t *testing.T) {
	for _, k := range []kernel{old, now} {
		ours, most := judge(named{"", newCredit}, k, 500)
		if ours > .1 || most > 1000 {
			t.Errorf("%s: error %.2f %%, %.0f packets at once", k.name, ours, most)
		}
		if plain, _ := judge(loops[0], k, 500); plain < 50 {
			t.Errorf("%s: the loop without bursts is off by %.0f %% only", k.name, plain)
		}
	}
}
