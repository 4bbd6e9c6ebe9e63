package schedule

import (
	"slices"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/size"
)

// Version 2 of the gossip: all claims of this agent go to each agent that speaks it, while
// there are claims each period, and it sends all of its own.

// hasClaims reports whether replicas claim anything.
func hasClaims(replicas []*gossipv1.Replica) bool {
	return slices.ContainsFunc(replicas,
		func(r *gossipv1.Replica) bool { return len(r.GetFlows())+len(r.GetKeys()) > 0 })
}

// meshRound appends the packets of version 2 that are due.
func (p *Peers) meshRound(now time.Duration, soon, leaving bool, from Source, out []Outgoing) []Outgoing {
	if !p.mesh || !soon && !leaving && now-p.schedule.sent < p.period-p.period/8 {
		return out
	}
	due, all := p.schedule.Due(now, soon)
	if !due && !leaving {
		return out
	}
	all = all || leaving
	replicas := from.State(now)
	promise, send := p.schedule.Promise(now, hasClaims(replicas), all)
	if !send {
		return out
	}
	parts := split(replicas, MaxPacket-overhead-len(p.Name))
	for _, at := range p.ordered() {
		if at.version != Mesh || !at.alive && !(all && p.mayComeBack(now, at)) {
			continue
		}
		for _, part := range parts {
			m := p.header(now, at, promise, leaving)
			m.Replicas = part
			p.budget.take(size.Packet(m) + frameExtra)
			out = append(out, Outgoing{at.name, m})
		}
	}
	return out
}

// speaksMesh reports whether some peer speaks version 2 that is alive or may come back.
func (p *Peers) speaksMesh(now time.Duration) bool {
	if p.meshes == 0 {
		return false
	}
	for _, at := range p.by {
		if at.version == Mesh && p.mayComeBack(now, at) {
			return true
		}
	}
	return false
}
