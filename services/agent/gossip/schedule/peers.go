package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

const (
	// sendFailed is how long packets are still sent to a peer that memberlist gave up.
	sendFailed = 5 * time.Minute
	// keepFailed is how long its address is kept, keepMost how many such peers are kept:
	// the one that failed first makes room.
	keepFailed = 24 * time.Hour
	keepMost   = 256
	// pauseAfter is how many periods without a round count as a pause of this process.
	pauseAfter = 5
	// longestPromise bounds for how long a silent agent may count as heard.
	longestPromise = 10 * time.Second
	// maxAddresses bounds the addresses that are taken from the coordinator.
	maxAddresses = 4096
)

// Drop is why a packet was not accepted.
type Drop uint8

// The reasons.
const (
	Malformed      Drop    = iota // it does not decode
	UnknownVersion                // of the gossip: the sender's build is more than one version away
	Unknown                       // memberlist does not know the sender, or the packet is of an earlier life of it
	Forged                        // not made by the agent that it names
	Stale                         // version 1: of an earlier incarnation
	Overflow                      // too many came at once
	Drops                         // how many reasons there are
	Accepted       = Drops        // it was not dropped
)

var dropNames = [Drops]string{"malformed", "version", "unknown_sender", "forged", "stale", "overflow"}

// String is the reason's name in metrics.
func (d Drop) String() string { return dropNames[d] }

// Peers is what one agent knows of the other agents. Not safe for concurrent use.
type Peers struct {
	Name        string // of this agent
	Incarnation uint64 // of this process

	schedule  Schedule
	by        map[string]*peer
	addresses []string      // that the coordinator knows
	lastTick  time.Duration // of Due
	resumed   time.Duration // this process did not run until then
}

// peer is another agent.
type peer struct {
	address     string
	alive       bool   // according to memberlist
	usable      bool   // both sides understand a version of the gossip
	life        uint64 // counts the peer's processes, as seen from here
	failed      time.Duration
	left        bool          // it announced its end
	incarnation uint64        // as it says
	heard       time.Duration // 0 = never
	lastSeq     uint64        // latest received from it
	lastAt      time.Duration // when that was
	seq         uint64        // latest sent to it
	delays      Delay
}

// NewPeers returns no peers.
func NewPeers(name string, incarnation uint64, period time.Duration) *Peers {
	return &Peers{Name: name, Incarnation: incarnation, schedule: Schedule{Period: period}, by: map[string]*peer{}}
}

// Alive notes that memberlist knows a peer as alive. newLife says that its process is
// another one than before, usable that both sides understand a version of the gossip.
func (p *Peers) Alive(now time.Duration, name, address string, newLife, usable bool) {
	at := p.by[name]
	if at == nil {
		at = &peer{}
		p.by[name] = at
	}
	at.address, at.alive, at.usable, at.failed, at.left = address, true, usable, now, false
	if newLife {
		at.begin(0)
	}
}

// Failed notes that memberlist has given a peer up, or that the peer has left. inOrder
// says that the peer announced it.
func (p *Peers) Failed(now time.Duration, name string) (inOrder bool) {
	at := p.by[name]
	if at == nil {
		return false
	}
	at.alive, at.failed = false, now
	return at.left
}

// begin starts a new life of a peer.
func (p *peer) begin(incarnation uint64) {
	p.life++
	p.incarnation, p.lastSeq, p.delays = incarnation, 0, Delay{}
}

// Due reports whether to send a round now, at a tick or soon after a fresh claim, and
// whether to all peers.
func (p *Peers) Due(now time.Duration, soon bool) (due, all bool) {
	if p.lastTick > 0 && now-p.lastTick > pauseAfter*p.schedule.Period {
		p.resumed = now // what was sent before has waited for this process, not for the network
	}
	p.lastTick = now
	return p.schedule.Due(now, soon)
}

// Round is one sending of the state to the other agents.
type Round struct {
	Replicas []*gossipv1.Replica
	promise  time.Duration
	all      bool // also to peers that memberlist has given up
	leaving  bool
}

// Round makes the round that is due; false if nothing needs to be sent.
func (p *Peers) Round(now time.Duration, replicas []*gossipv1.Replica, all, leaving bool) (Round, bool) {
	promise, send := p.schedule.Promise(now, hasClaims(replicas), all)
	return Round{replicas, promise, all, leaving}, send
}

// hasClaims reports whether replicas claim anything.
func hasClaims(replicas []*gossipv1.Replica) bool {
	return slices.ContainsFunc(replicas,
		func(r *gossipv1.Replica) bool { return len(r.GetFlows())+len(r.GetKeys()) > 0 })
}

