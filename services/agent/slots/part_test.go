package slots

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

// While some agents are unreachable, the owners here have their part of the slots.
func TestPartOfACut(t *testing.T) {
	f := newFleet(t, 1, 1, 6)
	a := f.agents[0]
	f.run(f.now + unknownFor)
	number := uint32(0)
	ask := func() {
		number++
		a.d.Ask(f.now, 1, &exchange.SlotAsks{Owner: a.life, Sent: 1, List: []exchange.SlotAsk{{Key: 7, KeyName: name(7),
			Ask: slots.Ask{Session: 1, Number: number, Register: true, Want: 6, Patience: int64(time.Second)}}}})
	}
	out := func(want int) {
		t.Helper()
		if s := a.d.Stats(); s.Out != want {
			t.Errorf("%d slots out, want %d", s.Out, want)
		}
	}
	a.d.SetPart(f.now, 1, 3)
	ask()
	out(2)
	a.d.SetPart(f.now, 2, 3)
	ask()
	out(4)
	a.d.SetPart(f.now, 1, 3) // no request ends early
	out(4)
	if got := a.d.part(1); got != 1 {
		t.Errorf("a limit of 1 has %d", got)
	}
}
