package delivery

import "time"

const (
	// mostWindow bounds the packets on their way to a peer. An acknowledgement names 65 of them.
	mostWindow = 48
	// leastWindow is the window of a peer that acknowledges little.
	leastWindow = 2
	// leastSlow is up to where the window doubles at least, after losses.
	leastSlow = 8
)

// window counts the packets that may be on their way to a peer, as the congestion window of TCP (RFC 5681). It doubles
// in each round trip until packets are lost. Then it is halved, and grows by one in each round trip. The zero window
// begins with leastWindow.
type window struct {
	more    float64       // packets beyond leastWindow
	slow    float64       // it grows by one a round trip from there on; 0: no packet was lost yet
	reduced time.Duration // for a packet that left later
}

// size returns the window, in packets.
func (w *window) size() int { return leastWindow + int(w.more) }

// acknowledged notes that a packet has arrived.
func (w *window) acknowledged() {
	if by := 1.0; w.slow == 0 || w.more < w.slow {
		w.more += by
	} else {
		w.more += by / (leastWindow + w.more)
	}
	w.more = min(w.more, mostWindow-leastWindow)
}

// lost notes that a packet was lost that left at a time. All that left before the window was reduced count as one loss.
func (w *window) lost(now, left time.Duration) {
	if left < w.reduced {
		return
	}
	w.more = max(0, (w.more-leastWindow)/2)
	w.slow, w.reduced = max(leastSlow, w.more), now
}
