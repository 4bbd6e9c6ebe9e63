package store_test

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/storetest"
)

// One transaction of 100 changed resources, and a snapshot of as many.
func BenchmarkApply100(b *testing.B) {
	s := storetest.Open(b)
	weight := 0.0
	for b.Loop() {
		weight++
		changes := make([]store.Change, 100)
		for i := range changes {
			changes[i] = store.Change{Resource: pool(fmt.Sprintf("p%03d", i), weight)}
		}
		if _, err := s.Apply(b.Context(), store.Note{}, changes); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnapshot10000(b *testing.B) {
	s := storetest.Open(b)
	for batch := range 100 {
		changes := make([]store.Change, 100)
		for i := range changes {
			changes[i] = store.Change{Resource: tenant(fmt.Sprintf("t%d-%d", batch, i))}
		}
		if _, err := s.Apply(b.Context(), store.Note{}, changes); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := s.Snapshot(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
