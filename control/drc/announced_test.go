package drc

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The mean counts nothing before all have received it, and forgets a fall within three lags. It
// lies between the least and the largest claim of that time.
func TestAnnouncedMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const h, lag = 0.005, 0.1
		var w announced
		var published []float64 // in force after each step
		for range rapid.IntRange(1, 60).Draw(t, "claims") {
			w.publish(rapid.Float64Range(0, 100).Draw(t, "claim"))
			for range rapid.IntRange(1, 30).Draw(t, "steps") {
				w.advance(h, lag)
				published = append(published, w.pub)
				n := len(published)
				from, to := max(0, n-int(3*lag/h)-4), max(0, n-int(lag/h))
				least, most := 0.0, 0.0
				if n > int(3*lag/h)+3 {
					least = math.Inf(1)
				}
				for _, x := range published[from:to] {
					least, most = min(least, x), max(most, x)
				}
				if m := w.mean(); m > most+1e-9 || m < least-1e-9 {
					t.Fatalf("mean %v, claims that all have heard were %v to %v", m, least, most)
				}
			}
		}
	})
}

// What the rates in force may exceed since a mean is counted. A replica that gets all it wants
// and whose claims fall from c₁ to c₂ counts more than its least claim for three lags after
// the last fall. That is 3δ·(c₁ − c₂) together.
func TestFallingClaimsAreCountedForThreeLags(t *testing.T) {
	const h, high, low = 0.005, 40.0, 4.0
	p := Params{Rate: 1000, TotalWeight: 10, Guarantee: 0, Lag: .2, Period: .05}
	others := Sums{Claims: 1000, Active: 9}
	c := New(p)
	run := func(seconds, demand float64) (excess float64) {
		for i := range int(seconds / h) {
			c.Step(h, demand*h, others)
			excess += (c.counted() - c.heard.least()) * h
			if most := 1.5*c.counted() + c.deviation(c.counted()); c.Rate() > most {
				t.Fatalf("%v in force, want at most %v", c.Rate(), most)
			}
			if i%10 == 0 {
				c.Publish()
			}
		}
		return excess
	}
	run(10, high)
	if c.active || math.Abs(c.counted()-high) > 1 {
		t.Fatalf("active %v, counts %v, want %v", c.active, c.counted(), high)
	}
	excess := run(10, low)
	t.Logf("%.2f counted beyond the least claims, at most %.2f", excess, 3*p.Lag*(high-low))
	if excess <= 0 || excess > 3*p.Lag*(high-low) {
		t.Errorf("counts %v more than its least claims allow, want more than 0 and at most %v", excess,
			3*p.Lag*(high-low))
	}
	if c.counted()-c.heard.least() > .01 {
		t.Errorf("counts %v long after it claimed more than %v", c.counted(), c.heard.least())
	}
}

// A replica that starts to claim counts its claim no sooner than a lag later: the mean has
// nothing that the others may not have received.
func TestRisingClaimsAreHeardFirst(t *testing.T) {
	const h = 0.005
	p := Params{Rate: 1000, TotalWeight: 10, Guarantee: 0, Lag: .4, Period: .05}
	c := New(p)
	for i := 0; float64(i)*h < p.Lag-h; i++ {
		c.Step(h, 50*h, Sums{Claims: 1000, Active: 9})
		c.Publish()
		if c.Rate() > 0 {
			t.Fatalf("%v in force after %v s, before anybody has heard a claim", c.Rate(), float64(i+1)*h)
		}
	}
}

// A bucket that is half full recharges at the rate in force, as an empty bucket does; and
// whatever arrives, no more is released than the bucket and the rate.
func TestRechargeIsTheRate(t *testing.T) {
	c := New(Params{Rate: 10, Bucket: 4})
	c.Step(.005, 4, Sums{})
	for c.Free() < 1 {
		c.Step(.005, 0, Sums{})
	}
	from := c.Free()
	for range 200 { // a second
		c.Step(.005, 0, Sums{})
	}
	if rise := c.Free() - from; rise < 2.7 || c.Free() > 4 { // 3 are free: the bucket was to be full
		t.Errorf("%v of the bucket recharged in a second, %v are free of 4", rise, c.Free())
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.Float64Range(1, 50).Draw(t, "B")
		c := New(Params{Rate: rapid.Float64Range(1, 200).Draw(t, "rate"), Bucket: b})
		out, may := 0.0, b
		for range 100 {
			h := math.Pow(10, rapid.Float64Range(-3, 1).Draw(t, "log h"))
			out += c.Step(h, rapid.Float64Range(0, 3*b).Draw(t, "a"), Sums{})
			may += (1 + epsilon) * c.Rate() * h
			if out > may*(1+1e-9) {
				t.Fatalf("released %v, bucket and rate allow %v", out, may)
			}
		}
	})
}

// One request that waits at a share of 1/s is a claim of 1/s more, not of 10/s.
func TestBacklogOfASmallShare(t *testing.T) {
	c := New(Params{Rate: 100, TotalWeight: 100, Lag: .1, Period: .05})
	c.Step(.005, 2, Sums{}) // the bucket has one
	idle := New(c.Params())
	idle.Step(.005, 2, Sums{})
	idle.Remove(idle.Backlog())
	c.Step(.005, 0, Sums{})
	idle.Step(.005, 0, Sums{})
	if more := c.Want() - idle.Want(); more < .5 || more > 1.05 {
		t.Errorf("a request that waits adds %v/s to the claim, want 1", more)
	}
}
