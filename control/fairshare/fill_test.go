package fairshare_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/titrate/titrate/control/fairshare"
)

// vector is one entry of testdata/allocation.json.
type vector struct {
	ID, Kind, Note string
	Input, Expect  json.RawMessage
	Tol            float64
}

// vectors loads the reference vectors of one kind and fails if there are none.
func vectors(t *testing.T, kind string) []vector {
	t.Helper()
	raw, err := os.ReadFile("../testdata/allocation.json")
	if err != nil {
		t.Fatal(err)
	}
	var all, picked []vector
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if v.Kind == kind {
			picked = append(picked, v)
		}
	}
	if len(picked) == 0 {
		t.Fatalf("no vector of kind %q", kind)
	}
	return picked
}

// decode unpacks JSON into v.
func decode(t *testing.T, raw json.RawMessage, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

// near reports whether got is within tol of want, relative beyond 1.
func near(got, want, tol float64) bool {
	return got == want || math.Abs(got-want) <= tol*math.Max(1, math.Abs(want))
}

func TestFillVectors(t *testing.T) {
	for _, v := range vectors(t, "single-additive") {
		var in struct {
			Mu        float64
			W, M, Cap []float64
		}
		var want struct {
			F, Price *float64
			X        []float64
			Status   string
		}
		decode(t, v.Input, &in)
		decode(t, v.Expect, &want)
		demands := make([]fairshare.Demand, len(in.W))
		for i := range demands {
			demands[i] = fairshare.Demand{Weight: in.W[i], Guaranteed: in.M[i], Cap: in.Cap[i]}
		}
		shares := make([]float64, len(demands))
		r := fairshare.Fill(in.Mu, demands, fairshare.Additive, 0, shares)
		for i := range shares {
			if !near(shares[i], want.X[i], v.Tol) {
				t.Errorf("%s: x[%d] = %v, want %v", v.ID, i, shares[i], want.X[i])
			}
		}
		if want.F != nil && !near(r.FairRate, *want.F, v.Tol) || want.F == nil && !math.IsInf(r.FairRate, 1) {
			t.Errorf("%s: f = %v, want %v", v.ID, r.FairRate, want.F)
		}
		if want.Price != nil && !near(r.Price, *want.Price, v.Tol) {
			t.Errorf("%s: price = %v, want %v", v.ID, r.Price, *want.Price)
		}
		if infeasible := want.Status == "infeasible"; (r.Status == fairshare.Infeasible) != infeasible {
			t.Errorf("%s: status %v, want %s", v.ID, r.Status, want.Status)
		}
	}
}
