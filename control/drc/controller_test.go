package drc

import (
	"math"
	"testing"
)

// alone runs one controller against fixed sums and reports its mean release
// over the last second and when the rate in force first reached 95 % of claim.
func alone(p Params, arrivals float64, o Sums, span float64) (c Controller, out, reached float64) {
	const h = 0.005
	c, reached = New(p), math.Inf(1)
	next := p.Period
	for i := 1; float64(i)*h <= span; i++ {
		now := float64(i) * h
		n := c.Step(h, arrivals*h, o)
		if now > span-1 {
			out += n
		}
		if math.IsInf(reached, 1) && c.claim > 0 && c.Rate() >= 0.95*c.claim && c.active {
			reached = now
		}
		if now >= next {
			c.Publish()
			next += p.Period
		}
	}
	return c, out, reached
}

func TestQ17Q18Q19(t *testing.T) {
	p := Params{Rate: 1000, Weight: 1, TotalWeight: 10, Guarantee: DefaultGuarantee, Lag: 0.375, Period: 0.125}
	c, _, at := alone(p, 300, Sums{Claims: 900, Active: 9}, 5)
	t.Logf("Q17: claim %.3f use %.3f at 95 %% after %.3f s", c.claim, c.Rate(), at)
	if math.Abs(c.claim-100) > 0.1 || math.Abs(c.Rate()-100) > 0.1 || math.Abs(at-0.74) > 0.1 {
		t.Errorf("Q17: claim %v use %v at %v s; want 100, 100, .74±.1", c.claim, c.Rate(), at)
	}
	c, _, _ = alone(p, 2000, Sums{Claims: 400, Active: 3, Unsaturated: 100}, 5)
	if math.Abs(c.Fair()-225) > 0.225 || math.Abs(c.claim-225) > 0.225 {
		t.Errorf("Q18: fair share %v claim %v, want 225", c.Fair(), c.claim)
	}
	c, out, _ := alone(p, 50, Sums{Claims: 900, Active: 9}, 5)
	last := c.Publish()
	if math.Abs(last.Claim-50) > 1 || last.Active != 0 || math.Abs(out-50) > 1 {
		t.Errorf("Q19: %+v out %v, want claim 50 inactive out 50", last, out)
	}
}

// swarm runs controllers that gossip with a fixed delay; loads in cost units/s.
// It returns the total released per step and each one's mean over the last second.
func swarm(weights, loads []float64, vmax, phi, tau, span float64) (total, each []float64) {
	const h = 0.005
	period, n := tau/2, len(weights)
	all := 0.0
	for _, w := range weights {
		all += w
	}
	cs := make([]Controller, n)
	said := make([][]Claim, n) // per step, the claim published last
	for i := range cs {
		cs[i] = New(Params{Rate: vmax, Weight: weights[i], TotalWeight: all, Replicas: float64(n),
			Guarantee: phi, Lag: tau + period, Period: period})
	}
	each = make([]float64, n)
	late := int(tau / h)
	every := int(period / h)
	for k := range int(span / h) {
		var sum Claim
		heard := make([]Claim, n)
		for j := range cs {
			if k >= late && len(said[j]) > k-late {
				heard[j] = said[j][k-late]
			}
			sum.Claim += heard[j].Claim
			sum.Active += heard[j].Active
			sum.Unsaturated += heard[j].Unsaturated
		}
		step := 0.0
		for i := range cs {
			o := Sums{Claims: sum.Claim - heard[i].Claim, Active: sum.Active - heard[i].Active,
				Unsaturated: sum.Unsaturated - heard[i].Unsaturated}
			out := cs[i].Step(h, loads[i]*h, o)
			cs[i].Remove(max(0, cs[i].Backlog()-loads[i]*0.1)) // clients give up
			step += out
			if float64(k)*h >= span-1 {
				each[i] += out
			}
			c := Claim{}
			if k > 0 {
				c = said[i][k-1]
			}
			if (k+i)%every == 0 {
				c = cs[i].Publish()
			}
			said[i] = append(said[i], c)
		}
		total = append(total, step)
	}
	return total, each
}

