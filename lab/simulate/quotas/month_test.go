package quotas

import (
	"testing"
	"time"
)

const month = 30 * 24 * hour

// kills plays a month with 50 losses at random times, and a load that uses the amount up near its end.
func kills(t *testing.T, seed uint64, open bool) *world {
	const amount = 20_000
	w := newWorld(t, seed, amount, open)
	for range 50 {
		w.after(w.between(time.Minute, month-time.Hour), func() {
			h, later := w.hosts[w.random.IntN(hosts)], w.between(time.Second, time.Minute)
			switch w.random.IntN(5) {
			case 0: // an agent
				h.killAgent(later)
			case 1: // the owner of the key
				h.owner(key).killAgent(later)
			case 2: // a host
				h.killAgent(later)
				h.startGateway()
			case 3: // all hosts
				for _, h := range w.hosts {
					h.killAgent(later)
					h.startGateway()
				}
			default:
				w.kill(later / 4)
			}
		})
	}
	w.load(amount+amount/8, month)
	w.run(month - time.Second)
	return w
}

func TestMonth(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		w := kills(t, seed, seed%2 == 0)
		t.Logf("seed %d: %d offered, %d admitted, %d refused, %d unused, %d values, %+v", seed, w.offered, w.admitted, w.refused,
			w.unused(), len(w.journal), w.book.Counts())
		if n := w.unused(); n < 0 || n > 75*20 {
			t.Errorf("seed %d: %d unused, want 0 to %d", seed, n, 75*20)
		}
	}
}
