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
	const most = 50 * 3 / 2 * 4 // a step and a half of each loss, of twice a burst of two
	seeds := uint64(20)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		w := kills(t, seed, seed%2 == 0)
		n := w.unused()
		t.Logf("seed %d: %d offered, %d admitted, %d refused, %d unused", seed, w.offered, w.admitted, w.refused, n)
		if n < 0 || n > most {
			t.Errorf("seed %d: %d unused, want 0 to %d", seed, n, most)
		}
	}
}

const day = 24 * hour

// A store that takes seconds for six hours, or is away for one, has no request refused of an OPEN quota, with owners
// that begin and end all the time. Nothing is over either.
func TestStore(t *testing.T) {
	for name, bad := range map[string]func(*world) func() (time.Duration, bool){
		"slow": func(w *world) func() (time.Duration, bool) { return w.slow },
		"away": func(w *world) func() (time.Duration, bool) { return w.away },
	} {
		for seed := range uint64(3) {
			for _, load := range []int{9_000, 13_000} {
				w := newWorld(t, seed, 10_000, true)
				w.loss = 0
				w.load(load, day)
				w.after(6*hour, func() { w.stores = bad(w) })
				until := 12 * hour
				if name == "away" {
					until = 7 * hour
				}
				w.after(until, func() { w.stores = w.quick })
				w.run(day)
				t.Logf("%s: %d offered, %d admitted, %d refused", name, w.offered, w.admitted, w.refused)
				if w.unused() < 0 || load < 10_000 && w.refused > 0 || load > 10_000 && w.unused() > 20 {
					t.Errorf("%s, %d offered: %d refused, %d unused", name, w.offered, w.refused, w.unused())
				}
			}
		}
	}
}

// Two sides of a partition have an owner each for an hour. Together they have the amount.
func TestTwoOwners(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, seed, 3_000, seed%2 == 0)
		w.load(6_000, 2*hour)
		w.after(20*time.Minute, func() { w.cut(true) })
		w.after(80*time.Minute, func() { w.cut(false) })
		w.run(2 * hour)
		if n := w.unused(); n < 0 || n > 30 {
			t.Errorf("seed %d: %d unused", seed, n)
		}
	}
}

// cut parts the first host from the others, or ends that.
func (w *world) cut(apart bool) {
	for i, h := range w.hosts {
		for k, b := range w.hosts {
			if h.apart[k] = apart && (i == 0) != (k == 0); (i == 0) != (k == 0) {
				w.after(w.between(time.Second, 3*time.Second), func() { h.see(b, !apart) })
			}
		}
	}
}

// etcd is restored from a backup of an hour before. Over is at most what was used since, if the coordinator is lost too
// and nobody else knows of it, else nothing.
func TestRestoredStore(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed, 5_000, true)
		w.load(10_000, day)
		values, before, since := 0, 0, 0
		w.after(5*hour, func() { values, before = len(w.journal), w.admitted })
		w.after(6*hour, func() {
			if seed%2 == 0 {
				w.kill(time.Second)
				since = w.admitted - before
			}
			w.restore(values)
		})
		w.run(day)
		if n := w.unused(); n < -since || n > 20 {
			t.Errorf("seed %d: %d unused", seed, n)
		}
	}
}
