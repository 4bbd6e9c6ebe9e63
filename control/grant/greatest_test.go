package grant

import "testing"

// TestGreatestRateAndBurst plays the greatest limit that a configuration may have until all that a gateway
// has been granted, in sum, is several times what a count can hold. It is limited as before.
func TestGreatestRateAndBurst(t *testing.T) {
	const cost = 20_000_000_000 * Token
	p := Params{Rate: 1e12, Burst: 1e12 * Token}
	w := newWorld(p, 2, 200_000, 1)
	const until = 40 * second
	var next func()
	i := 0
	next = func() {
		if w.now > until {
			return
		}
		w.request(i%2, cost)
		i++
		w.after(second/60, next)
	}
	w.after(second/60, next)
	w.run(until + second)
	if over := excess(p, w.admitted); over > 2*float64(cost)/Token {
		t.Errorf("%v over", over)
	}
	if part := total(w.admitted) / total(w.central); part < .98 || part > 1.02 {
		t.Errorf("%.3f of what one bucket admits", part)
	}
	if sum := total(w.admitted); sum < 3e13 {
		t.Errorf("%v admitted, want more than two counts can hold", sum)
	}
}
