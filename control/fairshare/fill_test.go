package fairshare_test

import (
	"math"
	"testing"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/vectortest"
)

func TestFillVectors(t *testing.T) {
	for _, v := range vectortest.Read(t, "../testdata/allocation.json", "single-additive") {
		var in struct {
			Mu        float64
			W, M, Cap []float64
		}
		var want struct {
			F, Price *float64
			X        []float64
			Status   string
		}
		vectortest.Decode(t, v.Input, &in)
		vectortest.Decode(t, v.Expect, &want)
		demands := make([]fairshare.Demand, len(in.W))
		for i := range demands {
			demands[i] = fairshare.Demand{Weight: in.W[i], Guaranteed: in.M[i], Cap: in.Cap[i]}
		}
		shares := make([]float64, len(demands))
		r := fairshare.Fill(in.Mu, demands, fairshare.Additive, 0, shares)
		for i := range shares {
			if !vectortest.Near(shares[i], want.X[i], v.Tol) {
				t.Errorf("%s: x[%d] = %v, want %v", v.ID, i, shares[i], want.X[i])
			}
		}
		if want.F != nil && !vectortest.Near(r.FairRate, *want.F, v.Tol) || want.F == nil && !math.IsInf(r.FairRate, 1) {
			t.Errorf("%s: f = %v, want %v", v.ID, r.FairRate, want.F)
		}
		if want.Price != nil && !vectortest.Near(r.Price, *want.Price, v.Tol) {
			t.Errorf("%s: price = %v, want %v", v.ID, r.Price, *want.Price)
		}
		if infeasible := want.Status == "infeasible"; (r.Status == fairshare.Infeasible) != infeasible {
			t.Errorf("%s: status %v, want %s", v.ID, r.Status, want.Status)
		}
	}
}
