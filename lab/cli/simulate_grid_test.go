package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/titrate/titrate/lab/simulate/grid"
	"github.com/titrate/titrate/services/command"
)

// The quick grid comes in all formats, with rivals, and says where they are better.
func TestSimulateGrid(t *testing.T) {
	if testing.Short() {
		t.Skip("plays grids")
	}
	status, out, errs := runSimulate(t, t.Context(), "", "grid", "small-limits", "--quick", "-o", "json")
	var r grid.Result
	if err := json.Unmarshal([]byte(out), &r); status != command.ExitOK || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, errs)
	}
	if got := strings.Join(r.Systems(), " "); got != "optimistic strict static claims" || len(r.Losses) == 0 {
		t.Errorf("systems %s, %d losses", got, len(r.Losses))
	}
	for output, want := range map[gridFormat][]string{"table": {"OPTIMISTIC", "REFUSED: EXACT"},
		"markdown": {"| limit | burst | N |", "| limit | burst | way, ms |"}} {
		var b strings.Builder
		if err := writeGrid(&b, &r, output); err != nil {
			t.Error(err)
		}
		for _, part := range want {
			if !strings.Contains(b.String(), part) {
				t.Errorf("-o %s lacks %q: %s", output, part, &b)
			}
		}
	}
}

// A part of the grid: the gateways of one site. EXACT keeps within its bound there, and refuses less
// than one in a thousand requests of clients below their limit.
func TestSimulateGridOfASite(t *testing.T) {
	if testing.Short() {
		t.Skip("plays a grid")
	}
	status, out, errs := runSimulate(t, t.Context(), "", "grid", "small-limits", "--quick", "--gateways", "3",
		"--delays",
		"1ms", "-o", "json")
	var r grid.Result
	if err := json.Unmarshal([]byte(out),
		&r); status != command.ExitOK || err != nil || len(r.Rows) != 0 || len(r.Site) == 0 {
		t.Fatalf("status %d, %v: %s%s", status, err, errs, out)
	}
	within, refused := 0, 0
	for _, row := range r.Site {
		if row.System != grid.Exact {
			continue
		}
		within, refused = within+row.Within, refused+row.Refused
		if row.Excess.Value > row.Bound {
			t.Errorf("%s burst %g: %.1f over, bound %.1f: %s", row.Limit, row.Burst, row.Excess.Value, row.Bound,
				row.Excess.Where)
		}
	}
	if refused*1000 > within {
		t.Errorf("%d of %d refused", refused, within)
	}
}

func TestSimulateGridUsage(t *testing.T) {
	for _, args := range [][]string{{"grid"}, {"grid", "large-limits"}, {"grid", "small-limits", "-o", "yaml"},
		{"grid", "small-limits", "--gateways", "4"}, {"grid", "small-limits", "--quick", "--delays", "2ms"}} {
		if status, _, errs := runSimulate(t, t.Context(), "", args...); status != command.ExitUsage {
			t.Errorf("%v: status %d, want %d: %s", args, status, command.ExitUsage, errs)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if status, _, errs := runSimulate(t, ended, "", "grid",
		"small-limits"); status != command.ExitFailed || errs == "" {
		t.Errorf("interrupted: status %d, %q", status, errs)
	}
}
