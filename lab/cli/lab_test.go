package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

func runLaboratory(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = Run(t.Context(), args, strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

// A figure comes with its findings and its charts.
func TestLabRun(t *testing.T) {
	dir := t.TempDir()
	status, out, errs := runLaboratory(t, "lab", "run", "chem-fig6a", "--short", "--out", dir)
	if status != command.ExitOK || !strings.Contains(out, "reproduced") || !strings.Contains(out, "chem-fig6a.svg") {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	for _, suffix := range []string{".svg", ".png", ".csv"} {
		if info, err := os.Stat(filepath.Join(dir, "chem-fig6a"+suffix)); err != nil || info.Size() < 500 {
			t.Errorf("%s: %v, %v", suffix, info, err)
		}
	}
	var results []labResult
	status, out, errs = runLaboratory(t, "lab", "run", "chem-fig6a", "--short", "-o", "json")
	if err := json.Unmarshal([]byte(out), &results); status != command.ExitOK || err != nil || len(results) != 1 ||
		len(results[0].Findings) == 0 {
		t.Errorf("status %d, %v: %s%s", status, err, out, errs)
	}
}

func TestLabList(t *testing.T) {
	status, out, errs := runLaboratory(t, "lab", "list")
	if status != command.ExitOK || !strings.Contains(out, "chem-fig8") || !strings.Contains(out, "not computed: ") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

func TestLabUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"chem-fig6a":            {"lab", "run", "chem-fig66"}, // suggested
		"titrate-lab lab list":  {"lab", "run", "nothing"},
		"at least 1 arg":        {"lab", "run"},
		"must be table or json": {"lab", "run", "chem-fig6a", "-o", "yaml"},
		"unknown command":       {"lab", "list", "x"},
	} {
		if status, _, errs := runLaboratory(t, args...); status != command.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: status %d, %q", args, status, errs)
		}
	}
}
