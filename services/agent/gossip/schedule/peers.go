package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// Version is the newest version of the gossip that this code speaks.
const Version uint8 = 1

const (
	// sendFailed is the time for which packets are still sent to a peer that memberlist gave up.
	sendFailed = 5 * time.Minute
	// keepFailed is the time for which its address is kept, keepMost the number of such peers: the first that failed
	// makes room.
	keepFailed = 24 * time.Hour
	keepMost   = 256
	// pauseAfter is the number of periods without a round that count as a pause of this process.
	pauseAfter = 5
	// longestPromise bounds the time for which an agent without packets may count as reachable.
	longestPromise = 10 * time.Second
	// maxAddresses bounds the addresses that are taken from the coordinator.
	maxAddresses = 4096
	// resendTold is the number of packets in which a peer that was unreachable for long is asked to send all again.
	resendTold = 3
)

// Drop is the reason why a packet was not accepted.
type Drop uint8

// The reasons.
const (
	Malformed      Drop    = iota // it does not decode
	UnknownVersion                // of the gossip: the sender's build is more than one version away
	Unknown                       // memberlist does not know the sender, or the packet is of the sender's earlier life
	Forged                        // not made by the agent that it names
	Unopened                      // sealed with a key that is not in use here, in the clear where one is, or altered
	Foreign                       // of another user of memberlist
	Replayed                      // received before, or very late
	Overflow                      // too many came at once
	Stale                         // it came while this process stood still
	Drops                         // how many reasons there are
	Accepted       = Drops        // it was not dropped
)

var dropNames = [Drops]string{"malformed", "version", "unknown_sender", "forged", "unopened", "foreign", "replayed",
	"overflow", "stale"}

// String is the reason's name in metrics.
func (d Drop) String() string { return dropNames[d] }

// Peers is one agent's state of the other agents. Not safe for concurrent use.
type Peers struct {
	Name        string // of this agent
	Incarnation uint64 // of this process

	period      time.Duration
	forgotten   time.Duration // see NewPeers
	by          map[string]*peer
	list        []*peer          // of by, by name; nil: to be made
	numbered    []*peer          // by number; nil: a number that is free
	free        []int32          // numbers
	all         bool             // the next round looks at all peers
	wakes       deadlines        // when each peer is to be looked at again, see looked
	delays      deadlines        // of the reachable peers, below 0, so that the longest comes first
	lates       deadlines        // likewise, the time for which items wait at each peer
	down        map[string]*peer // peers that are not alive
	typical     typical          // delay
	turn        int              // of the peer that a round begins with
	budget      budget
	disturbed   time.Duration     // until then what peers know is sent again soon
	headsNew    time.Duration     // until then the list of gateways here is sent each Idle·P
	addresses   []string          // that the coordinator knows
	lastTick    time.Duration     // of Round
	resumed     time.Duration     // this process did not run until then
	pending     bool              // something was queued since the last round
	back        []string          // see Back
	nearness    gossipv1.Nearness // what this agent says
	nearnessNew bool              // a peer says something else than before
}

// peer is another agent.
type peer struct {
	name    string
	number  int32
	place   int // in the list of peers by name
	address string
	alive   bool   // according to memberlist
	version uint8  // of the gossip with it; 0: none in common
	life    uint64 // counts the peer's processes, as seen from here
	failed  time.Duration
	left    bool // it announced its end
	received
	resend    int           // in so many packets it is asked to send everything again
	resent    time.Duration // when it asked for that last
	seq       uint64        // latest sent to it
	sent      time.Duration // when
	busy      time.Duration // until then it is sent to each period
	refreshed time.Duration // up to then what it knows was sent again in turn
	delays    Delay
	box       delivery.Box
	nearness  gossipv1.Nearness // as it says
	pairs     int               // of agents between its site and this one; 0: it is at this site
}

// received says what has come of a peer.
type received struct {
	incarnation uint64        // as it says
	heard       time.Duration // 0 = never
	promised    time.Duration // it speaks again within this
	lastSeq     uint64        // latest received from it
	earlier     uint64        // which before: bit i is lastSeq−1−i
	lastAt      time.Duration // when lastSeq came
	owesAck     bool          // it carried records
}

// NewPeers returns no peers. An agent that was unreachable for the time forgotten may have forgotten what it was sent.
// After a shorter time nothing that it has acknowledged is sent again: of many keys that is much, at a time when
// packets are lost or come late.
func NewPeers(name string, incarnation uint64, period, forgotten time.Duration) *Peers {
	return &Peers{Name: name, Incarnation: incarnation, period: period, forgotten: forgotten,
		by: map[string]*peer{}, down: map[string]*peer{}}
}

