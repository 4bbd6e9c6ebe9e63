package world

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/e2e/robustness/wire"
)

// Far is the way between gateways of two sites.
var Far = wire.Fault{Delay: 40 * time.Millisecond, Jitter: 4 * time.Millisecond, Loss: .01}

// site returns the arguments of the agent of the n-th gateway: gateways take turns.
func (o *Options) site(n int) (number int, args []string) {
	if o.Sites <= 1 {
		return 0, nil
	}
	number = n % o.Sites
	return number, []string{"--site", fmt.Sprintf("site-%d", number+1)}
}

// Sites returns the number of the gateways' sites.
func (w *World) Sites() int { return max(1, w.o.Sites) }

// Abroad reports whether two hosts are gateways of different sites.
func (w *World) Abroad(from, to *wire.Host) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, first := w.sites[from]
	b, second := w.sites[to]
	return first && second && a != b
}

// farther makes the ways between sites long.
func (w *World) farther(from, to *wire.Host, _ wire.Packet) (wire.Fault, bool) {
	return Far, w.Abroad(from, to)
}
