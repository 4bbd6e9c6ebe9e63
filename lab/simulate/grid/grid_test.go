package grid

import (
	"context"
	"testing"
	"time"
)

// TestQuick plays the quick grid and checks both sides of the guarantee. No client below its limit is refused,
// and the excess over rate·t + burst stays within the stated bound.
func TestQuick(t *testing.T) {
	r, err := Run(context.Background(), Options{Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.System != Optimistic && row.System != Strict {
			continue
		}
		t.Logf("%-8s b=%-3g N=%-3d %-10s wrongful %.4f (%s) mean %.3f (%s) over %.3f excess %.1f spared %.2f (%s)",
			row.Limit, row.Burst, row.Replicas, row.System,
			row.Wrongful.Value, row.Wrongful.Where, row.Mean.Value, row.Mean.Where, row.Over.Value, row.Excess.Value,
			row.Spared.Value, row.Spared.Where)
		if row.Spared.Value > 1 {
			t.Errorf("%s burst %g, %s: %.1f over rate·t + burst, %.2f of the bound: %s", row.Limit, row.Burst,
				row.System, row.Excess.Value, row.Spared.Value, row.Spared.Where)
		}
		if row.System == Optimistic && row.Events == "" && row.Wrongful.Value > .01 {
			t.Errorf("%s burst %g: %.2f %% refused of a client below its limit: %s", row.Limit, row.Burst,
				100*row.Wrongful.Value, row.Wrongful.Where)
		}
	}
}

// Slack by hand: N = 3, δ = 0.265 s, r = 100/s, b = 20: p = 1, Lc = 29.5.
func TestSlack(t *testing.T) {
	c := Cell{Replicas: 3, Delay: 100 * time.Millisecond}
	for _, x := range []struct {
		strict bool
		want   float64
	}{{true, 9.5 + 2 + 2*26.5}, {false, 9.5 + 2 + 3*26.5 + 2*29.5}} {
		if got := Slack(100, 20, c, x.strict); got < x.want-1e-9 || got > x.want+1e-9 {
			t.Errorf("strict %v: slack %v, want %v", x.strict, got, x.want)
		}
	}
}
