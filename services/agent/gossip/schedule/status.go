package schedule

import (
	"cmp"
	"slices"
	"time"
)

// SetAddresses sets host:port of the agents that the coordinator receives.
func (p *Peers) SetAddresses(addresses []string) {
	p.addresses = slices.Clone(addresses[:min(len(addresses), maxAddresses)])
}

// Unmet returns how many agents the coordinator receives that this agent has never met. own is this agent's address.
func (p *Peers) Unmet(own string) (n int) {
	known := map[string]bool{own: true}
	for _, at := range p.by {
		known[at.address] = true
	}
	for _, address := range p.addresses {
		if !known[address] {
			known[address] = true
			n++
		}
	}
	return n
}

// Addresses are the addresses at which agents may be.
type Addresses struct {
	Missing []string // no peer is known to be alive and received there; some may be Here, too
	Back    []string // those of Missing at which a peer is received that memberlist takes for gone
	Here    []string // a peer is alive and received there
}

// Addresses returns the addresses at which agents may be. Missing has addresses of failed and of unreachable peers
// (they may know an older address of this agent), and addresses that the coordinator knows.
func (p *Peers) Addresses(now time.Duration) (a Addresses) {
	for _, at := range p.by {
		switch {
		case at.left:
		case at.alive && p.isHeard(now, at):
			a.Here = append(a.Here, at.address)
		default:
			a.Missing = append(a.Missing, at.address)
			if p.isBack(now, at) {
				a.Back = append(a.Back, at.address)
			}
		}
	}
	a.Missing = append(a.Missing, p.addresses...)
	return a
}

// isBack reports whether a peer is received that memberlist takes for gone.
func (p *Peers) isBack(now time.Duration, at *peer) bool {
	return !at.alive && !at.left && p.isHeard(now, at)
}

// Rejoins reports whether any peer is received that memberlist takes for gone, as after a cut. Until memberlist finds
// it again, the agents do not agree on the owners of keys.
func (p *Peers) Rejoins(now time.Duration) bool {
	for _, at := range p.by {
		if p.isBack(now, at) {
			return true
		}
	}
	return false
}

// Missing returns the names of peers that failed without announcing it, or that are
// unreachable although memberlist has them. A peer that failed long ago is left out if the
// coordinator does not receive it either: it has crashed. A peer whose address another agent has is left out at once:
// it was started again under another name.
func (p *Peers) Missing(now time.Duration) []string {
	out, heard := []string{}, map[string]bool{} // addresses
	for _, at := range p.by {
		if at.alive && p.isHeard(now, at) {
			heard[at.address] = true
		}
	}
	for name, at := range p.by {
		switch {
		case at.left:
		case heard[at.address]:
		case at.alive && at.heard == 0:
		case !at.alive && now-at.failed > sendFailed &&
			len(p.addresses) > 0 && !slices.Contains(p.addresses, at.address):
		default:
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// PeerStatus is the state of another agent, as known here.
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
