package schedule

import (
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// Opinions counts the other agents' opinions of the way between agents.
type Opinions struct {
	Near, Far int    // agents that say so; an agent that sends no opinion counts as far
	Against   string // an agent that counts as far; "": none
}

// SetNearness sets this agent's opinion of the way; the others are sent it soon.
func (p *Peers) SetNearness(now time.Duration, n gossipv1.Nearness) {
	if p.nearness != n {
		p.nearness = n
		p.HeadsChanged(now)
	}
}

// NearnessChanged reports whether a peer has changed its mind since it was called last.
func (p *Peers) NearnessChanged() bool {
	changed := p.nearnessNew
	p.nearnessNew = false
	return changed
}

// Opinions returns what the other agents say that are alive.
func (p *Peers) Opinions() (o Opinions) {
	for _, at := range p.ordered() {
		switch {
		case !at.alive || at.left || at.pairs > 0:
		case at.nearness == gossipv1.Nearness_NEAR:
			o.Near++
		case at.nearness != gossipv1.Nearness_UNDECIDED:
			o.Far++
			o.Against = at.name
		}
	}
	return o
}
