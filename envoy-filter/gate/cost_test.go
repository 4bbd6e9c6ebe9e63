package gate

import (
	"math"
	"testing"
)

// What a response tells is a finite number ≥ 0, or nothing; what is neither is counted.
func TestParseCost(t *testing.T) {
	for said, want := range map[string]float64{"0": 0, " 12.5\t": 12.5, "1e3": 1000} {
		g := New(Options{})
		if cost, ok := g.ParseCost(said); !ok || cost != want || g.BadCosts() != 0 {
			t.Errorf("%q: %v %v, want %v; %d counted", said, cost, ok, want, g.BadCosts())
		}
	}
	for said, counted := range map[string]uint64{
		"": 0, " \t": 0,
		"inf": 1, "+Infinity": 1, "nan": 1, "-1": 1, "1e999": 1, "many": 1, "1 2": 1,
	} {
		g := New(Options{})
		if cost, ok := g.ParseCost(said); ok || g.BadCosts() != counted {
			t.Errorf("%q: %v %v, want nothing; %d counted, want %d", said, cost, ok, g.BadCosts(), counted)
		}
	}
	g := New(Options{})
	for _, said := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.5} {
		if cost, ok := g.CheckCost(said); ok {
			t.Errorf("%v: %v", said, cost)
		}
	}
	if g.BadCosts() != 4 {
		t.Errorf("%d counted, want 4", g.BadCosts())
	}
}
