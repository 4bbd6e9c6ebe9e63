package drc

import (
	"math"
	"testing"
)

func lan(rate, burst float64, strict bool) LedgerParams {
	return LedgerParams{Rate: rate, Burst: burst, Lag: 0.15, Strict: strict}
}

// TestS10S11 overloads every one of ten replicas from cold.
func TestS10S11(t *testing.T) {
	for _, c := range []struct {
		id                string
		r, b              float64
		lo, hi, cold, std float64
	}{
		{"S10", 5, 5, 0.98, 1.01, 12, 5},
		{"S11", 10, 20, 0.98, 1.02, 9, 9},
	} {
		m := newMesh(10, lan(c.r, c.b, true), 0.05, 0.02, 0.1, 7)
		for i := range 10 {
			m.poisson(i, c.r, 0)
		}
		m.run(220)
		mean := m.admitted(20, 220) / 200 / c.r
		cold, steady := m.excess(c.r, c.b, 0, 220), m.excess(c.r, c.b, 20, 220)
		t.Logf("%s mean/r %.4f cold excess %.2f steady excess %.2f", c.id, mean, cold, steady)
		if mean < c.lo || mean > c.hi || cold > c.cold || steady > c.std {
			t.Errorf("%s: mean/r %.4f want [%v,%v]; cold excess %.2f want <= %v; steady %.2f want <= %v",
				c.id, mean, c.lo, c.hi, cold, c.cold, steady, c.std)
		}
	}
}

// burstAt offers n requests at once at replica 0 at t = 1 and every refused one
// again each 5 ms, and returns how many passed at once and by the given time.
func burstAt(m *mesh, n int, by float64) (once, later int) {
	m.run(1)
	left := n
	var try func()
	try = func() {
		for left > 0 && m.offer(0, 1) {
			left--
		}
		if left > 0 {
			m.after(0.005, try)
		}
	}
	try()
	once = n - left
	m.run(1 + by)
	return once, n - left
}

// TestS12S14 sends a lone burst to one replica of ten.
func TestS12S14(t *testing.T) {
	for _, c := range []struct {
		id            string
		r, b          float64
		strict        bool
		n             int
		by            float64
		once, laterGE int
	}{
		{"S12", 10, 20, true, 20, 0.4, 2, 19},
		{"S14", 1000. / 3600, 1000, true, 1000, 1, 100, 950},
		{"S12 optimistic", 10, 20, false, 20, 0.4, 20, 20},
		{"S14 optimistic", 1000. / 3600, 1000, false, 1000, 1, 1000, 1000},
	} {
		m := newMesh(10, lan(c.r, c.b, c.strict), 0.05, 0.02, 0.1, 3)
		once, later := burstAt(m, c.n, c.by)
		ex := m.excess(c.r, c.b, 0, m.now)
		t.Logf("%s: %d at once, %d within %v s, excess %.2f", c.id, once, later, c.by, ex)
		if once < c.once || once > c.once+1 && c.strict || later < c.laterGE || ex > 1 {
			t.Errorf("%s: %d at once want %d; %d later want >= %d; excess %.2f", c.id, once, c.once, later, c.laterGE,
				ex)
		}
	}
}

// TestS15 offers periodic arrivals at .95 r round robin. A few in a thousand may
// be refused (mostly at the cold start) where the burst holds less than r·δ.
func TestS15(t *testing.T) {
	for _, r := range []float64{1, 5, 10, 50, 200} {
		for _, b := range []float64{5, 20} {
			for _, strict := range []bool{false, true} {
				m := newMesh(10, lan(r, b, strict), 0.05, 0.02, 0.1, 11)
				m.periodic(0.95*r, 0, func(i int) int { return i % 10 })
				m.run(60 + 20/r)
				allowed := 0
				if b < r*0.15 {
					allowed = 5 + m.offers/1000
				}
				if n := m.rejects(); n > allowed {
					t.Errorf("r=%v b=%v strict=%v: %d of %d rejected", r, b, strict, n, m.offers)
				}
			}
		}
	}
}

// TestSpread is the everyday case: three replicas, loads 6:3:1, gossip delay 50
// to 150 ms, twice the limit in all, compared with one central bucket that sees the
// same arrivals.
func TestSpread(t *testing.T) {
	for _, r := range []float64{1, 5, 10, 50, 100, 300, 1000} {
		for _, b := range []float64{1, 10, 3 + 2*r} {
			for _, strict := range []bool{false, true} {
				m := newMesh(3, LedgerParams{Rate: r, Burst: b, Lag: 0.2, Strict: strict}, 0.05, 0.05, 0.15, 5)
				for i, k := range []float64{.6, .3, .1} {
					m.poisson(i, 2*r*k, 0)
				}
				span := min(400, 20+20000/r)
				m.run(10 + span)
				mean := m.admitted(10, m.now) / span / r
				ideal := m.central(r, b, 10, m.now) / span / r
				ex := m.excess(r, b, 0, m.now)
				t.Logf("r=%-5v b=%-5v strict=%-5v mean/r %.4f central %.4f excess %.2f", r, b, strict, mean, ideal, ex)
				if b >= 3+r*0.2 && (mean > 1.01 || mean < 0.985*ideal) {
					t.Errorf("r=%v b=%v: mean/r %.4f, a central bucket %.4f", r, b, mean, ideal)
				}
				if bound := excessBound(m.nodes[0].ledger, 3); ex > bound {
					t.Errorf("r=%v b=%v strict=%v: excess %.2f above bound %.2f", r, b, strict, ex, bound)
				}
			}
		}
	}
}

