package wan

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/robustness/wire"
)

// Packets between sites, and to the coordinators, take the link's way; others pass. A site that is cut off sends
// nothing, and receives nothing.
func TestDisturb(t *testing.T) {
	own, a, b, c := &wire.Host{}, &wire.Host{}, &wire.Host{}, &wire.Host{}
	n := &Network{Own: own, Sites: []*wire.Host{a, b, c}, bytes: make([]atomic.Int64, 9)}
	n.SetLink(Link{Delay: time.Second, Jitter: time.Minute, Loss: .5})
	n.SetAPI(7)
	n.Join()
	slow, cut, at := wire.Fault{Delay: time.Second, Jitter: time.Minute, Loss: .5}, wire.Fault{Cut: true}, wire.Packet{}
	api := wire.Packet{To: 7}
	type want struct {
		from, to *wire.Host
		p        wire.Packet
		fault    wire.Fault
		applies  bool
	}
	check := func(all ...want) {
		t.Helper()
		for i, w := range all {
			w.p.Size = 10
			if got, applies := n.disturb(w.from, w.to, w.p); got != w.fault || applies != w.applies {
				t.Errorf("%d: %+v, %v", i, got, applies)
			}
		}
	}
	none := wire.Fault{}
	check(want{a, b, at, slow, true}, want{a, own, at, none, false}, want{own, a, at, none, false},
		want{a, own, api, slow, true}, want{own, a, wire.Packet{From: 7}, slow, true})
	n.Cut(1)
	check(want{a, b, at, cut, true}, want{b, c, at, cut, true}, want{b, own, api, cut, true},
		want{b, own, at, none, false}, want{a, c, at, slow, true}, want{a, own, api, slow, true})
	n.Join()
	check(want{b, c, at, slow, true})
	for i, want := range []int64{0, 20, 10, 0, 0, 20, 0, 0, 0} {
		if got := n.Bytes()[i]; got != want {
			t.Errorf("%d bytes from site %d to site %d, want %d", got, i/3, i%3, want)
		}
	}
}
