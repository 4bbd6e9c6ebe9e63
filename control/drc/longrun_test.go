package drc

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The paper's controller keeps its moiety and stays positive whatever its constants,
// over seven decades of each; its oracle is the network of package reaction.
func TestPaperInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) float64 { return math.Pow(10, rapid.Float64Range(-3.5, 3.5).Draw(t, label)) }
		p := PaperParams{Enzyme: draw("E0"), K1: draw("k1"), K2: draw("k2"), K3: draw("k3"), K4: draw("k4"), K5: draw("k5"), KF: draw("kF")}
		c, in, out := NewPaper(p), 0.0, 0.0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h, v := draw("h"), draw("v_int")
			out += h * c.Step(h, v, draw("v_ext"))
			in += h * v
			s, e, es, et, ext, f := c.State()
			for i, x := range []float64{s, e, es, et, ext, f} {
				if !(x >= 0) || math.IsInf(x, 1) {
					t.Fatalf("species %d is %v", i, x)
				}
			}
			if math.Abs(e+es+et-p.Enzyme) > 1e-12*p.Enzyme {
				t.Fatalf("E+ES+ET = %v, want %v", e+es+et, p.Enzyme)
			}
			if left := s + es + f; math.Abs(in-out-left) > 1e-9*in { // r2 makes F of ES
				t.Fatalf("came %v, left %v, within %v", in, out, left)
			}
		}
	})
}

func TestPaperBadNumbers(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e-300, 1e300}
	for _, a := range bad {
		for _, b := range bad {
			p := PaperParams{Enzyme: a, K1: b, K2: a, K3: b, K4: a, K5: b, KF: a}
			if r := p.Scaled(b).Rate(); !(r >= 0) || math.IsInf(r, 1) {
				t.Fatalf("%v, %v: capacity %v", a, b, r)
			}
			c := NewPaper(p)
			for range 3 {
				out := c.Step(b, a, b)
				s, e, es, et, ext, f := c.State()
				for _, x := range []float64{out, s, e, es, et, ext, f} {
					if !(x >= 0) || math.IsInf(x, 1) {
						t.Fatalf("%v, %v: output %v, state %+v", a, b, out, c)
					}
				}
			}
		}
	}
	c := NewPaper(Table1())
	for range 100 {
		if out := c.Step(.01, 500, 300); math.IsNaN(out) {
			t.Fatal("NaN from good numbers")
		}
	}
}

// A million steps, and one of 10⁷ s, later the moiety is what it was, nothing is lost,
// and the rate is that of the second minute. It is the limit's but for the time that a
// finite backlog takes to bind.
func TestAMillionSteps(t *testing.T) {
	const h, vmax = 0.005, 1000.0
	c := New(Params{Rate: vmax, TotalWeight: 1, Lag: .15, Period: .05})
	in, out := 0.0, 0.0
	minutes := func(n int) float64 {
		before := out
		for k := range n * 60 * 200 {
			out += c.Step(h, 6, Sums{})
			in += 6
			c.Remove(c.Backlog() - 100)
			if k%10 == 0 {
				c.Publish()
			}
		}
		return (out - before) / (60 * float64(n))
	}
	minutes(1) // from rest
	first, later := minutes(1), 0.0
	for range 2 {
		later = minutes(40)
		out += c.Step(1e7, 5, Sums{})
		in += 5
	}
	z := c.Enzyme()
	if sum := z.Free() + z.Bound() + z.Spent(); math.Abs(sum-z.Bucket()) > 1e-12*z.Bucket() {
		t.Errorf("E+ES+ET = %v of %v", sum, z.Bucket())
	}
	if lost := in - out - c.Backlog() - c.Dropped(); math.Abs(lost) > 1e-9*in {
		t.Errorf("%v of %v lost", lost, in)
	}
	if math.Abs(first-vmax) > .002*vmax || math.Abs(later-first) > .002*vmax {
		t.Errorf("mean %v in the second minute, %v later, want %v", first, later, vmax)
	}
}

func TestPaperAllocatesNothing(t *testing.T) {
	c := NewPaper(Table1())
	if n := testing.AllocsPerRun(100, func() { c.Step(.005, 500, 300) }); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func BenchmarkPaperStep(b *testing.B) {
	c := NewPaper(Table1())
	b.ReportAllocs()
	for b.Loop() {
		c.Step(.005, 500, 300)
	}
}
