package world

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
)

// The modelled memberlist's times, as usual in a small mesh.
const (
	knownAfter  = 200 * time.Millisecond // a newcomer is known to all
	giveUpAfter = 2 * time.Second        // an unreachable agent is declared dead
	rejoinAfter = 500 * time.Millisecond // a lost one is found again
	longestHeal = 3 * time.Second        // the most that World.Healing may return
	longest     = max(knownAfter, giveUpAfter, rejoinAfter, longestHeal)
)

// leastWay is the least that a packet between two agents takes.
const leastWay = 100 * time.Microsecond

// network is the way between agents, and to the coordinator.
type network struct {
	gossip *scenario.Gossip
	random *rand.Rand
	groups []int            // by place; the last is the coordinator
	sites  []*scenario.Site // by place; nil: the site without a name
	whole  bool
	since  time.Duration // of the groups, or of being whole again
	// touched is the last time at which an agent started or ended, or the groups changed.
	touched time.Duration
	before  []int // groups that the last heal ended, if they lasted until an agent was declared dead
	// healing returns the delays of packets and memberlist from one place to another after the last heal.
	healing func(of, other int32) (packets, alive time.Duration)
}

func newNetwork(s *scenario.Scenario, names []string, random *rand.Rand) network {
	n := network{gossip: &s.Gossip, random: random, groups: make([]int, len(names)+1), whole: true,
		sites: make([]*scenario.Site, len(names))}
	for i := range s.Sites {
		for place, name := range names {
			if slices.Contains(s.Sites[i].Replicas, name) {
				n.sites[place] = &s.Sites[i]
			}
		}
	}
	return n
}

// between returns the way between two sites.
func between(a, b *scenario.Site) scenario.Site {
	switch {
	case a == nil:
		return *b
	case b == nil:
		return *a
	}
	longer := a
	if b.Delay > a.Delay {
		longer = b
	}
	return scenario.Site{Delay: longer.Delay, Jitter: longer.Jitter, Loss: max(a.Loss, b.Loss)}
}

// site returns the name of the site of a place.
func (w *World) site(place int32) string {
	if s := w.net.sites[place]; s != nil {
		return s.Name
	}
	return ""
}

// cut splits the network. Processes that are in no group form one group.
func (n *network) cut(now time.Duration, names []string, groups [][]string) {
	for i := range n.groups {
		name := scenario.Coordinator
		if i < len(names) {
			name = names[i]
		}
		n.groups[i] = slices.IndexFunc(groups, func(g []string) bool { return slices.Contains(g, name) })
	}
	n.whole, n.since, n.touched, n.before = false, now, now, nil
}

// heal makes it whole.
func (n *network) heal(now time.Duration) {
	n.before = nil
	if !n.whole && now-n.since >= giveUpAfter {
		n.before = slices.Clone(n.groups)
	}
	clear(n.groups)
	n.whole, n.since, n.touched = true, now, now
}

// passes reports whether packets pass between two places; −1 is the coordinator.
func (n *network) passes(a, b int32) bool { return n.group(a) == n.group(b) }

func (n *network) group(place int32) int {
	if place < 0 {
		return n.groups[len(n.groups)-1]
	}
	return n.groups[place]
}

// believes reports whether an agent's memberlist knows another agent as alive.
func (n *network) believes(a, b *agent, now time.Duration) bool {
	switch {
	case now < max(a.start, b.start)+knownAfter:
		return false
	case !n.passes(a.place, b.place):
		return now-n.since < giveUpAfter
	case n.before != nil && n.before[a.place] != n.before[b.place]:
		_, alive := n.healed(a.place, b.place)
		return now-n.since >= alive
	}
	return true
}

// healed returns the time after a heal until packets from one agent to another pass, and until its memberlist knows the
// other one as alive.
func (n *network) healed(of, other int32) (packets, alive time.Duration) {
	if n.healing == nil {
		return 0, rejoinAfter
	}
	return n.healing(of, other)
}

// mends reports whether packets do not pass yet after a heal.
func (n *network) mends(from, to int32, now time.Duration) bool {
	if n.before == nil || n.before[from] == n.before[to] {
		return false
	}
	packets, _ := n.healed(from, to)
	return now-n.since < packets
}

// carry returns the delay of a packet; false if the packet is lost.
func (n *network) carry(now time.Duration, from, to int32) (time.Duration, bool) {
	if !n.passes(from, to) || n.mends(from, to, now) || n.gossip.Loss > 0 && n.random.Float64() < n.gossip.Loss {
		return 0, false
	}
	d, j := n.gossip.Delay, n.gossip.Jitter
	if a, b := n.sites[from], n.sites[to]; a != b {
		far := between(a, b)
		if d, j = far.Delay, far.Jitter; far.Loss > 0 && n.random.Float64() < far.Loss {
			return 0, false
		}
	}
	if j > 0 {
		d += time.Duration((2*n.random.Float64() - 1) * float64(j))
	}
	return max(d, leastWay), true
}
