package reaction_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/papers/chemical"
	"github.com/titrate/titrate/papers/reaction"
)

// near reports whether got is within tol of want, relative to size.
func near(got, want, tol, size float64) bool { return math.Abs(got-want) <= tol*size }

// The kit's bucket and drc.Enzyme take the same backward Euler step: one by
// Newton on the mass-action equations, one in closed form. At a load of exactly
// 1 the backlog is ill conditioned, hence the tolerance.
func TestBucketIsTheEnzyme(t *testing.T) {
	bucket := reaction.NewBucket()
	rapid.Check(t, func(t *rapid.T) {
		depth := math.Pow(10, rapid.Float64Range(-1, 5).Draw(t, "log depth"))
		enzyme, v := drc.NewEnzyme(depth), reaction.NewVessel(bucket.Network)
		bucket.Fill(v, depth)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h := math.Pow(10, rapid.Float64Range(-5, 2).Draw(t, "log h"))
			rate := depth * math.Pow(10, rapid.Float64Range(-3, 2).Draw(t, "log rate"))
			arrived := rapid.Float64Range(0, 3).Draw(t, "load") * rate * h
			before := enzyme.Backlog()
			released := enzyme.Step(h, arrived, rate)
			bucket.Regulate(v, depth, rate)
			v.SetInput(bucket.Arrivals, arrived/h)
			if err := v.Step(h); err != nil {
				t.Fatal(err)
			}
			size := depth + before + arrived
			for name, x := range map[string][2]float64{
				"S": {v.Amount(bucket.S), enzyme.Backlog()}, "E": {v.Amount(bucket.E), enzyme.Free()},
				"ES": {v.Amount(bucket.ES), enzyme.Bound()}, "ET": {v.Amount(bucket.ET), enzyme.Spent()},
				"released": {h * v.Flux(bucket.Bind), released},
			} {
				if !near(x[0], x[1], 1e-7, size) {
					t.Fatalf("h=%g rate=%g depth=%g: %s %g, drc has %g", h, rate, depth, name, x[0], x[1])
				}
			}
		}
	})
}

// The inner loop of the controller with announced claims is that bucket, recharged at the rate in force until
// it is nearly full (drc.Controller). A policer's drain is one more reaction. Decay and binding are solved
// together here and in turn there, which differs by O(h) of what drains within a step.
func TestBucketIsTheInnerLoopOfTheController(t *testing.T) {
	for _, police := range []bool{false, true} {
		p := drc.Params{Rate: 1000, Weight: 1, TotalWeight: 10, Guarantee: 0.25, Lag: 0.15, Period: 0.05,
			Police: police}
		ctl, bucket := drc.New(p), reaction.NewBucket()
		v, depth := reaction.NewVessel(bucket.Network), ctl.Params().Bucket
		bucket.Fill(v, depth)
		tol := 1e-9
		if police {
			v.SetRate(bucket.Drain, 5)
			tol = 2e-2
		}
		const h = 0.001
		worst, scale := 0.0, 0.0
		for k := range 3000 {
			others := drc.Sums{Claims: 900, Active: 9}
			if k > 1500 {
				others = drc.Sums{Claims: 400, Active: 3, Unsaturated: 100}
			}
			arrived := 0.3
			if k%1000 < 200 {
				arrived = 0.02
			}
			if k%50 == 0 {
				ctl.Publish()
			}
			was := ctl.Enzyme()
			ctl.Step(h, arrived, others)
			spent := depth - was.Free() + min(was.Backlog()+arrived, was.Free())
			bucket.Regulate(v, depth, ctl.Rate()*min(16, max(1, depth/(1.01*spent))))
			v.SetInput(bucket.Arrivals, arrived/h)
			if err := v.Step(h); err != nil {
				t.Fatal(err)
			}
			z := ctl.Enzyme()
			worst = max(worst, math.Abs(v.Amount(bucket.S)-z.Backlog()), math.Abs(v.Amount(bucket.E)-z.Free()),
				math.Abs(v.Amount(bucket.ES)-z.Bound()))
			scale = max(scale, depth+z.Backlog())
		}
		t.Logf("police=%v: largest difference %.2g of %.4g", police, worst, scale)
		if worst > tol*scale {
			t.Errorf("police=%v: differs by %g, more than %g of %g", police, worst, tol, scale)
		}
	}
}

// The kit's adaptive controller and chemical.Controller agree step by step.
func TestAdaptiveIsTheController(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := reaction.Table1()
		k.K5 = rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, "k5")
		k = k.Scaled(math.Pow(10, rapid.Float64Range(-3, 2).Draw(t, "log scale")))
		a, v := adaptive(t, k)
		closed, moved := chemical.NewController(k), 0.0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h := math.Pow(10, rapid.Float64Range(-4, 0).Draw(t, "log h"))
			in := k.Enzyme * rapid.Float64Range(0, 5).Draw(t, "in")
			ext := k.Enzyme * rapid.Float64Range(0, 0.9).Draw(t, "ext")
			out := closed.Step(h, in, ext)
			v.SetInput(a.Int, in)
			v.SetInput(a.Ext, ext)
			if err := v.Step(h); err != nil {
				t.Fatal(err)
			}
			moved += h * (in + ext)
			s, e, es, et, load, f := closed.State()
			size := k.Enzyme + moved
			for i, x := range []float64{s, e, es, et, load, f} {
				if got := v.Amount(reaction.Species(i)); !near(got, x, 1e-8, size) {
					t.Fatalf("species %d: %g, chemical.Controller has %g", i, got, x)
				}
			}
			if !near(v.Flux(a.Out), out, 1e-8, size) {
				t.Fatalf("output %g, chemical.Controller has %g", v.Flux(a.Out), out)
			}
		}
	})
}

// adaptive builds the paper's controller at rest.
func adaptive(t interface{ Fatal(...any) }, c reaction.Constants) (reaction.Adaptive, *reaction.Vessel) {
	a, err := reaction.NewAdaptive(c)
	if err != nil {
		t.Fatal(err)
	}
	return a, a.NewVessel(c)
}
