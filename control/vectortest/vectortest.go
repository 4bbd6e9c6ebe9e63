// Package vectortest reads reference vectors: inputs with the results that another program
// has found for them. Each file is a list in JSON.
package vectortest

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// Vector is one entry of a file.
type Vector struct {
	ID, Kind, Note string
	Input, Expect  json.RawMessage
	Tol            float64
}

// Read returns the vectors of one kind, or of all if kind is "". It fails the test if
// there are none.
func Read(t *testing.T, file, kind string) []Vector {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all, picked []Vector
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if kind == "" || v.Kind == kind {
			picked = append(picked, v)
		}
	}
	if len(picked) == 0 {
		t.Fatalf("%s has no vector of kind %q", file, kind)
	}
	return picked
}

// Decode unpacks JSON into v.
func Decode(t *testing.T, raw json.RawMessage, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

// Near reports whether got is within tol of want, relative beyond 1.
func Near(got, want, tol float64) bool {
	return got == want || math.Abs(got-want) <= tol*math.Max(1, math.Abs(want))
}
