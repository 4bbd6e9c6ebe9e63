package aqm_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/aqm"
)

// slowVSD is the equations in the comment of VSD, line by line: the oracle.
type slowVSD struct{ rr, z, p float64 }

func (v *slowVSD) step(ts, queued, enqueued, c0, dT, tau, clients float64, drop bool) {
	kS, delta, phi := .5/(math.Max(tau, clients/c0)+dT), .3, 1.
	if drop {
		kS, delta, phi = .5/dT, .5, .5
	}
	wf := 1 - math.Exp(-ts/(dT/2))
	v.rr += wf * (enqueued/ts - v.rr)
	surface := kS*(queued/c0-dT) + (v.rr-c0)/c0
	s := math.Min(math.Max(surface/phi, -1), 1)
	v.p = math.Min(math.Max(v.z+delta*s, 0), 1)
	v.z = math.Min(math.Max(v.z+ts*.3*kS*s, 0), 1)
}

// VSD is its equations over seven decades of the share.
func TestVSDIsItsEquations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dT, tau := rapid.Float64Range(.01, 1).Draw(t, "dT"), rapid.Float64Range(0, 1).Draw(t, "tau")
		c0 := 5 / dT * math.Pow(10, rapid.Float64Range(.01, 7).Draw(t, "log share"))
		drop := rapid.Bool().Draw(t, "drop")
		law, slow := aqm.VSD{Delay: dT, ClientDelay: tau}, slowVSD{rr: c0}
		if drop {
			law.Mode = aqm.DropMode
		}
		now, clients := 0.0, float64(rapid.IntRange(1, 100).Draw(t, "clients"))
		law.Step(now, 0, c0, clients)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			ts := rapid.Float64Range(.005, .2).Draw(t, "Ts")
			queued, offered := c0*dT*rapid.Float64Range(0, 4).Draw(t, "q"), c0*ts*rapid.Float64Range(0, 3).Draw(t, "r")
			enqueued := 0.0
			u := rapid.Float64Range(0, .999).Draw(t, "rand")
			want := aqm.Accept
			switch {
			case queued >= 3*c0*dT:
				want = aqm.Drop
			case u < slow.p && drop:
				want = aqm.Drop
			case u < slow.p:
				want = aqm.Mark
			}
			if got := law.Arrive(aqm.Arrival{Now: now, Cost: offered, Queued: queued, Rand: u}); got != want &&
				math.Abs(u-slow.p) > 1e-9 {
				t.Fatalf("q=%v of %v, rand %v at p=%v: %v, want %v", queued, c0*dT, u, slow.p, got, want)
			} else if got != aqm.Drop {
				enqueued = offered
			}
			before := now
			now += ts
			law.Step(now, queued, c0, clients)
			slow.step(now-before, queued, enqueued, c0, dT, tau, clients, drop)
			if math.Abs(law.Probability()-slow.p) > 1e-9 {
				t.Fatalf("p = %v, the equations give %v", law.Probability(), slow.p)
			}
		}
	})
}

// Whatever the parameters, a law gives verdicts and keeps its probability in [0,1].
func TestLawsSurviveBadParameters(t *testing.T) {
	bad := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e-7, 1, 1e7, math.MaxFloat64})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := bad.Draw(t, "a"), bad.Draw(t, "b"), bad.Draw(t, "c")
		for name, law := range map[string]aqm.Law{
			"vsd":      &aqm.VSD{Delay: a, ClientDelay: b, Deadline: c},
			"vsd drop": &aqm.VSD{Delay: a, Mode: aqm.DropMode, Deadline: b},
			"droptail": &aqm.DropTail{Delay: a, Deadline: b},
			"codel":    &aqm.CoDel{Delay: a, Window: b, Buffer: c},
		} {
			for k := range 20 {
				now := float64(k) * .02
				law.Step(now, float64(k), 100, 3)
				law.Arrive(aqm.Arrival{Now: now, Cost: 1, Queued: float64(k), Rand: .5})
				law.Depart(now, float64(k), .1)
				if p, ok := law.(interface{ Probability() float64 }); ok &&
					!(p.Probability() >= 0 && p.Probability() <= 1) {
					t.Fatalf("%s with %v %v %v: probability %v", name, a, b, c, p.Probability())
				}
			}
		}
	})
}

// A million steps later the law still answers a change of load as at the start.
func TestVSDDoesNotWindUp(t *testing.T) {
	answer := func(calm int) (steps int) {
		law, now := aqm.VSD{Delay: .1, Mode: aqm.DropMode}, 0.0
		for range calm {
			now += .01
			law.Step(now, 0, 1000, 1)
		}
		for law.Probability() < .4 && steps < 1000 {
			now += .01
			law.Arrive(aqm.Arrival{Now: now, Cost: 20, Rand: 1})
			law.Step(now, 200, 1000, 1)
			steps++
		}
		return steps
	}
	if soon, late := answer(100), answer(1_000_000); late > soon+1 {
		t.Errorf("answers after %d steps, %d after a million calm ones", soon, late)
	}
}
