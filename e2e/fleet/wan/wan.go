// Package wan joins the sites of a fleet. Each site is a host of a network in user space (package wire), and the
// links between hosts are slow and lose packets.
//
// # Model
//
//	own      this program, with the coordinators
//	site i   all agents of the site, which reach each other at once
//
// Packets between two sites, and between a site and the coordinators, take the way of a [Link]. Packets of this
// program's own, which fetch agents' pages, pass at once.
package wan

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/e2e/robustness/wire"
)

// Link is the way between two sites.
type Link struct {
	Delay  time.Duration // one way
	Jitter time.Duration // at most so much is added at random
	Loss   float64       // probability that a packet is lost, 0 to 1
}

// Way returns the longest time of a packet.
func (l Link) Way() time.Duration { return l.Delay + l.Jitter }

// Network joins sites. Its methods may be called by several goroutines.
type Network struct {
	Own   *wire.Host
	Sites []*wire.Host

	link  atomic.Pointer[Link]
	apart atomic.Int64   // the site that is cut off, negative: none
	api   atomic.Int64   // port of the coordinators
	bytes []atomic.Int64 // sent from site i to site j, at i·S + j
}

// firstSite is the number of the first site's host.
const firstSite = 2

// New makes the hosts of sites. This process must be in a network namespace of its own ([wire.Own]).
func New(names []string) (*Network, error) {
	s, own, err := wire.New("own")
	if err != nil {
		return nil, err
	}
	if err := s.Disturbs(); err != nil {
		return nil, err
	}
	n := &Network{Own: own, bytes: make([]atomic.Int64, len(names)*len(names))}
	n.SetLink(Link{})
	n.Join()
	for i, name := range names {
		h, err := s.Host(name, firstSite+i)
		if err != nil {
			return nil, err
		}
		n.Sites = append(n.Sites, h)
	}
	s.Disturb(n.disturb)
	return n, nil
}

// SetLink changes the links between all sites.
func (n *Network) SetLink(l Link) { n.link.Store(&l) }

// Link returns the links' state.
func (n *Network) Link() Link { return *n.link.Load() }

// SetAPI notes the port of the coordinators, which take calls at the host of this program.
func (n *Network) SetAPI(port int) { n.api.Store(int64(port)) }

// Cut cuts a site off from the others and from the coordinators; Join ends that.
func (n *Network) Cut(site int) { n.apart.Store(int64(site)) }

// Join is described at Cut.
func (n *Network) Join() { n.apart.Store(-1) }

// Bytes returns how much each site has sent to each other so far, with the headers of IP: from site i to site j
// at i·S + j.
func (n *Network) Bytes() []int64 {
	all := make([]int64, len(n.bytes))
	for i := range all {
		all[i] = n.bytes[i].Load()
	}
	return all
}

// disturb is the rule of all packets.
func (n *Network) disturb(from, to *wire.Host, p wire.Packet) (wire.Fault, bool) {
	i, j := slices.Index(n.Sites, from), slices.Index(n.Sites, to)
	api := uint16(n.api.Load())
	switch {
	case i >= 0 && j >= 0:
		n.bytes[i*len(n.Sites)+j].Add(int64(p.Size))
	case p.From != api && p.To != api:
		return wire.Fault{}, false
	}
	if apart := int(n.apart.Load()); apart >= 0 && (apart == i || apart == j) {
		return wire.Fault{Cut: true}, true
	}
	l := n.Link()
	return wire.Fault{Loss: l.Loss, Delay: l.Delay, Jitter: l.Jitter}, true
}