// excessBound is the stated bound on admitted − r·T − b: (Lc−b) + (n−1) +
// 2^p·r·δ, and in OPTIMISTIC mode r·δ more and the pool once per other replica.
func excessBound(l Ledger, n float64) float64 {
	p := l.p
	bound := l.top - p.Burst + n - 1 + float64(int(1)<<l.order)*p.Rate*p.Lag
	if !p.Strict {
		bound += p.Rate*p.Lag + (n-1)*l.top
	}
	return bound
}

// TestBelowLimitNeverRejected plays a client within its limit, OPTIMISTIC. It sends full
// bursts, five at each replica, or each at the next as soon as the bucket is full again, or
// all over them. Or it sends a steady stream at exactly its limit.
func TestBelowLimitNeverRejected(t *testing.T) {
	for _, r := range []float64{0.2, 1, 5, 10, 100, 1000} {
		for _, b := range []float64{1, 5, 20, 2 * r} {
			b = max(b, 1)
			m := newMesh(3, LedgerParams{Rate: r, Burst: b, Lag: 0.2}, 0.05, 0.05, 0.15, 5)
			var burst func()
			k := 0
			burst = func() { // ON/OFF: b at once, then the refill time and a little
				for range int(b) {
					m.offer(k/5%3, 1) // five bursts at one replica, then the next
				}
				k++
				m.after(1.02*b/r+0.4, burst)
			}
			burst()
			m.run(15 * (1.02*b/r + 0.4))
			if n := m.rejects(); n > 0 {
				t.Errorf("bursts r=%v b=%v: %d of %d rejected", r, b, n, m.offers)
			}
			for name, pick := range map[string]func(k, i int) int{
				"hopping": func(k, _ int) int { return k % 3 },
				"spread":  func(_, i int) int { return i % 3 },
			} {
				m := newMesh(3, LedgerParams{Rate: r, Burst: b, Lag: 0.2}, 0.05, 0.05, 0.15, 7)
				every := math.Floor(b)/r + 1e-6
				var next func()
				k := 0
				next = func() {
					for i := range int(b) {
						m.offer(pick(k, i), 1)
					}
					k++
					m.after(every, next)
				}
				m.after(1, next)
				m.run(1 + 20*every)
				if n := m.rejects(); n > 0 {
					t.Errorf("%s bursts r=%v b=%v: %d of %d rejected", name, r, b, n, m.offers)
				}
			}
			m = newMesh(3, LedgerParams{Rate: r, Burst: b, Lag: 0.2}, 0.05, 0.05, 0.15, 6)
			m.periodic(r, 3, func(int) int { return 1 })
			m.run(13 + 30/r)
			if n := m.rejects(); n > 0 {
				t.Errorf("pinned at the limit, r=%v b=%v: %d of %d rejected", r, b, n, m.offers)
			}
		}
	}
}

// TestS16 cuts ten overloaded replicas into two halves for 40 s.
func TestS16(t *testing.T) {
	for _, hold := range []bool{false, true} {
		m := newMesh(10, lan(10, 20, true), 0.05, 0.02, 0.1, 9)
		m.hold = hold
		m.cut = func(a, b int, now float64) bool { return (a < 5) != (b < 5) && now >= 30 && now < 70 }
		for i := range 10 {
			m.poisson(i, 10, 0)
		}
		m.run(160)
		during, after, late := m.admitted(31, 70)/390, m.admitted(71, 109)/380, m.admitted(120, 160)/400
		t.Logf("hold=%v: during %.3f r, after %.3f r, late %.3f r", hold, during, after, late)
		want, lo, hi := 2.0, 0.0, 0.05
		if hold {
			want, lo, hi = 1, 0.9, 1.05
		}
		if during < want-0.05 || during > want+0.05 || after < lo || after > hi || late < 0.97 || late > 1.02 {
			t.Errorf("hold=%v: during %.3f r want %v; after %.3f r want [%v,%v]; late %.3f r want 1", hold, during,
				want, after,
				lo, hi, late)
		}
	}
}

// TestLossAndCosts: 30 % loss changes the mean by nothing, nor do real costs.
func TestLossAndCosts(t *testing.T) {
	m := newMesh(5, lan(50, 60, true), 0.05, 0.02, 0.1, 4)
	m.loss = 0.3
	for i := range 5 {
		var next func()
		next = func() {
			m.offer(i, 0.2+3*m.rng.Float64())
			m.after(m.rng.ExpFloat64()/20, next)
		}
		m.after(0, next)
	}
	m.run(210)
	if mean := m.admitted(10, 210) / 200 / 50; mean < 0.985 || mean > 1.01 {
		t.Errorf("mean/r %.4f, want 1", mean)
	}
}