// Alive notes that memberlist knows a peer as alive. newLife says that its process is
// another one than before; version is the newest of the gossip that both sides understand,
// 0 if there is none.
func (p *Peers) Alive(now time.Duration, name, address string, newLife bool, version uint8) {
	at := p.by[name]
	if at == nil {
		at = p.add(name)
	}
	delete(p.down, name)
	at.version = version
	p.look(at)
	wasAlive := at.alive
	at.address, at.alive, at.failed, at.left = address, true, now, false
	if newLife {
		at.begin(now)
		p.delays.remove(at.number)
		p.lates.remove(at.number)
	}
	if !wasAlive || newLife {
		p.disturb(now)
	}
	if !wasAlive && version > 0 {
		p.back = append(p.back, name)
	}
}

// add adds a peer.
func (p *Peers) add(name string) *peer {
	at := &peer{name: name, number: int32(len(p.numbered)), nearness: gossipv1.Nearness_UNDECIDED}
	if last := len(p.free) - 1; last >= 0 {
		at.number, p.free = p.free[last], p.free[:last]
		p.numbered[at.number] = at
	} else {
		p.numbered = append(p.numbered, at)
	}
	p.by[name], p.list = at, nil
	return at
}

// remove removes a peer. The fewer there are, the more often each is spoken to.
func (p *Peers) remove(at *peer) {
	for _, h := range []*deadlines{&p.wakes, &p.delays, &p.lates} {
		h.remove(at.number)
	}
	delete(p.by, at.name)
	delete(p.down, at.name)
	p.numbered[at.number], p.list = nil, nil
	p.free = append(p.free, at.number)
	p.lookAtAll()
}

// Back returns the peers that came, or came back, since it was called last.
func (p *Peers) Back() []string {
	back := p.back
	p.back = nil
	return back
}

// Failed notes that memberlist has given a peer up, or that the peer has left. inOrder
// says that the peer announced it.
func (p *Peers) Failed(now time.Duration, name string) (inOrder bool) {
	at := p.by[name]
	if at == nil {
		return false
	}
	at.alive, at.failed, at.box = false, now, delivery.Box{}
	p.down[name] = at
	p.disturb(now)
	return at.left
}

// begin starts a new life of a peer: it has forgotten what it was sent.
func (p *peer) begin(now time.Duration) {
	p.life++
	p.incarnation, p.lastSeq, p.earlier, p.delays = 0, 0, 0, Delay{}
	p.promised, p.owesAck, p.sent, p.nearness = 0, false, 0, gossipv1.Nearness_UNDECIDED
	p.box.Restart(now, true, func(i delivery.Item) bool { return i.Kind == delivery.Claim })
}

// SetAbroad notes that a peer is of another site, and how many pairs of agents the two sites have, which share
// sitePackets; 0: it is of this site. Distance and nearness of a peer at another site are of no interest.
func (p *Peers) SetAbroad(name string, pairs int) {
	if at := p.by[name]; at != nil && at.pairs != pairs {
		at.pairs = pairs
		p.look(at)
	}
}

// OwnerNames lists the agents that may own keys, without this one: they are alive and speak a version of this agent.
func (p *Peers) OwnerNames() []string {
	var out []string
	for _, at := range p.ordered() {
		if at.alive && !at.left && at.version > 0 {
			out = append(out, at.name)
		}
	}
	return out
}

// ordered are all peers by name.
func (p *Peers) ordered() []*peer {
	if p.list == nil {
		p.list = slices.SortedFunc(maps.Values(p.by), func(a, b *peer) int { return cmp.Compare(a.name, b.name) })
		for i, at := range p.list {
			at.place = i
		}
	}
	return p.list
}

// Tell says that a peer is to know the new state of an item. Peers that are not known, or have no version in common
// with this one, are sent nothing.
func (p *Peers) Tell(now time.Duration, name string, item delivery.Item, level delivery.Urgency) {
	if at := p.by[name]; at != nil && at.alive && at.version > 0 {
		at.box.Tell(now, item, level)
		p.told(at, level)
	}
}

// TellAgain repeats an item that another peer in its place was sent before, or an earlier life of the peer.
func (p *Peers) TellAgain(now time.Duration, name string, item delivery.Item, level delivery.Urgency) {
	if at := p.by[name]; at != nil && at.alive && at.version > 0 {
		at.box.TellAgain(now, item, level)
		p.told(at, level)
	}
}

// Pending reports whether there may be something to send before the next tick.
func (p *Peers) Pending() bool { return p.pending }

// told notes that something waits for a peer. In a large fleet what is not urgent waits for the next tick.
func (p *Peers) told(at *peer, level delivery.Urgency) {
	soon := level == delivery.Urgent || level == delivery.Normal && len(p.by) <= busyPeers
	p.pending = p.pending || soon && at.pairs == 0
	p.wakes.earlier(at.number, max(at.sent+p.least(at), at.box.DueAt()))
}

