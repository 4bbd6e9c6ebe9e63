package measure

import (
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
	"pgregory.net/rapid"
)

// Phases follow each other without a gap from start to end; events and the end of
// the warm-up begin one.
func TestPhases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenario.New(time.Duration(rapid.IntRange(2, 100).Draw(t, "seconds"))*time.Second, 1)
		ms := func(label string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(s.Duration/time.Millisecond)-1).Draw(t,
				label)) * time.Millisecond
		}
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			s.Events = append(s.Events, scenario.Event{At: ms("at"), Kind: scenario.Heal})
		}
		for range rapid.IntRange(0, 5).Draw(t, "clients") {
			s.Clients = append(s.Clients, scenario.Client{Demand: scenario.OnOff(1, ms("on")+1,
				ms("off")+100*time.Millisecond)})
		}
		p := newPlan(s, rapid.IntRange(0, 1000).Draw(t, "rows"))
		at := time.Duration(0)
		begins := map[time.Duration]bool{}
		for i, ph := range p.phases {
			if ph.from != at || ph.to <= ph.from || ph.judged != (ph.from >= s.Warmup) {
				t.Fatalf("phase %d: %+v after %v", i, ph, at)
			}
			if p.phaseOf(ph.from) != i || p.phaseOf(ph.to-1) != i {
				t.Fatalf("phase %d: %+v is found as %d, %d", i, ph, p.phaseOf(ph.from), p.phaseOf(ph.to-1))
			}
			begins[at], at = true, ph.to
		}
		for _, e := range s.Events {
			if !begins[e.At] {
				t.Fatalf("no phase begins at the event of %v", e.At)
			}
		}
		if at != s.Duration || !begins[s.Warmup] || time.Duration(p.bins)*p.bin < s.Duration {
			t.Fatalf("%+v", p)
		}
	})
}

func TestSumOfBins(t *testing.T) {
	reference := &Reference{plan: plan{bin: 100 * time.Millisecond, bins: 10}}
	bins := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, c := range []struct {
		from, to time.Duration
		want     float64
	}{{0, time.Second, 55}, {100 * time.Millisecond, 300 * time.Millisecond, 5},
		{150 * time.Millisecond, 250 * time.Millisecond, 2.5}, {0, 0, 0}} {
		if got := reference.sum(bins, c.from, c.to); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v to %v: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}
