package marking_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/control/vectortest"
	"github.com/titrate/titrate/papers/marking"
)

func TestPublishedLawVectors(t *testing.T) {
	seen := 0
	for _, v := range vectortest.Read(t, "../testdata/gains-and-marking.json", "") {
		switch v.Kind {
		case "vs-law":
			seen++
			checkLaw(t, v.Input, v.Expect, v.Tol)
		case "vs-gamma":
			seen++
			var in struct{ M, Tau []float64 }
			var want struct{ Gamma float64 }
			vectortest.Decode(t, v.Input, &in)
			vectortest.Decode(t, v.Expect, &want)
			if got := marking.Gamma(in.M[0], in.M[1], in.Tau[0], in.Tau[1]); math.Abs(got-want.Gamma) > 5e-4 {
				t.Errorf("%s: gamma %v, want %v", v.ID, got, want.Gamma)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d vectors of the published law, want 2", seen)
	}
}

func checkLaw(t *testing.T, input, expect json.RawMessage, tol float64) {
	t.Helper()
	var in struct{ Mbar, Taubar, KS, Alpha, Delta, Qd, T1, C0 float64 }
	var want []struct {
		Q, R, P float64
		Raw     float64 `json:"p_raw"`
	}
	vectortest.Decode(t, input, &in)
	vectortest.Decode(t, expect, &want)
	law := marking.VS{Sessions: in.Mbar, Delay: in.Taubar, MaxDelay: in.T1, Slope: in.KS, Alpha: in.Alpha,
		Delta:  in.Delta,
		Target: in.Qd, Buffer: 1e9}
	for _, w := range want {
		if got := law.Marking(w.Q, w.R, in.C0); math.Abs(got-w.Raw) > math.Max(tol, 5e-10) {
			t.Errorf("q=%v r=%v: %v, want %v", w.Q, w.R, got, w.Raw)
		}
		stepped := law
		stepped.Step(0, 0, in.C0, 0)
		stepped.Arrive(aqm.Arrival{Cost: w.R, Rand: 1})
		stepped.Step(1, w.Q, in.C0, 0)
		if got := stepped.Probability(); math.Abs(got-w.P) > math.Max(tol, 5e-10) {
			t.Errorf("q=%v r=%v: saturated %v, want %v", w.Q, w.R, got, w.P)
		}
	}
}
