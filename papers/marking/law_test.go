package marking_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/control/aqm/aqmtest"
	"github.com/titrate/titrate/papers/marking"
)

// laws are the implementations that the conformance tests run over.
func laws() map[string]aqm.Law {
	vs, red, rem := marking.PaperVS(), marking.DefaultRED(500), marking.DefaultREM(150, 500)
	pi, pie := marking.HollotPI(150, 500), marking.DefaultPIE(500)
	return map[string]aqm.Law{"vs": &vs, "red": &red, "rem": &rem, "pi": &pi, "pie": &pie}
}

// prober is a law whose probability can be read.
type prober interface {
	aqm.Law
	Probability() float64
}

func TestLawsConform(t *testing.T) { aqmtest.Conform(t, laws) }

// Whatever the parameters, a law gives verdicts and keeps its probability in [0,1].
func TestLawsSurviveBadParameters(t *testing.T) {
	bad := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e-7, 1, 1e7, math.MaxFloat64})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c, d := bad.Draw(t, "a"), bad.Draw(t, "b"), bad.Draw(t, "c"), bad.Draw(t, "d")
		for name, law := range map[string]prober{
			"vs":  &marking.VS{Sessions: a, Delay: b, MaxDelay: c, Slope: d, Alpha: a, Delta: b, Target: c, Buffer: d},
			"red": &marking.RED{Min: a, Max: b, MaxP: c, Weight: d, Buffer: a},
			"rem": &marking.REM{Target: a, Gamma: b, Alpha: c, Phi: d, Period: a, Buffer: b},
			"pi":  &marking.PI{A: a, B: b, Frequency: c, Target: d, Buffer: a},
			"pie": &marking.PIE{Delay: a, Burst: b, Buffer: c},
		} {
			for k := range 20 {
				now := float64(k) * .02
				law.Step(now, float64(k), 100, 3)
				law.Arrive(aqm.Arrival{Now: now, Cost: 1, Queued: float64(k), Rand: .5})
				law.Depart(now, float64(k), .1)
				if p := law.Probability(); !(p >= 0 && p <= 1) {
					t.Fatalf("%s with %v %v %v %v: probability %v", name, a, b, c, d, p)
				}
			}
		}
	})
}

// outcome are the figures of a simulated queue in the second half of a run.
type outcome struct{ delay, p, offered, served, drops float64 }

// overload drives a law for 120 s in front of a server of c0 requests/s with a Poisson stream of requests that
// ignores the law's answers.
func overload(law prober, c0, offered float64) (o outcome) {
	const dt, duration = 1e-3, 120.0
	rng := rand.New(rand.NewPCG(4, 1))
	var queue []float64 // arrival times
	credit, next, samples := 0.0, 0.0, 0.0
	for now := 0.0; now < duration; now += dt {
		half := 0.0
		if now > duration/2 {
			half = 1
		}
		if now >= next {
			law.Step(now, float64(len(queue)), c0, 10)
			next = now + aqm.Interval(c0)
			o.p, samples = o.p+half*law.Probability(), samples+half
		}
		for p := rng.Float64(); p > math.Exp(-offered*dt); p *= rng.Float64() {
			v := law.Arrive(aqm.Arrival{Now: now, Cost: 1, Queued: float64(len(queue)), Rand: rng.Float64()})
			if o.offered += half; v == aqm.Drop {
				o.drops += half
			} else {
				queue = append(queue, now)
			}
		}
		for credit = min(credit+c0*dt, 1+c0*dt); credit >= 1 && len(queue) > 0; queue = queue[1:] {
			credit--
			o.served, o.delay = o.served+half, o.delay+half*(now-queue[0])
		}
	}
	o.delay, o.p = o.delay/o.served, o.p/samples
	o.served /= c0 * duration / 2 // utilisation
	return o
}

func BenchmarkLaws(b *testing.B) {
	all := laws()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		law := all[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			now := 0.0
			for b.Loop() {
				now += 0.01
				law.Step(now, 20, 500, 10)
				law.Arrive(aqm.Arrival{Now: now, Cost: 1, Queued: 20, Rand: 0.5})
			}
		})
	}
}
