package command

import "testing"

// One processor after five seconds with little to do, all of them as soon as there is much, and no change between.
func TestProcessors(t *testing.T) {
	var p processors
	for i, c := range []struct {
		used float64
		one  bool
	}{
		{.05, false}, {.05, false}, {.05, false}, {.05, false}, {.05, true}, // five looks
		{.2, true}, {.05, true}, {.2, true}, // neither little nor much
		{.3, false},                                                         // much
		{.2, false}, {.05, false}, {.05, false}, {.05, false}, {.05, false}, // four looks
		{.13, false},                                                        // the count restarts
		{.05, false}, {.05, false}, {.05, false}, {.05, false}, {.05, true}, // five looks
		{2, false},
	} {
		if got := p.look(c.used); got != c.one {
			t.Errorf("look %d at %v: one processor is %v, want %v", i, c.used, got, c.one)
		}
	}
}
