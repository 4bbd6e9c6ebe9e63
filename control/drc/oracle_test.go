package drc

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// slowEnzyme solves the same implicit step by bisection on E'.
func slowEnzyme(e, es, s, bucket, h, a, rate float64) (e1, es1, s1, n1 float64) {
	k1, k4 := 1e5/bucket, 1.01*rate/bucket
	k2 := k4 / 0.01
	residual := func(x float64) float64 {
		s1 = (s + a) / (1 + h*k1*x)
		n1 = h * k1 * s1 * x
		es1 = (es + n1) / (1 + h*k2)
		// E' = E − n1 + h·k4·ET', ET' = B − E' − ES'
		return x - e + n1 - h*k4*(bucket-x-es1)
	}
	lo, hi := 0.0, bucket
	for range 200 {
		if e1 = (lo + hi) / 2; residual(e1) > 0 {
			hi = e1
		} else {
			lo = e1
		}
	}
	residual(e1)
	return e1, es1, s1, n1
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*(1+math.Max(math.Abs(a), math.Abs(b))) }

func TestEnzymeMatchesBisection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bucket := math.Pow(10, rapid.Float64Range(-1, 5).Draw(t, "logB"))
		z := NewEnzyme(bucket)
		for range 20 {
			h := math.Pow(10, rapid.Float64Range(-3, 1).Draw(t, "logh"))
			rate := bucket * rapid.Float64Range(0.01, 20).Draw(t, "rate")
			a := rate * h * rapid.Float64Range(0, 3).Draw(t, "load")
			e, es, s, n := slowEnzyme(z.e, z.es, z.s, bucket, h, a, rate)
			got := z.Step(h, a, rate)
			if !near(got, n, 1e-6*bucket) || !near(z.s, s, 1e-6*bucket) || !near(z.e, e, 1e-6*bucket) ||
				!near(z.es, es, 1e-6*bucket) {
				t.Fatalf("B=%v h=%v a=%v rate=%v: released %v E %v ES %v S %v, bisection %v %v %v %v",
					bucket, h, a, rate, got, z.e, z.es, z.s, n, e, es, s)
			}
		}
	})
}

func TestEnzymeInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bucket := math.Pow(10, rapid.Float64Range(-3, 7).Draw(t, "logB"))
		z := NewEnzyme(bucket)
		in, out := 0.0, 0.0
		for range 30 {
			h := math.Pow(10, rapid.Float64Range(-7, 7).Draw(t, "logh"))
			rate := math.Pow(10, rapid.Float64Range(-3, 7).Draw(t, "lograte"))
			a := rapid.Float64Range(0, 10*bucket).Draw(t, "a")
			in += a
			n := z.Step(h, a, rate)
			out += n
			if n < 0 || z.e < 0 || z.es < 0 || z.s < 0 {
				t.Fatalf("negative: n %v E %v ES %v S %v", n, z.e, z.es, z.s)
			}
			if sum := z.e + z.es + z.Spent(); math.Abs(sum-bucket) > 1e-12*bucket {
				t.Fatalf("E+ES+ET = %v, want B = %v", sum, bucket)
			}
			if math.Abs(in-out-z.s) > 1e-9*math.Max(1, in) {
				t.Fatalf("arrived %v, released %v + backlog %v", in, out, z.s)
			}
		}
	})
}

// TestEnzymeScales: the same loads in other units give the same v/v_max.
func TestEnzymeScales(t *testing.T) {
	run := func(k float64) []float64 {
		z := NewEnzyme(0.05 * k)
		var out []float64
		for i := range 400 {
			out = append(out, z.Step(0.005, 0.005*k*(1+math.Sin(float64(i)/9)), k)/k)
		}
		return out
	}
	base := run(1)
	for _, k := range []float64{1e3, 1e6} {
		for i, v := range run(k) {
			if math.Abs(v-base[i]) > 1e-10 {
				t.Fatalf("k=%v step %d: %v, want %v", k, i, v, base[i])
			}
		}
	}
}

// TestEnzymeHoldsItsRate: overloaded, the long-run mean is the rate.
func TestEnzymeHoldsItsRate(t *testing.T) {
	for _, h := range []float64{0.001, 0.005, 0.025} {
		z, out := NewEnzyme(50), 0.0
		for i := range int(20 / h) {
			n := z.Step(h, 3000*h, 1000)
			if float64(i)*h >= 10 {
				out += n
			}
		}
		if mean := out / 10; math.Abs(mean-1000) > 5 {
			t.Errorf("h=%v: mean %v, want 1000", h, mean)
		}
	}
}

// slowTick is one tick of Controller, written line by line: the oracle. The grid over rate,
// replicas and delay (lab/grid) showed that its window and deviation are needed. So is the
// mean of the announced claims, and the time of one request to work off a backlog. So is an
// enzyme that recharges at the rate in force until it is nearly full.
type slowTick struct {
	e, es, s, dem, use, tm, m0, m1, pub, claim, drop float64
	act                                              bool
	claims, times                                    [3][]float64 // of the running window and the two before
}

