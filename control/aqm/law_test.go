package aqm_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/control/aqm/aqmtest"
)

// laws are the implementations that the conformance tests run over.
func laws() map[string]aqm.Law {
	return map[string]aqm.Law{
		"vsd cooperative": &aqm.VSD{Delay: 0.05, ClientDelay: 0.1, Deadline: 1},
		"vsd drop":        &aqm.VSD{Delay: 0.05, Mode: aqm.DropMode},
		"droptail":        &aqm.DropTail{Delay: 0.05, Deadline: 1},
		"codel":           &aqm.CoDel{Delay: 0.005, Window: 0.1, Buffer: 500},
	}
}

func wantWithin(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %v, want %v within %v", what, got, want, tol)
	}
}

func TestLawsConform(t *testing.T) { aqmtest.Conform(t, laws) }

func TestDropTail(t *testing.T) {
	for _, c := range []struct {
		c0, queued, cost float64
		want             aqm.Verdict
	}{
		{1000, 48, 1, aqm.Accept}, {1000, 49, 1, aqm.Accept}, {1000, 50, 1, aqm.Drop},
		{1, 2, 1, aqm.Accept}, {1, 3, 1, aqm.Drop}, // never less than three
		{0, 2, 1, aqm.Accept}, {0, 3, 1, aqm.Drop},
		{1, 0, 100, aqm.Accept}, {1, 1, 100, aqm.Drop}, // a large one only when idle
	} {
		law := aqm.DropTail{Delay: 0.05}
		law.Step(0, c.queued, c.c0, 1)
		if got := law.Arrive(aqm.Arrival{Cost: c.cost, Queued: c.queued}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// RFC 8289: the first hit an interval after the sojourn time rose above the target, then
// interval/√count apart, and none after it has fallen. On its return soon after, the
// pressure resumes.
func TestCoDelControlLaw(t *testing.T) {
	codel := aqm.CoDel{Delay: 0.005, Window: 0.1, Buffer: 1000} // the parameters of the RFC
	var hits []float64
	for ms := 0; ms < 1000; ms++ {
		if codel.Depart(float64(ms)/1000, 50, 0.02) == aqm.Mark {
			hits = append(hits, float64(ms))
		}
	}
	want := []float64{100}
	for next, count := 200.0, 2.0; next < 1000; count++ {
		want = append(want, math.Ceil(next-1e-6))
		next += 100 / math.Sqrt(count)
	}
	if len(hits) != len(want) {
		t.Fatalf("hits at %v ms, want %v", hits, want)
	}
	for i := range hits {
		wantWithin(t, "hit", hits[i], want[i], 1)
	}
	if codel.Depart(1, 50, 0.001) != aqm.Accept || codel.Depart(1.0001, 0, 9) != aqm.Accept {
		t.Error("a short sojourn, or nothing behind the head, ends the state")
	}
	again := 0
	for ms := 1001; ms < 1201; ms++ {
		if codel.Depart(float64(ms)/1000, 50, 0.02) == aqm.Mark {
			again++
		}
	}
	if again < 3 {
		t.Errorf("%d hits in 100 ms after a return, want the pressure resumed", again)
	}
}

func TestVSDVerdicts(t *testing.T) {
	arrive := func(mode aqm.Mode, queued, random float64, greedy bool) aqm.Verdict {
		law := aqm.VSD{Delay: 0.1, ClientDelay: 0.1, Mode: mode}
		for now := 0.0; now < 20; now += 0.01 { // far above target: p → 1
			law.Arrive(aqm.Arrival{Now: now, Cost: 10, Rand: 1})
			law.Step(now, 500, 1000, 1)
		}
		return law.Arrive(aqm.Arrival{Now: 20, Cost: 1, Queued: queued, Rand: random, Greedy: greedy})
	}
	for name, c := range map[string]struct{ got, want aqm.Verdict }{
		"cooperative":      {arrive(aqm.Cooperative, 150, 0.1, false), aqm.Mark},
		"greedy":           {arrive(aqm.Cooperative, 150, 0.1, true), aqm.Drop},
		"drop mode":        {arrive(aqm.DropMode, 150, 0.1, false), aqm.Drop},
		"beyond 3·C0·dT":   {arrive(aqm.Cooperative, 300, 0.9999999, false), aqm.Drop},
		"just below it":    {arrive(aqm.Cooperative, 299, 1, false), aqm.Accept},
		"small: drop tail": {small(4), aqm.Drop},
		"small: room":      {small(2), aqm.Accept},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

// small is VSD's verdict at a share of 10/s (C0·dT = 1).
func small(queued float64) aqm.Verdict {
	law := aqm.VSD{Delay: 0.1}
	law.Step(0, queued, 10, 1)
	return law.Arrive(aqm.Arrival{Cost: 1, Queued: queued})
}

func TestDeadline(t *testing.T) {
	law := aqm.VSD{Delay: 0.1, Deadline: 0.5}
	if law.Depart(0, 0, 0.4) != aqm.Accept || law.Depart(0, 0, 0.6) != aqm.Drop {
		t.Error("a request past its deadline must be discarded, one before it kept")
	}
}

func TestInterval(t *testing.T) {
	for c0, want := range map[float64]float64{100: 0.02, 1e6: 0.01, 1: 0.2, 0: 0.2, -1: 0.2} {
		if got := aqm.Interval(c0); got != want {
			t.Errorf("Interval(%v) = %v, want %v", c0, got, want)
		}
	}
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
