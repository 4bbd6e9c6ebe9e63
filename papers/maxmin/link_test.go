package maxmin_test

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/vectortest"
	"github.com/titrate/titrate/papers/maxmin"
)

// flow is one aggregate flow of the simulation: its source, its path and when
// it is there. Delays in seconds from source to link; back is the way home.
type flow struct {
	maxmin.Source
	path           []int
	delay          []float64
	back           float64
	arrive, depart float64
}

// parcel is a control packet on its way: to the next link, or home.
type parcel struct {
	p    maxmin.Packet
	at   float64
	flow int
	hop  int
}

// network simulates flows over links as a fluid with time steps of 2 ms. Links see source rates after the
// propagation delay; the effect of an earlier queue on a flow is left out.
type network struct {
	links []maxmin.Link
	mu    []float64
	flows []flow
	queue []float64
	rates [][]float64 // past rates, a ring per flow
	post  []parcel
	step  int
}

const tick = 0.002 // s

func (n *network) start() {
	n.queue = make([]float64, len(n.links))
	for range n.flows {
		n.rates = append(n.rates, make([]float64, 256))
	}
}

// run simulates until the given time (s).
func (n *network) run(until float64) {
	for ; float64(n.step)*tick < until; n.step++ {
		now := float64(n.step) * tick
		for i := range n.flows {
			n.send(i, now)
		}
		n.deliver(now)
		for l := range n.links {
			in := 0.0
			for i := range n.flows {
				in += n.seen(i, l)
			}
			n.queue[l] = math.Max(0, n.queue[l]+(in-n.mu[l])*tick)
			n.links[l].Step(n.queue[l])
		}
	}
}

// send lets flow i send for one tick, and its control packet if one is due.
func (n *network) send(i int, now float64) {
	f := &n.flows[i]
	rate := 0.0
	if now >= f.arrive && now < f.depart {
		rate = f.Rate()
		f.Send(rate * tick)
		if p, due := f.Tick(now); due {
			n.post = append(n.post, parcel{p, now + f.delay[0], i, 0})
		}
	}
	n.rates[i][n.step%256] = rate
}

// deliver moves the packets that have arrived somewhere.
func (n *network) deliver(now float64) {
	kept := n.post[:0]
	for _, x := range n.post {
		f := &n.flows[x.flow]
		for x.at <= now && x.hop <= len(f.path) {
			if x.hop == len(f.path) {
				f.Hear(x.p)
				x.hop++
				break
			}
			n.links[f.path[x.hop]].Pass(&x.p)
			if x.hop++; x.hop < len(f.path) {
				x.at += f.delay[x.hop] - f.delay[x.hop-1]
			} else {
				x.at += f.back
			}
		}
		if x.hop <= len(f.path) {
			kept = append(kept, x)
		}
	}
	n.post = kept
}

// seen is the rate of flow i that reaches link l now.
func (n *network) seen(i, l int) float64 {
	for k, at := range n.flows[i].path {
		if at == l {
			late := int(math.Round(n.flows[i].delay[k] / tick))
			return n.rates[i][(n.step-late+256)%256]
		}
	}
	return 0
}

// newLink has the gains for round trips of up to rtt with a packet every .1 s,
// the paper's target of 256 KB (2.1 Mbit) and a memory of about a second.
func newLink(mu, rtt float64) maxmin.Link {
	a, b := maxmin.BestGains(rtt + 0.1)
	return maxmin.Link{A: a, B: b, Period: tick, Window: 0.1, Target: 256 * 8.192e-3, Max: mu}
}

// Table 2 (Mbit/s): shares on one link of 100 Mbit/s, the estimate of |Q|w and the queue in each period,
// compared with the exact fill. The paper prints 14.54 for 14.545… and 19.1 for 19.09.
func TestTable2(t *testing.T) {
	rows := []struct{ m, w, from, to float64 }{
		{0, 1, 0, 1e9}, {5, 1.5, 0, 1e9}, {0, 2, 25, 75}, {10, 2.5, 0, 1e9}, {0, 3, 0, 1e9}, {15, 1, 50, 75},
	}
	n := network{links: []maxmin.Link{newLink(100, 0.07)}, mu: []float64{100}}
	for i, r := range rows {
		rtt := 0.02 + 0.01*float64(i) // 20 to 70 ms
		n.flows = append(n.flows, flow{
			Source: maxmin.Source{Weight: r.w, Minimum: r.m, Peak: 1000},
			path:   []int{0}, delay: []float64{rtt / 2}, back: rtt / 2, arrive: r.from, depart: r.to,
		})
	}
	n.start()
	for _, at := range []float64{25, 50, 75, 100} {
		n.run(at)
		var demands []fairshare.Demand
		var on []int
		weights := 0.0
		for i, r := range rows {
			if r.from < at && r.to >= at {
				on, weights = append(on, i), weights+r.w
				demands = append(demands, fairshare.Demand{Weight: r.w, Guaranteed: r.m, Cap: 1000})
			}
		}
		want := make([]float64, len(on))
		fairshare.Fill(100, demands, fairshare.Additive, 0, want)
		for k, i := range on {
			if got := n.flows[i].Rate(); !vectortest.Near(got/want[k], 1, 0.01) {
				t.Errorf("at %v s: AF%d %v, want %v", at, i+1, got, want[k])
			}
		}
		t.Logf("at %v s: |Q|w %.2f of %v, queue %.3f Mbit, AF1 %.3f (exact %.3f)", at, n.links[0].Count(), weights,
			n.queue[0], n.flows[0].Rate(), want[0])
		if !vectortest.Near(n.links[0].Count()/weights, 1, 0.05) || !vectortest.Near(n.queue[0]/2.097, 1, 0.03) {
			t.Errorf("at %v s: |Q|w %v, want %v; queue %v, want 2.097", at, n.links[0].Count(), weights, n.queue[0])
		}
	}
}