// forget removes peers that left, and peers that failed long ago or first of many.
func (p *Peers) forget(now time.Duration) (names []string) {
	failed, first := 0, ""
	for name, at := range p.down {
		switch {
		case at.left || now-at.failed > keepFailed:
			names = append(names, name)
			continue
		case first == "" || at.failed < p.by[first].failed || at.failed == p.by[first].failed && name < first:
			first = name
		}
		failed++
	}
	if failed > keepMost {
		names = append(names, first)
	}
	slices.Sort(names)
	for _, name := range names {
		p.remove(p.by[name])
	}
	return names
}

// Receive notes a packet's sender, measures the delay and takes the acknowledgements. It returns the sender as it is
// known, or why the packet is dropped.
func (p *Peers) Receive(now time.Duration, m *gossipv1.Packet) (from Sender, drop Drop) {
	at := p.by[m.GetAgent()]
	if at == nil || at.version == 0 {
		return Sender{}, Unknown
	}
	unreachable := at.heard > 0 && !p.speaks(now, at)
	if unreachable {
		p.disturb(now)
	}
	switch all := func(delivery.Item) bool { return true }; {
	case unreachable && now-at.heard >= p.forgotten/2: // either side may have forgotten the other
		at.resend = resendTold
		at.box.Restart(now, false, all)
	case m.GetResend() && now-at.resent > time.Second:
		at.resent = now
		at.box.Restart(now, false, all)
	}
	at.heard, at.incarnation = max(now, 1), m.GetIncarnation()
	p.number(now, at, m)
	if a := m.GetAck(); a.GetIncarnation() == p.Incarnation && a.GetSeq() > 0 {
		if took, ok := at.delays.Acknowledged(a.GetSeq(), time.Duration(a.GetHeldUs())*time.Microsecond, now,
			p.resumed); ok {
			at.box.Took(now, took)
		}
		at.box.Acked(now, a.GetSeq(), a.GetEarlier(), p.patience(at))
	}
	if hasClaims(m.GetReplicas()) || len(m.GetSums())+len(m.GetSites()) > 0 {
		at.owesAck, at.busy = true, now+hangover
	}
	p.delays.set(at.number, p.period/2-p.period/8-at.delays.Value()-p.least(at)) // what waits to be sent abroad is late
	p.wakes.set(at.number, p.wake(now, at))
	return Sender{Agent: at.name, Life: at.life, Promise: at.promised, Packet: m.GetSeq()}, Accepted
}

// hasClaims reports whether replicas claim anything.
func hasClaims(replicas []*gossipv1.Replica) bool {
	return slices.ContainsFunc(replicas,
		func(r *gossipv1.Replica) bool { return len(r.GetFlows())+len(r.GetKeys()) > 0 })
}

// Sender is the agent that sent a packet.
type Sender struct {
	Agent   string
	Life    uint64        // counts the agent's processes, as seen from here
	Promise time.Duration // it speaks again within this
	Packet  uint64        // number of the packet
}

// number notes the number of a packet, and those before it that are missing. What a packet says of its
// sender counts unless a later one came before it.
func (p *Peers) number(now time.Duration, at *peer, m *gossipv1.Packet) {
	seq := m.GetSeq()
	switch {
	case seq > at.lastSeq:
		ahead := seq - at.lastSeq
		if at.lastSeq > 0 && now > p.resumed+p.period {
			at.delays.Missed(ahead-1, p.period)
		}
		at.earlier <<= min(ahead, 64)
		if at.lastSeq > 0 && ahead <= 64 {
			at.earlier |= 1 << (ahead - 1)
		}
		at.lastSeq, at.lastAt, at.left = seq, now, m.GetLeaving()
		at.promised = min(time.Duration(m.GetPromiseMs())*time.Millisecond, longestPromise)
		p.lates.set(at.number, -min(time.Duration(m.GetLateMs())*time.Millisecond, longestPromise))
		if n := m.GetNearness(); n != at.nearness {
			at.nearness, p.nearnessNew = n, true
		}
	case at.lastSeq-seq <= 64 && seq < at.lastSeq:
		at.earlier |= 1 << (at.lastSeq - seq - 1)
	}
}

// patience is the time that an acknowledgement may take before its records are sent again. It waits a beat for a
// packet that goes there anyway, and takes the delay both ways.
func (p *Peers) patience(at *peer) time.Duration {
	return p.beat(at) + p.period/2 + 2*at.delays.Value()
}

// isHeard reports whether a peer is reachable.
func (p *Peers) isHeard(now time.Duration, at *peer) bool {
	return at.heard > 0 && now-at.heard < 3*max(Idle*p.period, at.promised)
}

// Delay is the largest one-way delay over the reachable peers.
func (p *Peers) Delay(now time.Duration) time.Duration {
	return p.longest(now, &p.delays)
}