func repeat(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// sliding returns the largest sum over one second.
func sliding(total []float64) float64 {
	s, worst := 0.0, 0.0
	for i, v := range total {
		if s += v; i >= 200 {
			s -= total[i-200]
		}
		worst = max(worst, s)
	}
	return worst
}

func TestQ22Q23Q24(t *testing.T) {
	_, each := swarm([]float64{1, 1, 2, 4}, repeat(1e4, 4), 1e4, DefaultGuarantee, 0.25, 10)
	for i, want := range []float64{1250, 1250, 2500, 5000} {
		if math.Abs(each[i]-want) > 0.02*want {
			t.Errorf("Q22: replica %d got %v, want %v", i, each[i], want)
		}
	}
	for _, phi := range []float64{0, DefaultGuarantee} {
		total, each := swarm(repeat(1, 20), repeat(1500, 20), 1e4, phi, 0.25, 10)
		sum := 0.0
		for _, v := range each {
			sum += v
		}
		settled := 0.0
		for i, v := range total {
			mean := v / 0.005
			if mean < 9500 || mean > 10500 {
				settled = float64(i) * 0.005
			}
		}
		t.Logf("Q23 φ=%v: total %.0f max sliding 1 s %.0f settled after %.2f s", phi, sum, sliding(total), settled)
		if sum < 9900 || sliding(total) > 10300 || settled > 1.5 {
			t.Errorf("Q23 φ=%v: total %v sliding %v settled %v", phi, sum, sliding(total), settled)
		}
	}
	loads := repeat(30, 10)
	loads[0] = 3e4
	_, each = swarm(repeat(1, 10), loads, 1e4, DefaultGuarantee, 0.25, 10)
	sum := 0.0
	for _, v := range each {
		sum += v
	}
	if sum < 9900 {
		t.Errorf("Q24: total %v, want >= 9900", sum)
	}
}

// TestSwarmSpread is the everyday case for the plain form: loads 6:3:1 at twice
// the limit, at three gossip delays.
func TestSwarmSpread(t *testing.T) {
	for _, tau := range []float64{0.05, 0.1, 0.15} {
		for _, vmax := range []float64{300, 5000} {
			total, each := swarm(repeat(1, 3), []float64{1.2 * vmax, .6 * vmax, .2 * vmax}, vmax, DefaultGuarantee, tau,
				10)
			sum := each[0] + each[1] + each[2]
			t.Logf("tau=%v v_max=%v: total %.4f v_max, split %.0f, max sliding 1 s %.4f v_max", tau, vmax, sum/vmax,
				each,
				sliding(total)/vmax)
			if math.Abs(sum/vmax-1) > 0.01 || sliding(total) > 1.06*vmax {
				t.Errorf("tau=%v v_max=%v: total %v, sliding %v", tau, vmax, sum, sliding(total))
			}
		}
	}
}

func TestConfigureMovesNoMass(t *testing.T) {
	c := New(Params{Rate: 100, TotalWeight: 2, Bucket: 10})
	c.Step(0.05, 30, Sums{Claims: 50, Active: 1})
	before := c.Enzyme()
	c.Configure(Params{Rate: 1e6, TotalWeight: 7, Bucket: 10})
	if c.Enzyme() != before {
		t.Errorf("a new limit moved mass: %+v, was %+v", c.Enzyme(), before)
	}
	c.Configure(Params{Rate: 1e6, TotalWeight: 7, Bucket: 20})
	after := c.Enzyme()
	if after.Free() != 2*before.Free() || after.Bound() != 2*before.Bound() || after.Backlog() != before.Backlog() {
		t.Errorf("a new bucket: %+v, want E and ES of %+v doubled, S kept", after, before)
	}
}

func TestIsolation(t *testing.T) {
	p := Params{Rate: 900, TotalWeight: 3, Guarantee: 0, Lag: 0.15, Period: 0.05}
	run := func(c *Controller, o Sums) float64 {
		for i := range 400 {
			c.Step(0.005, 10, o)
			if i%10 == 0 {
				c.Publish()
			}
		}
		return c.Rate()
	}
	c := New(p)
	if u := run(&c, Sums{Claims: 100, Unsaturated: 100}); math.Abs(u-800) > 1 {
		t.Fatalf("connected: rate %v, want 800", u)
	}
	for _, s := range []struct {
		mode Isolation
		want float64
	}{{Frozen, 800}, {Split, 300}, {Alone, 300}, {Connected, 900}} {
		c.Isolate(s.mode, math.NaN())
		if u := run(&c, Sums{}); math.Abs(u-s.want) > 1 {
			t.Errorf("mode %d: rate %v, want %v", s.mode, u, s.want)
		}
	}
	q := New(p)
	quiet := func() float64 { // 100 units/s, then as many as it lets through
		for i := range 400 {
			q.Step(0.005, 0.5, Sums{})
			if i%10 == 0 {
				q.Publish()
			}
		}
		return q.heard.least()
	}
	if lm := quiet(); math.Abs(lm-100) > 1 {
		t.Fatalf("unsaturated: announced %v, want 100", lm)
	}
	q.Isolate(Frozen, math.NaN())
	want := 150 + q.deviation(100)
	if u := run(&q, Sums{}); math.Abs(u-want) > 2 {
		t.Errorf("frozen while unsaturated: rate %v, want %v", u, want)
	}
	d := New(p)
	d.Isolate(Split, 120)
	if u := run(&d, Sums{}); u != 120 {
		t.Errorf("split after a claim of 120: rate %v, want 120", u)
	}
}

// The others had claimed all of a share when this replica was cut off, which wanted nothing then.
// Afterwards it cannot announce that it wants its guaranteed part, and later its part by weight.
func TestIsolatedWhileTheOthersClaimAll(t *testing.T) {
	c := New(Params{Rate: 900, Weight: 1, TotalWeight: 3, Replicas: 3, Guarantee: 0.25, Lag: 0.1, Period: 0.05})
	all := Sums{Claims: 900, Unsaturated: 900}
	c.Step(0.005, 0, all)
	c.Publish()
	for mode, want := range map[Isolation]float64{Frozen: 75, Split: 75, Alone: 300} {
		c.Isolate(mode, -1)
		c.Step(0.005, 5, all)
		if u := c.Rate(); math.Abs(u-want) > 1e-9 {
			t.Errorf("mode %d: rate %v, want %v", mode, u, want)
		}
	}
}

func TestBadNumbers(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e-300, 1e300}
	for _, v := range bad {
		c := New(Params{Rate: v, Weight: v, TotalWeight: v, Guarantee: v, Lag: v, Period: v, Bucket: v, MinBucket: v,
			MaxBacklog: v})
		l := NewLedger(LedgerParams{Rate: v, Burst: v, Replicas: v, Lag: v}, 0)
		for _, u := range bad {
			n := c.Step(u, u, Sums{u, u, u, u})
			c.Remove(u)
			l.Take(u, u, u)
			l.Hear(u, LedgerSums{Admitted: u, Claims: u, Active: u, Unsaturated: u, Spent: u, Absent: u})
			l.Refund(u)
			w, k := l.Wait(u, u), l.Publish(u)
			for i, x := range []float64{n, c.Free(), c.Backlog(), c.Rate(), c.Want(), c.Publish().Claim, l.d,
				l.admitted, l.dem,
				k.Claim, l.fair, l.escrow, w} {
				if math.IsNaN(x) || x < 0 || math.IsInf(x, 0) && i != 12 {
					t.Fatalf("params %v, input %v: value %d is %v", v, u, i, x)
				}
			}
			if math.IsNaN(l.x) || l.x > 1 {
				t.Fatalf("params %v, input %v: x is %v", v, u, l.x)
			}
		}
	}
}

