package core

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/agent/applied"
)

// reset has a client of the quota reset at an instant, 0 for never. The coordinator knows it first, then agents and
// gateways, one after the other.
func (w *quotaWorld) reset(revision int64, at config.Instant) {
	w.book.reset = at
	c := w.configuration()
	if c.Revision = revision; at != 0 {
		c.Tenants[0].Resets = []config.Reset{{Limit: "monthly", Client: "c", At: at}}
	}
	for i, a := range w.agents {
		w.after(time.Duration(20+40*i)*time.Millisecond, func() {
			a.perform(func() Effects {
				out, err := a.Configure(&applied.Configuration{Revision: revision, Config: c})
				if err != nil {
					w.t.Fatal(err)
				}
				return out
			})
		})
		w.after(time.Duration(30+40*(len(w.agents)-i))*time.Millisecond, func() {
			if err := a.engine.Apply(c); err != nil {
				w.t.Fatal(err)
			}
		})
	}
}

// A client that is reset has the whole amount once more, over all agents and gateways, and what it used before is
// still reported. When the reset is taken back nothing is left.
func TestQuotaReset(t *testing.T) {
	w := newQuotaWorld(t, 3)
	w.flood(5*time.Second, 40)
	if got := w.admitted[20_000]; got != quotaAmount {
		t.Fatalf("%d admitted before the reset", got)
	}
	w.reset(2, 77)
	w.flood(6*time.Second, 40)
	w.run(4 * time.Second)
	got := w.admitted[20_000]
	if got > 2*quotaAmount || got < 2*quotaAmount-5 {
		t.Errorf("%d admitted, want %d", got, 2*quotaAmount)
	}
	if used := w.book.used(20_000); used != float64(got) {
		t.Errorf("owners have reported %v of %d", used, got)
	}
	w.reset(3, 0)
	w.flood(3*time.Second, 40)
	if after := w.admitted[20_000]; after != got {
		t.Errorf("%d admitted after the reset was taken back", after-got)
	}
}

// A reset while the client uses its quota: what is left of the amount before is lost with its key.
func TestQuotaResetInUse(t *testing.T) {
	w := newQuotaWorld(t, 3)
	w.flood(time.Second, 20)
	before := w.admitted[20_000]
	w.reset(2, 77)
	w.flood(8*time.Second, 40)
	w.run(4 * time.Second)
	if got := w.admitted[20_000] - before; got < quotaAmount-5 || got > 2*quotaAmount-before {
		t.Errorf("%d admitted after the reset, want %d, and less than %d", got, quotaAmount, 2*quotaAmount-before)
	}
}
