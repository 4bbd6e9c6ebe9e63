package schedule

import (
	"cmp"
	"slices"
	"time"
)

// SetAddresses sets host:port of the agents that the coordinator hears.
func (p *Peers) SetAddresses(addresses []string) {
	p.addresses = slices.Clone(addresses[:min(len(addresses), maxAddresses)])
}

// Addresses returns the addresses at which no peer is known to be alive and heard: of
// failed and of silent peers (they may know this agent by an older address) and those
// that the coordinator knows. heard are the addresses of the others.
func (p *Peers) Addresses(now time.Duration) (missing, heard []string) {
	for _, at := range p.by {
		switch {
		case at.left:
		case at.alive && p.isHeard(now, at):
			heard = append(heard, at.address)
		default:
			missing = append(missing, at.address)
		}
	}
	return append(missing, p.addresses...), heard
}

// Missing returns the names of peers that failed without announcing it, or that are
// silent although memberlist hears them. One that failed long ago is left out if the
// coordinator does not hear it either: it has crashed.
func (p *Peers) Missing(now time.Duration) []string {
	out := []string{}
	for name, at := range p.by {
		switch {
		case at.left:
		case at.alive && (at.heard == 0 || p.isHeard(now, at)):
		case !at.alive && now-at.failed > sendFailed &&
			len(p.addresses) > 0 && !slices.Contains(p.addresses, at.address):
		default:
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// PeerStatus is what is known of another agent.
type PeerStatus struct {
	Name    string
	Address string
	Alive   bool          // according to memberlist
	Age     time.Duration // since its last packet; negative: none yet
	Delay   time.Duration // one way, decaying maximum
	Way     time.Duration // one way, in the median; negative: not known yet
}

// Status returns the other agents by name.
func (p *Peers) Status(now time.Duration) []PeerStatus {
	out := make([]PeerStatus, 0, len(p.by))
	for name, at := range p.by {
		s := PeerStatus{Name: name, Address: at.address, Alive: at.alive, Age: -1, Delay: at.delays.Value(), Way: -1}
		if d, ok := at.delays.way.value(); ok {
			s.Way = d
		}
		if at.heard > 0 {
			s.Age = now - at.heard
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b PeerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
