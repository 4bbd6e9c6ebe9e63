package delivery

import "time"

const (
	// mostWindow bounds the packets on their way to a peer, mostSpare those of items that are Spare.
	mostWindow, mostSpare = 256, 12
	// firstWindow is the window of a peer of which nothing is known.
	firstWindow = 16
	// leastWindow is the window of a peer that acknowledges late.
	leastWindow = 2
	// leastSlow is up to where the window grows quickly at least.
	leastSlow = 8
	// slack is the time by which a packet may take longer than usual on a busy machine, one way.
	slack = 15 * time.Millisecond
	// lossSpan is the number of packets over which losses are counted.
	lossSpan = 32
	// forgetQuick is the time in which the quickest way is forgotten: the network may have become slower.
	forgetQuick = 2 * time.Minute
)

// window counts the packets that may be on their way to a peer, as the congestion window of TCP (RFC 5681).
// It doubles in each round trip until the peer is late. Then it is halved, and grows by one in each round
// trip. A peer is late when packets take far longer than the quickest ones, or most are lost. Where some are
// lost and the others come in time, the network loses them, and fewer packets would only be later. The zero
// window begins with firstWindow.
type window struct {
	more    float64       // packets beyond firstWindow
	slow    float64       // it grows by one a round trip from there on; 0: the peer was not late yet
	reduced time.Duration // for a packet that left later
	quick   time.Duration // the quickest way; 0: not known
	tookAt  time.Duration // when a way was measured last
	loss    float64       // part of the last packets
}

// size returns the window, in packets.
func (w *window) size() int { return firstWindow + int(w.more) }

// acknowledged notes that a packet has arrived.
func (w *window) acknowledged() {
	w.loss -= w.loss / lossSpan
	if size := firstWindow + w.more; w.slow == 0 || size < w.slow {
		w.more++
	} else {
		w.more += 1 / size
	}
	w.more = min(w.more, mostWindow-firstWindow)
}

// lost notes that a packet was lost that left at a time.
func (w *window) lost(now, left time.Duration) {
	if w.loss += (1 - w.loss) / lossSpan; w.loss > .5 {
		w.reduce(now, left)
	}
}

// took notes how long a packet took, one way.
func (w *window) took(now, way time.Duration) {
	if w.quick == 0 || way < w.quick {
		w.quick = max(way, 1)
	} else {
		w.quick += time.Duration(float64(way-w.quick) * min(1, (now-w.tookAt).Seconds()/forgetQuick.Seconds()))
	}
	if w.tookAt = now; way > 5*w.quick/2+slack {
		w.reduce(now, now-2*way)
	}
}

// reduce halves the window, once for all packets that left before that.
func (w *window) reduce(now, left time.Duration) {
	if left < w.reduced {
		return
	}
	size := max(leastWindow, (firstWindow+w.more)/2)
	w.more, w.slow, w.reduced = size-firstWindow, max(leastSlow, size), now
}
