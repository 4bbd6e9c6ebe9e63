package fault

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestSchedule(t *testing.T) {
	const length = 5 * time.Minute
	events := Schedule(7, length, Kinds)
	if !reflect.DeepEqual(events, Schedule(7, length, Kinds)) {
		t.Error("the same seed gives another schedule")
	}
	if reflect.DeepEqual(events, Schedule(8, length, Kinds)) {
		t.Error("another seed gives the same schedule")
	}
	seen, until := map[string]bool{}, map[string]time.Duration{}
	for i, e := range events {
		if i < len(Kinds) && seen[e.Kind.Name] {
			t.Errorf("%s comes again before all others have come", e.Kind.Name)
		}
		seen[e.Kind.Name] = true
		if i > 0 && e.At < events[i-1].At || e.At < Warm || e.At+e.Last > length {
			t.Errorf("%s at %v for %v: out of order, or out of %v to %v", e.Kind.Name, e.At, e.Last, Warm, length)
		}
		for touched, end := range until {
			together := touched == e.Kind.Touches || touched == Everything || e.Kind.Touches == Everything
			if together && e.At < end {
				t.Errorf("%s begins at %v, while another that touches %s lasts until %v", e.Kind.Name, e.At, touched,
					end)
			}
		}
		until[e.Kind.Touches] = e.At + e.Last
	}
}

func TestSelect(t *testing.T) {
	kinds, err := Select([]string{"kill", "restart-envoy"}, false)
	if err != nil || len(kinds) < 4 {
		t.Errorf("%d kinds, %v", len(kinds), err)
	}
	if _, err := Select([]string{"kil"}, false); err == nil {
		t.Error("half a word is a name")
	}
	for sites, want := range map[bool]int{false: len(Kinds), true: len(Kinds) + len(OfSites)} {
		if all, err := Select(nil, sites); err != nil || len(all) != want {
			t.Errorf("%d kinds, %v", len(all), err)
		}
		if _, err := Select([]string{"partition-sites"}, sites); (err == nil) != sites {
			t.Errorf("with sites %v: %v", sites, err)
		}
	}
}

func TestKindsAreWhole(t *testing.T) {
	for _, k := range slices.Concat(Kinds, OfSites) {
		if k.Name == "" || k.Does == "" || k.Touches == "" || k.Draw == nil || k.Longest < k.Shortest {
			t.Errorf("%+v", k)
		}
	}
}