func TestStepsAllocateNothing(t *testing.T) {
	c := New(Params{Rate: 1e3, TotalWeight: 3, Lag: .15, Period: .05})
	l := NewLedger(LedgerParams{Rate: 10, Burst: 20, Replicas: 3, Lag: .15}, 0)
	now, tat, ns := 0.0, int64(0), int64(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 0.01
		ns += 1e7
		c.Step(0.01, 5, Sums{Claims: 300, Active: 1, Unsaturated: 20})
		c.Publish()
		l.Take(now, 1, .5)
		l.Hear(now, LedgerSums{Admitted: now})
		l.Publish(now)
		l.Wait(now, 1)
		tat, _ = Take(tat, ns, 10, 20, 1)
	}); n != 0 {
		t.Errorf("%v allocations per step, want 0", n)
	}
}

func BenchmarkEnzymeStep(b *testing.B) {
	z := NewEnzyme(50)
	for b.Loop() {
		z.Step(0.005, 6, 1000)
	}
}

func BenchmarkControllerStep(b *testing.B) {
	c := New(Params{Rate: 1e3, TotalWeight: 3, Lag: .15, Period: .05})
	for b.Loop() {
		c.Step(0.005, 6, Sums{Claims: 300, Active: 1, Unsaturated: 20})
	}
}

func BenchmarkLedgerTake(b *testing.B) {
	l := NewLedger(LedgerParams{Rate: 1e4, Burst: 1e4, Replicas: 3, Lag: .15}, 0)
	now := 0.0
	for b.Loop() {
		now += 1e-4
		l.Take(now, 1, 0.5)
	}
}

func BenchmarkGCRATake(b *testing.B) {
	var tat, now int64
	for b.Loop() {
		now += 1e5
		tat, _ = Take(tat, now, 1e4, 1e4, 1)
	}
}
