package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/simulate/grid"
)

// The quick grid comes in all formats, with rivals, and tells where they are better.
func TestSimulateGrid(t *testing.T) {
	if testing.Short() {
		t.Skip("plays grids")
	}
	status, out, errs := runSimulate(t, t.Context(), "", "grid", "small-limits", "--quick", "-o", "json")
	var r grid.Result
	if err := json.Unmarshal([]byte(out), &r); status != exitOK || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, errs)
	}
	if got := strings.Join(r.Systems(), " "); got != "optimistic strict static claims" || len(r.Losses) == 0 {
		t.Errorf("systems %s, %d losses", got, len(r.Losses))
	}
	for output, want := range map[string]string{"table": "OPTIMISTIC", "markdown": "| limit | burst | N |"} {
		if status, out, errs := runSimulate(t, t.Context(), "", "grid", "small-limits", "--quick", "-o",
			output); status != exitOK || !strings.Contains(out, want) {
			t.Errorf("-o %s: status %d, %s%s", output, status, out, errs)
		}
	}
}

func TestSimulateGridUsage(t *testing.T) {
	for _, args := range [][]string{{"grid"}, {"grid", "large-limits"}, {"grid", "small-limits", "-o", "yaml"}} {
		if status, _, errs := runSimulate(t, t.Context(), "", args...); status != exitUsage {
			t.Errorf("%v: status %d, want %d: %s", args, status, exitUsage, errs)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if status, _, errs := runSimulate(t, ended, "", "grid", "small-limits"); status != exitFailed || errs == "" {
		t.Errorf("interrupted: status %d, %q", status, errs)
	}
}