func (c *slowTick) tick(h, a float64, o Sums, w, bigW, vmax, phi, lag, period, bucket float64, police bool) float64 {
	kept := vmax * math.Min(1, o.Absent/bigW) // for replicas that are cut off for long
	o.Unsaturated, o.Claims = o.Unsaturated+kept, o.Claims+kept
	f := w * math.Max(vmax-o.Unsaturated, 0) / (o.Active + w)
	ct := math.Min(vmax, f)
	own := math.Max(c.dem, vmax*w/bigW) // and not ct alone; see Controller.window
	td := math.Min(1, math.Max(50/math.Min(ct, own), math.Max(0.05, period)))
	c.dem += (a/h - c.dem) * h / (td + h)
	ts := math.Max(math.Max(0.1, lag-period), math.Min(10, 1/math.Min(ct, vmax*w/bigW)))
	need := c.dem + math.Max(0, c.s-0.05*c.use)/ts
	if c.act = need >= ct; c.act {
		c.claim = ct
	} else {
		c.claim = need
	}
	c.claims[0], c.times[0] = append(c.claims[0], c.pub), append(c.times[0], h)
	if c.tm += h; c.tm >= lag {
		c.m1, c.m0, c.tm = c.m0, c.pub, 0
		c.claims = [3][]float64{nil, c.claims[0], c.claims[1]}
		c.times = [3][]float64{nil, c.times[0], c.times[1]}
	}
	c.m0 = math.Min(c.m0, c.pub)
	lm := math.Min(c.m0, c.m1)
	if !c.act && lag <= .5 {
		sum, time := 0.0, 1e-15
		for k, x := range c.claims[2] {
			sum, time = sum+x*c.times[2][k], time+c.times[2][k]
		}
		lm = math.Max(lm, sum/time)
	}
	fl := math.Max(0, vmax-o.Claims-c.pub) * w / bigW
	c.use = math.Min(ct, math.Max(lm+fl, math.Max(1.5*lm+3*math.Sqrt(lm/(2*td)), phi*vmax*w/bigW)))
	var n float64
	speed := bucket / (1.01 * (bucket - c.e + math.Min(c.s+a, c.e)))
	speed = math.Min(math.Max(speed, 1), 16)
	c.e, c.es, c.s, n = slowEnzyme(c.e, c.es, c.s, bucket, h, a, c.use*speed)
	if police {
		dd := c.s * h * 5 / (1 + h*5)
		c.s -= dd
		c.drop += dd
	}
	return n
}

func TestControllerMatchesTheTick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{
			Rate: 1000, Weight: rapid.Float64Range(.5, 4).Draw(t, "w"),
			Guarantee: rapid.Float64Range(0, 1).Draw(t, "phi"),
			Lag:       rapid.SampledFrom([]float64{.375, .75}).Draw(t, "lag"), Period: .125, Bucket: 20, Police: rapid.Bool().Draw(t, "police"),
		}
		p.TotalWeight = p.Weight + rapid.Float64Range(0, 10).Draw(t, "W")
		c, slow := New(p), slowTick{e: 20}
		in, out := 0.0, 0.0
		for i := range 60 {
			h := rapid.Float64Range(0.001, 0.1).Draw(t, "h")
			a := h * rapid.Float64Range(0, 2000).Draw(t, "a")
			o := Sums{
				Claims: rapid.Float64Range(0, 1200).Draw(t, "R"), Active: rapid.Float64Range(0, 9).Draw(t, "A"),
				Unsaturated: rapid.Float64Range(0, 900).Draw(t, "U"),
				Absent:      rapid.Float64Range(0, 5).Draw(t, "absent"),
			}
			n := c.Step(h, a, o)
			want := slow.tick(h, a, o, p.Weight, p.TotalWeight, p.Rate, p.Guarantee, p.Lag, p.Period, p.Bucket,
				p.Police)
			if !near(n, want, 1e-6) || !near(c.Rate(), slow.use, 1e-9) || !near(c.claim, slow.claim, 1e-6) ||
				!near(c.Backlog(), slow.s, 1e-6) {
				t.Fatalf("step %d: released %v rate %v claim %v S %v; tick %v %v %v %v", i, n, c.Rate(), c.claim,
					c.Backlog(), want,
					slow.use, slow.claim, slow.s)
			}
			if c.Rate() > min(p.Rate, c.Fair()) {
				t.Fatalf("rate in force %v above min(v_max, f) = %v", c.Rate(), min(p.Rate, c.Fair()))
			}
			in, out = in+a, out+n
			if math.Abs(in-out-c.Backlog()-c.Dropped()) > 1e-9*math.Max(1, in) {
				t.Fatalf("arrived %v, released %v + backlog %v + dropped %v", in, out, c.Backlog(), c.Dropped())
			}
			if i%4 == 3 {
				c.Publish()
				slow.pub = slow.claim
			}
		}
	})
}
