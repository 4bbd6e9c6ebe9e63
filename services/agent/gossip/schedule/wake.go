package schedule

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A round looks at the peers for which something may be due, not at all of them. For each peer the time is known
// before which nothing is due, unless an event comes. After an event of a peer the next round looks at it. With up to
// busyPeers peers a round looks at all.

// least is the least time between two packets to a peer.
func (p *Peers) least(at *peer) time.Duration {
	if at.pairs > 0 {
		return p.beat(at) - p.period/8
	}
	return p.period/2 - p.period/8
}

// beat is the time for which an acknowledgement waits for a packet to a peer. To another site it is the time between
// two packets with records as well.
func (p *Peers) beat(at *peer) time.Duration {
	return max(p.period, time.Duration(at.pairs)*time.Second/sitePackets)
}

// look has the next round look at a peer.
func (p *Peers) look(at *peer) { p.wakes.set(at.number, 0) }

// lookAtAll has the next round look at all peers: what is due at each of them may have changed.
func (p *Peers) lookAtAll() { p.all = true }

// looked are the peers that a round looks at, by name from the one whose turn it is.
func (p *Peers) looked(now time.Duration, leaving bool) []*peer {
	all := p.ordered()
	if len(all) == 0 {
		p.all = false
		return nil
	}
	turn := p.turn % len(all)
	if leaving || p.all || len(all) <= busyPeers {
		p.all = false
		return slices.Concat(all[turn:], all[:turn])
	}
	var out []*peer
	for {
		n, at, ok := p.wakes.first()
		if !ok || at > now {
			break
		}
		p.wakes.remove(n)
		out = append(out, p.numbered[n])
	}
	behind := func(at *peer) int { return (at.place - turn + len(all)) % len(all) }
	slices.SortFunc(out, func(a, b *peer) int { return cmp.Compare(behind(a), behind(b)) })
	return out
}

// plan sets when the peers that a round has looked at are looked at again.
func (p *Peers) plan(now time.Duration, looked []*peer) {
	for _, at := range looked {
		if at.version > 0 && (at.alive || p.mayComeBack(now, at)) {
			p.wakes.set(at.number, p.wake(now, at))
		} else {
			p.wakes.remove(at.number)
		}
	}
}

// Due returns when Round must run next: 0 is at once, also if Opinions have changed. Else it is when a peer is
// to be looked at again. math.MaxInt64 is not before an event.
func (p *Peers) Due() time.Duration {
	if p.all || p.pending || p.nearnessNew {
		return 0
	}
	if _, at, ok := p.wakes.first(); ok {
		return at
	}
	return math.MaxInt64
}

// wake returns the time before which nothing is due at a peer, without an event. Too early costs a look.
func (p *Peers) wake(now time.Duration, at *peer) time.Duration {
	idle := Idle * p.period
	if at.sent == 0 {
		return now
	}
	wake := at.sent + p.keepalive(now) - p.period/2
	switch {
	case !at.alive || at.heard > 0 && !p.speaks(now, at):
		wake = at.sent + idle - p.period/2
	case at.owesAck:
		wake = min(wake, at.sent+p.beat(at)-p.period/8)
		fallthrough
	default:
		wake = min(wake, max(at.sent+p.least(at), at.box.DueAt()))
	}
	if now < at.busy {
		wake = min(wake, at.sent+p.spacing(at)-p.period/8)
	}
	if at.heard > 0 && p.speaks(now, at) { // once it is unreachable it is sent to each idle
		silent := at.heard + 3*max(p.period, at.promised) + at.delays.Value()
		wake = min(wake, max(silent, at.sent+idle-p.period/2))
	}
	if left, ok := at.box.Unheard(); ok {
		wake = min(wake, left+p.patience(at)+1)
	}
	if n := at.box.Places(); n > 0 {
		wake = min(wake, at.refreshed+p.cycle(now, at)/time.Duration(n)+1)
	}
	return wake
}
