package schedule

import (
	"slices"
	"time"
)

// typical is the delay that is typical, and when it was found out.
type typical struct {
	delay time.Duration
	at    time.Duration
	known bool
}

// typicalEvery is the time for which a typical delay holds where finding it out takes a while.
const typicalEvery = time.Second

// Late is the longest time that claims and sums wait for their turn, here and at the peers: beyond half a period only
// if an agent's budget is used up.
func (p *Peers) Late(now time.Duration) time.Duration {
	return p.longest(now, &p.lates) + p.budget.late
}

// longest returns the longest of times that are kept below 0, over the reachable peers. The others are taken out: their
// next packet puts them in again.
func (p *Peers) longest(now time.Duration, of *deadlines) time.Duration {
	for {
		n, d, ok := of.first()
		if !ok || p.isHeard(now, p.numbered[n]) {
			return -d
		}
		of.remove(n)
	}
}

// TypicalDelay is the lower median over the reachable peers. One slow or paused peer does not change it much. With many
// peers it is up to typicalEvery old.
func (p *Peers) TypicalDelay(now time.Duration) time.Duration {
	if t := &p.typical; len(p.by) <= busyPeers || !t.known || now-t.at >= typicalEvery {
		*t = typical{p.median(now), now, true}
	}
	return p.typical.delay
}

func (p *Peers) median(now time.Duration) time.Duration {
	var all []time.Duration
	for _, at := range p.by {
		if p.isHeard(now, at) {
			all = append(all, at.delays.Value())
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
