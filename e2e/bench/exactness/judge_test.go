package exactness

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func constant(rate, burst float64) regime {
	l := limit{rate, burst}
	return regime{l, l, never}
}

// drawArrivals draws ordered times, and which requests were admitted.
func drawArrivals(t *rapid.T) []arrival {
	var all []arrival
	now := time.Duration(0)
	for range rapid.IntRange(1, 60).Draw(t, "n") {
		now += time.Duration(1e9 * rapid.Float64Range(0, .5).Draw(t, "gap"))
		all = append(all, arrival{now, rapid.Bool().Draw(t, "admitted")})
	}
	return all
}

// The one-pass excess is the maximum over all windows, tried one by one.
func TestExcessIsTheWorstWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := constant(rapid.Float64Range(.5, 20).Draw(t, "rate"), rapid.Float64Range(1, 20).Draw(t, "burst"))
		all := drawArrivals(t)
		var f Figures
		f.worst(r, all)
		want := 0.0
		for i := range all {
			n := 0.0
			for j := i; j < len(all); j++ {
				if all[j].admitted {
					n++
				}
				want = max(want, n-r.before.rate*(all[j].t-all[i].t).Seconds()-r.before.burst)
			}
		}
		if math.Abs(f.Excess-want) > 1e-9 {
			t.Fatalf("excess %v, want %v", f.Excess, want)
		}
	})
}

// A system with the ideal bucket's decisions admits no more than the rate allows, and has no excess and no
// wrongful refusals, for any load.
func TestTheIdealIsPerfect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := constant(rapid.Float64Range(.5, 20).Draw(t, "rate"), rapid.Float64Range(1, 20).Draw(t, "burst"))
		all := drawArrivals(t)
		bucket := r.bucket(0)
		for i := range all {
			all[i].admitted = bucket.take(all[i].t)
		}
		var f Figures
		f.above(r, all)
		f.below(r, all)
		if f.Mean > 1 || f.Excess > 1e-5 || f.Wrongful != 0 {
			t.Fatalf("%+v", f)
		}
	})
}

func TestSlidingSecondSeesTheEdge(t *testing.T) {
	const ms = time.Millisecond
	all := []arrival{{950 * ms, true}, {960 * ms, true}, {1020 * ms, true}, {1030 * ms, true}, {1955 * ms, true}}
	if got := sliding(constant(2, 2), all); got != 2 {
		t.Errorf("%v, want 4 in a second of 2", got)
	}
}

// What a change's second holds is not judged, and windows do not span it.
func TestAChangeIsJudgedOnBothSides(t *testing.T) {
	const ms = time.Millisecond
	r := regime{limit{10, 1}, limit{1, 1}, 5000 * ms}
	all := []arrival{{4900 * ms, true}, {5100 * ms, true}, {5200 * ms, true}, {5300 * ms, true}, {6100 * ms, true},
		{6200 * ms, true}}
	var f Figures
	f.worst(r, all)
	if math.Abs(f.Excess-.9) > 1e-9 {
		t.Errorf("excess %v, want 0.9: two at 1/s with a tenth of a second between", f.Excess)
	}
}

func TestLoadsAskWhatTheySay(t *testing.T) {
	for _, l := range loads {
		for _, perSecond := range []float64{1.5, 80} {
			asks := l.shape(perSecond, 12)
			want := perSecond * 12
			if l.name == "edge" {
				want = perSecond * 2 * 4 // edges at 2, 5, 8 and 11 s
			}
			if got := float64(len(asks)); math.Abs(got-want) > 4 {
				t.Errorf("%s at %v: %v requests, want %v", l.name, perSecond, got, want)
			}
			if !slices.IsSortedFunc(asks, func(a, b at) int { return int(math.Copysign(1, a.t-b.t)) }) {
				t.Errorf("%s is not in order of time", l.name)
			}
			for _, a := range asks {
				if a.t < 0 || a.t > 12 || a.gateway < 0 || a.gateway > gateways ||
					a.gateway == gateways && (l.name != joining || a.t < 6) {
					t.Fatalf("%s asks gateway %d at %v", l.name, a.gateway, a.t)
				}
			}
		}
	}
}