// Table 3 (Mbit/s): sixteen flows over four links, two of which bind; |Q|w is
// 12 at L3 and 3 at L4.
func TestTable3(t *testing.T) {
	w, m, p := []float64{1, 2, 1, 3}, []float64{0, 0, 10, 10}, []float64{100, 100, 20, 20}
	want := []float64{5, 10, 15, 20, 5, 10, 15, 20, 5, 10, 15, 20, 110. / 3, 220. / 3, 20, 20}
	n := network{mu: []float64{300, 300, 150, 300}}
	for _, mu := range n.mu {
		n.links = append(n.links, newLink(mu, 0.07))
	}
	for i := range want {
		f := flow{Source: maxmin.Source{Weight: w[i%4], Minimum: m[i%4], Peak: p[i%4]}, back: 0.001, depart: 1e9}
		for l, at := i/4, 0.001; l < 4; l, at = l+1, at+0.01 {
			f.path, f.delay = append(f.path, l), append(f.delay, at)
			f.back += 0.01
		}
		n.flows = append(n.flows, f)
	}
	n.start()
	n.run(60)
	for i := range want {
		if got := n.flows[i].Rate(); !vectortest.Near(got/want[i], 1, 0.01) {
			t.Errorf("AF%d %v, want %v", i+1, got, want[i])
		}
	}
	for l, count := range map[int]float64{2: 12, 3: 3} {
		t.Logf("L%d: |Q|w %.2f, queue %.3f, f %.3f", l+1, n.links[l].Count(), n.queue[l], n.links[l].Fair())
		if !vectortest.Near(n.links[l].Count()/count, 1, 0.05) || !vectortest.Near(n.queue[l]/2.097, 1, 0.03) {
			t.Errorf("L%d: |Q|w %v, want %v; queue %v", l+1, n.links[l].Count(), count, n.queue[l])
		}
	}
	for l := range 2 {
		if n.links[l].Fair() != 300 || n.queue[l] != 0 {
			t.Errorf("L%d does not bind: f %v, queue %v", l+1, n.links[l].Fair(), n.queue[l])
		}
	}
}

// An idle link does not wind up: after ten minutes without load a new flow is
// held within its share in the time that one takes at the start.
func TestIdleLinkDoesNotWindUp(t *testing.T) {
	over := func(idle float64) float64 {
		n := network{links: []maxmin.Link{newLink(100, 0.07)}, mu: []float64{100}}
		for range 2 {
			n.flows = append(n.flows, flow{Source: maxmin.Source{Weight: 1, Peak: 1000}, path: []int{0},
				delay: []float64{0.035},
				back:  0.035, arrive: idle, depart: 1e9})
		}
		n.start()
		n.run(idle + 20)
		return math.Abs(n.flows[0].Rate()/50 - 1)
	}
	if soon, late := over(5), over(600); late > 0.01 || late > soon+0.005 {
		t.Errorf("off by %v after 5 s, by %v after 600 s of idleness", soon, late)
	}
}

// Corollary 1 and Theorem 2 agree: on the edge of the region a loop with delay 1 is at its critical delay. The
// paper's point and the optimum are inside the region.
func TestStabilityRegion(t *testing.T) {
	for u := 0.05; u < math.Pi/2; u += 0.05 {
		edge := maxmin.StableV(u)
		if tau := maxmin.StableDelay(u, edge); !vectortest.Near(tau, 1, 1e-6) {
			t.Errorf("U=%v V=%v: τᵘ = %v, want 1", u, edge, tau)
		}
		if in, out := maxmin.StableDelay(u, 0.9*edge), maxmin.StableDelay(u, 1.1*edge); in <= 1 || out >= 1 {
			t.Errorf("U=%v: τᵘ %v inside, %v outside", u, in, out)
		}
	}
	if maxmin.StableV(0) != 0 || maxmin.StableV(math.Pi/2) != 0 || maxmin.StableV(math.NaN()) != 0 {
		t.Error("outside 0 < U < π/2 nothing is stable")
	}
	u, v := maxmin.BestGains(1)
	if !vectortest.Near(u, 0.4612, 1e-4) || !vectortest.Near(v, 0.0791, 1e-4) || v > maxmin.StableV(u) || maxmin.StableV(0.5) < 0.1 {
		t.Errorf("optimum (%v, %v)", u, v)
	}
	a, b := maxmin.BestGains(0.07)
	if !vectortest.Near(a, u/0.07, 1e-9) || !vectortest.Near(b, v/0.0049, 1e-9) {
		t.Errorf("gains %v, %v do not scale", a, b)
	}
}