// Header is a packet without its replicas.
type Header struct {
	To     string // the addressee's name
	Part   int    // of the round's state that it carries
	Packet *gossipv1.Packet
}

// Headers returns the headers of a round whose state takes so many packets per
// addressee, and the names of peers that were forgotten meanwhile.
func (p *Peers) Headers(now time.Duration, r Round, parts int) (headers []Header, forgotten []string) {
	forgotten = p.forget(now)
	headers = make([]Header, 0, len(p.by)*parts)
	for _, name := range slices.Sorted(maps.Keys(p.by)) {
		to := p.by[name]
		if !to.usable || !to.alive && (!r.all || to.left || now-to.failed > sendFailed) {
			continue
		}
		for part := range parts {
			headers = append(headers, Header{name, part, p.header(now, to, r)})
		}
		to.delays.Sent(to.seq, now) // the acknowledgement names the last packet of a round
	}
	return headers, forgotten
}

func (p *Peers) header(now time.Duration, to *peer, r Round) *gossipv1.Packet {
	to.seq++
	h := &gossipv1.Packet{Agent: p.Name, Incarnation: p.Incarnation, Seq: to.seq,
		PromiseMs: uint32(r.promise.Milliseconds()), Leaving: r.leaving}
	if to.lastSeq > 0 {
		h.Ack = &gossipv1.Ack{Incarnation: to.incarnation, Seq: to.lastSeq,
			HeldUs: uint32(min((now - to.lastAt).Microseconds(), 1<<32-1))}
	}
	return h
}

// forget removes peers that left, and peers that failed long ago or first of many.
func (p *Peers) forget(now time.Duration) (names []string) {
	failed, first := 0, ""
	for name, at := range p.by {
		switch {
		case at.alive:
			continue
		case at.left || now-at.failed > keepFailed:
			names = append(names, name)
			continue
		case first == "" || at.failed < p.by[first].failed:
			first = name
		}
		failed++
	}
	if failed > keepMost {
		names = append(names, first)
	}
	for _, name := range names {
		delete(p.by, name)
	}
	return names
}

// Receive notes a packet's sender and measures the delay. sealed says that the packet
// was authenticated (version 2). It returns the sender's life and the time within which
// it promises its next packet, or why the packet is dropped.
func (p *Peers) Receive(now time.Duration, m *gossipv1.Packet, sealed bool) (life uint64, promise time.Duration,
	drop Drop) {
	from := p.by[m.GetAgent()]
	switch {
	case from == nil:
		return 0, 0, Unknown
	case !sealed && m.GetIncarnation() < from.incarnation:
		return 0, 0, Stale
	case !sealed && m.GetIncarnation() > from.incarnation:
		from.begin(m.GetIncarnation())
	}
	from.heard, from.incarnation = max(now, 1), m.GetIncarnation()
	if m.GetSeq() > from.lastSeq {
		if from.lastSeq > 0 && now > p.resumed+p.schedule.Period {
			from.delays.Missed(m.GetSeq()-from.lastSeq-1, p.schedule.Period)
		}
		from.lastSeq, from.lastAt, from.left = m.GetSeq(), now, m.GetLeaving()
	}
	if a := m.GetAck(); a.GetIncarnation() == p.Incarnation {
		from.delays.Acknowledged(a.GetSeq(), time.Duration(a.GetHeldUs())*time.Microsecond, now, p.resumed)
	}
	if hasClaims(m.GetReplicas()) {
		p.schedule.NoteClaims(now)
	}
	return from.life, min(time.Duration(m.GetPromiseMs())*time.Millisecond, longestPromise), Accepted
}

// isHeard reports whether a peer was heard lately.
func (p *Peers) isHeard(now time.Duration, at *peer) bool {
	return at.heard > 0 && now-at.heard < 3*Idle*p.schedule.Period
}

// Delay is the largest one-way delay over the peers that were heard lately.
func (p *Peers) Delay(now time.Duration) (d time.Duration) {
	for _, at := range p.by {
		if p.isHeard(now, at) {
			d = max(d, at.delays.Value())
		}
	}
	return d
}

// TypicalDelay is the lower median over the peers that were heard lately. One slow or
// paused peer does not change it much.
func (p *Peers) TypicalDelay(now time.Duration) time.Duration {
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
}

// Status returns the other agents by name.
func (p *Peers) Status(now time.Duration) []PeerStatus {
	out := make([]PeerStatus, 0, len(p.by))
	for name, at := range p.by {
		s := PeerStatus{Name: name, Address: at.address, Alive: at.alive, Age: -1, Delay: at.delays.Value()}
		if at.heard > 0 {
			s.Age = now - at.heard
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b PeerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
