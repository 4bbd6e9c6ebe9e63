package solve_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/lab/solve"
	"github.com/titrate/titrate/services/document"
)

var update = flag.Bool("update", false, "write what the examples give now to testdata")

// Every example of the lab has its table and its JSON in testdata.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../lab/examples/solve-*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			p, r := solveFile(t, file)
			var table, json bytes.Buffer
			if err := r.WriteTable(&table, p, false); err != nil {
				t.Fatal(err)
			}
			if err := r.WriteJSON(&json); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", table.Bytes())
			golden(t, name+".json", json.Bytes())
		})
	}
}

func TestRichTableHasBlocks(t *testing.T) {
	p, r := solveFile(t, "../../lab/examples/solve-6-several-pools.yaml")
	var table bytes.Buffer
	if err := r.WriteTable(&table, p, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "████░░░░░░░░░░░░░░░░░░░░  18%") {
		t.Errorf("no bar of blocks:\n%s", &table)
	}
}

func solveFile(t *testing.T, file string) (*solve.Problem, *solve.Result) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	problems, err := solve.Parse([]*document.File{document.Open(file, in)})
	if err != nil || len(problems) != 1 {
		t.Fatal(len(problems), err)
	}
	r, err := problems[0].Solve()
	if err != nil {
		t.Fatal(err)
	}
	return problems[0], r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-update accepts it):\n%s\nwant\n%s", path, got, want)
	}
}
