package maxmin_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// vector is one entry of testdata/gains-and-marking.json.
type vector struct {
	ID, Kind, Note string
	Input, Expect  json.RawMessage
	Tol            float64
}

// vectors loads the reference vectors of one kind and fails if there are none.
func vectors(t *testing.T, kind string) []vector {
	t.Helper()
	raw, err := os.ReadFile("../testdata/gains-and-marking.json")
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
