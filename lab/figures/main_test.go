package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// Every figure is drawn, and its lines end where docs/reproduction.md says.
func TestFigures(t *testing.T) {
	dir := t.TempDir()
	ends := map[string]map[string]float64{
		"chemistry-6a":    {"output": 550},
		"chemistry-6b":    {"output": 346.53},
		"max-min-table-2": {"AF4: w = 2.5, m = 10": 36.56, "AF1: w = 1, m = 0": 10.625},
		"pricing-6-10":    {"Fig. 6: k = 1e+05, R = 5e+11": 764500},
	}
	for _, paper := range papers {
		for _, f := range paper() {
			if err := f.save(dir); err != nil {
				t.Fatal(err)
			}
			for _, suffix := range []string{".svg", ".csv"} {
				if info, err := os.Stat(filepath.Join(dir, f.name+suffix)); err != nil || info.Size() < 500 {
					t.Errorf("%s%s: %v, %v", f.name, suffix, info, err)
				}
			}
			for _, l := range f.lines {
				want, ok := ends[f.name][l.name]
				if last := l.points[len(l.points)-1].Y; ok && math.Abs(last-want) > .01*want {
					t.Errorf("%s: %s ends at %v, want %v", f.name, l.name, last, want)
				}
				delete(ends[f.name], l.name)
			}
		}
	}
	for name, left := range ends {
		if len(left) > 0 {
			t.Errorf("%s lacks %v", name, left)
		}
	}
}

func TestFiguresSayWhereTheyCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(file, io.Discard); err == nil {
		t.Error("drew into a file")
	}
}
