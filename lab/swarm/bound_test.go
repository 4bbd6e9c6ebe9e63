package swarm

import (
	"math"
	"testing"
)

// One bucket refuses what queueing theory says.
func TestCentral(t *testing.T) {
	for _, tc := range []struct{ load, room, want, tolerance float64 }{
		{.8, 1, .8 / 1.8, .01},                   // no room: the time of one request after each
		{.8, 8, .2165 * math.Exp(-.431*8), .4},   // near its limit from above
		{.8, 10, .2165 * math.Exp(-.431*10), .4}, //
		{2, 1, 1 - 1/(2*1.5), .01},               // one request, then half of its time until the next
		{2, 10, .5, .01},                         // overloaded, it gives its rate
	} {
		if got := central(tc.load, tc.room); math.Abs(got/tc.want-1) > tc.tolerance {
			t.Errorf("load %v, room %v: refuses %v, want %v", tc.load, tc.room, got, tc.want)
		}
	}
}

// Every missed target has a bound, and the letters of Misses are the letters of Missed.
func TestMissed(t *testing.T) {
	for _, c := range []Cell{{1, 2, .025}, {10, 30, .025}, {100, 10, 1}, {1e4, 3, .025}} {
		r := Measure(c, Quick)
		letters := ""
		for _, m := range r.Missed() {
			letters += m.Target
			if !(m.Bound >= 0) || m.Target == "u" && m.Bound > 1 {
				t.Errorf("%+v: %+v", c, m)
			}
		}
		if letters != r.Misses() {
			t.Errorf("%+v: %q and %q", c, letters, r.Misses())
		}
	}
}

// A cell at its bound is physics, one beyond is not.
func TestPhysics(t *testing.T) {
	r := Result{Cell: Cell{Rate: 100, Replicas: 100, Delay: .025}, Lag: .1, effort: Full, UseEven: 1, UseLone: 1,
		UseSkewed: 1, OverStrict: .5, OverQuarter: .5, Settling: 180}
	want := []Miss{{"o", .5, .5, true}, {"s", 180, 180, true}}
	for range 2 {
		got := r.Missed()
		if len(got) != len(want) || got[0] != want[0] || math.Abs(got[1].Bound-180) > 1e-9 ||
			got[1].Physics != want[1].Physics {
			t.Errorf("missed %+v, want %+v", got, want)
		}
		r.OverQuarter, r.Settling = .51, 181
		want = []Miss{{"o", .51, .5, false}, {"s", 181, 180, false}}
	}
}
