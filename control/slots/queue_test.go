package slots

import "testing"

// busyWorld has gateways each of whose lines is never empty.
func busyWorld(t *testing.T, limit, wait, stay int64, rates ...float64) *world {
	w := newWorld(t, 1, limit, netParams{delay: millisecond / 4}, 0)
	w.wait = wait
	for i, r := range rates {
		n := w.newNode()
		w.after(int64(i)*second/2, func() { w.load(n, 500*second, r*1e8/float64(stay), func() int64 { return stay }) })
	}
	return w
}

// A lowered limit holds after the requests in flight then have ended, also while others wait all the time.
func TestLoweredWhileRequestsWait(t *testing.T) {
	for _, wait := range []int64{0, 5 * second} {
		for _, stay := range []int64{100 * millisecond, 5 * second} {
			for _, rates := range [][]float64{{200}, {80}, {70, 70, 70}} {
				for _, limit := range []int64{1, 2} {
					w := busyWorld(t, 10, wait, stay, rates...)
					w.run(30 * second)
					w.limit = limit
					w.owner().o.SetLimit(w.now, limit, outbox{w, w.owner()})
					w.schedule(w.owner())
					w.run(33*second + 3*stay)
					if w.flying > limit || w.flying == 0 && wait > 0 {
						t.Errorf("wait %d ms, stay %d ms, %v: a while after the limit was lowered to %d, %d are in flight",
							wait/millisecond, stay/millisecond, rates, limit, w.flying)
					}
				}
			}
		}
	}
}

// A gateway whose requests wait gets slots, though requests wait at other gateways all the time.
func TestNoGatewayStarves(t *testing.T) {
	for _, wait := range []int64{0, 5 * second} {
		for _, limit := range []int64{1, 2, 3, 4, 5, 8} {
			w := busyWorld(t, limit, wait, 100*millisecond, 200, 200, 200)
			w.run(10 * second)
			w.measure()
			w.run(70 * second)
			for i, got := range w.stat.got1 {
				if got < 100 {
					t.Errorf("wait %d ms, limit %d: gateway %d starts next to nothing: %v", wait/millisecond, limit, i,
						w.stat.got1)
				}
			}
		}
	}
}
