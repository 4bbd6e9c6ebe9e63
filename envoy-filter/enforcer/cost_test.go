package enforcer

import (
	"math"
	"testing"
)

// A response carries a finite number ≥ 0, or no cost; anything else is counted.
func TestParseCost(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, " 12.5\t": 12.5, "1e3": 1000} {
		enf := New(Options{})
		if cost, ok := enf.ParseCost(text); !ok || cost != want || enf.InvalidCosts() != 0 {
			t.Errorf("%q: %v %v, want %v; %d counted", text, cost, ok, want, enf.InvalidCosts())
		}
	}
	for text, counted := range map[string]uint64{
		"": 0, " \t": 0,
		"inf": 1, "+Infinity": 1, "nan": 1, "-1": 1, "1e999": 1, "many": 1, "1 2": 1,
	} {
		enf := New(Options{})
		if cost, ok := enf.ParseCost(text); ok || enf.InvalidCosts() != counted {
			t.Errorf("%q: %v %v, want nothing; %d counted, want %d", text, cost, ok, enf.InvalidCosts(), counted)
		}
	}
	enf := New(Options{})
	for _, text := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.5} {
		if cost, ok := enf.CheckCost(text); ok {
			t.Errorf("%v: %v", text, cost)
		}
	}
	if enf.InvalidCosts() != 4 {
		t.Errorf("%d counted, want 4", enf.InvalidCosts())
	}
}
