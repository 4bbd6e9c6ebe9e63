package main

import (
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The quick grid runs, prints a map per delay, and its home corner meets all targets.
func TestQuickGrid(t *testing.T) {
	var out strings.Builder
	file := filepath.Join(t.TempDir(), "grid.csv")
	if _, err := run(small, file, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if n := strings.Count(out.String(), "delay "); n != len(small.delays) {
		t.Errorf("%d maps, want %d", n, len(small.delays))
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 1+len(small.delays)*len(small.rates)*len(small.replicas) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		if row[0] == "1e+06" && row[2] == "0.05" && row[len(row)-1] != "" {
			t.Errorf("misses targets at home: %v", row)
		}
	}
}

func TestGridSaysWhereItCannotWrite(t *testing.T) {
	none := grid{effort: small.effort}
	if _, err := run(none, filepath.Join(t.TempDir(), "no", "such.csv"), io.Discard, io.Discard); err == nil {
		t.Error("wrote into a directory that is not there")
	}
}

func TestDelays(t *testing.T) {
	g := full
	if err := g.only("25,250"); err != nil || len(g.delays) != 2 || g.delays[0] != .025 || g.delays[1] != .25 {
		t.Errorf("delays %v, %v", g.delays, err)
	}
	for _, wrong := range []string{"fast", "25,,50", "-1", "NaN"} {
		if err := g.only(wrong); err == nil {
			t.Errorf("%q is no list of delays and was taken", wrong)
		}
	}
}