// dies is the asymptotic decay per delay: the distance to the left of the
// rightmost root of s² + (U·s + V)·e^(−s), found by Newton's method from a grid.
func dies(u, v float64) float64 {
	rightmost := math.Inf(-1)
	for re := -2.0; re <= 1; re += 0.25 {
		for im := 0.0; im <= 8; im += 0.25 {
			s := complex(re, im)
			for range 200 {
				e := cmplx.Exp(-s)
				gain := complex(u, 0)*s + complex(v, 0)
				s -= (s*s + gain*e) / (2*s + complex(u, 0)*e - gain*e)
			}
			gain := complex(u, 0)*s + complex(v, 0)
			if cmplx.Abs(s*s+gain*cmplx.Exp(-s)) < 1e-10 {
				rightmost = math.Max(rightmost, real(s))
			}
		}
	}
	return -rightmost
}

// The optimum decays faster than the paper's point and than its neighbours; the
// edge of the region neither decays nor grows.
func TestOptimumDecaysFastest(t *testing.T) {
	u, v := maxmin.BestGains(1)
	best := dies(u, v)
	t.Logf("decay per delay: optimum %.4f, paper's point %.4f", best, dies(0.5, 0.1))
	for _, other := range [][2]float64{{0.5, 0.1}, {0.9 * u, v}, {1.15 * u, v}, {u, 0.85 * v}, {u, 1.15 * v}} {
		if d := dies(other[0], other[1]); d > best {
			t.Errorf("(%v, %v) decays at %v, the optimum at %v", other[0], other[1], d, best)
		}
	}
	if paper := dies(0.5, 0.1); !vectortest.Near(paper/best, 0.92, 0.01) {
		t.Errorf("the paper's point decays at %v, want 8 %% slower than %v", paper, best)
	}
	if d := dies(1, maxmin.StableV(1)); math.Abs(d) > 1e-6 {
		t.Errorf("on the edge the decay is %v, want 0", d)
	}
}

// Bad numbers stay out, and a source at rate 0 is asked by time.
func TestDistributedEdges(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0} {
		l := newLink(100, 0.07)
		l.Pass(&maxmin.Packet{Rate: bad, Weight: 1, Sent: 1})
		l.Pass(&maxmin.Packet{Rate: 1, Weight: bad, Sent: bad, Minimum: bad})
		for range 200 {
			if f := l.Step(bad); !(f >= 0 && f <= 100) || !(l.Count() > 0) {
				t.Fatalf("%v: f %v, |Q|w %v", bad, f, l.Count())
			}
		}
		s := maxmin.Source{Weight: bad, Minimum: bad, Peak: 10}
		s.Hear(maxmin.Packet{Fair: bad})
		if r := s.Rate(); !(r >= 0 && r <= 10) {
			t.Errorf("%v: rate %v", bad, r)
		}
	}
	s, sent := maxmin.Source{Weight: 1, Peak: 10}, 0
	for now := 0.0; now < 10; now += 0.01 {
		if p, due := s.Tick(now); due {
			sent++
			if p.Rate != 0 || p.Sent != 0 {
				t.Fatalf("%+v from a source without feedback", p)
			}
		}
	}
	if sent < 98 || sent > 101 {
		t.Errorf("%d control packets in 10 s, want 100", sent)
	}
}

func TestDistributedAllocatesNothing(t *testing.T) {
	l, s, now := newLink(100, 0.07), maxmin.Source{Weight: 1, Peak: 10}, 0.0
	if n := testing.AllocsPerRun(100, func() {
		now += 0.1
		s.Send(1)
		if p, due := s.Tick(now); due {
			l.Pass(&p)
			s.Hear(p)
		}
		l.Step(3)
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func BenchmarkLink(b *testing.B) {
	l := newLink(100, 0.07)
	p := maxmin.Packet{Rate: 10, Weight: 1, Sent: 1}
	b.ReportAllocs()
	for b.Loop() {
		l.Pass(&p)
		l.Step(2)
	}
}

// (1) by differences is (1) as printed, at a constant |Q|w and away from the bounds.
func TestLinkIsThePapersSum(t *testing.T) {
	l, sum := newLink(1e6, 0.07), 0.0
	l.Target = 1000
	a, b := l.A, l.B
	start := l.Step(1000) // e = 0
	for k := range 500 {
		q := 1000 + 300*math.Sin(float64(k)/30) - 400
		sum += q - 1000
		want := start - a*(q-1000) - tick*b*sum
		if got := l.Step(q); math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
			t.Fatalf("step %d: f %v, want %v", k, got, want)
		}
	}
}

func BenchmarkSource(b *testing.B) {
	s, now := maxmin.Source{Weight: 1, Peak: 10, Interval: .1}, 0.0
	b.ReportAllocs()
	for b.Loop() {
		now += .1
		s.Send(1)
		if p, due := s.Tick(now); due {
			s.Hear(p)
		}
	}
}
