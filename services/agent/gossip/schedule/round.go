package schedule

import (
	"slices"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"github.com/titrate/titrate/services/agent/gossip/size"
)

const (
	// PacketsPerPeriod and BytesPerPeriod bound what an agent sends in a period: with P = 50 ms 2000 packets/s and 2.6
	// MB/s. What does not fit waits, is reported as late to the peers, and is counted (Deferred).
	PacketsPerPeriod = 100
	BytesPerPeriod   = 128 << 10
	// keepalives bounds the packets per second of an agent without claims. The time between two of them to one peer
	// grows with the number of peers, up to longestKeepalive.
	keepalives       = 64
	longestKeepalive = 4 * time.Second
	// busyPeers bounds the peers to which an agent sends in a period because it sent them something a moment ago; with
	// more peers each has its turn later.
	busyPeers = 16
	// sitePackets bounds the packets per second that agents of one site together send to another site.
	sitePackets = 256
	// refreshCycle is the number of periods within which each item is sent again, or forgotten if the peer need not
	// know it any more: 32 s with P = 50 ms. It bounds how long agents disagree for a reason that nobody thought of. A
	// shorter one costs more packets for what has not changed.
	refreshCycle = 640
	// refreshRate bounds the items per second that are sent again so. Of more items a part has its turn in each cycle.
	refreshRate = 1000
	// spareRate bounds the records per second that all peers are sent of keys whose owners decide.
	spareRate = 4000
	// disturbedCycle is the same, for each busyPeers peers, for disturbedFor after agents came, went or became
	// unreachable, or packets were lost. It is no more than one item to a peer in half a period. Agents may disagree
	// then on who owns what, and are to agree soon.
	disturbedCycle = 10
	disturbedFor   = 10 * time.Second
	// longestRecord is the most that an item adds to a packet, in bytes, without the
	// name of its gateway.
	longestRecord = 80
)

// Source makes the content of packets to peers.
type Source interface {
	// Gather queues for the peers the changes since its last call.
	Gather(now time.Duration)
	// Heads are the gateways of this agent, without what they claim.
	Heads(now time.Duration) []*gossipv1.Replica
	// Contended reports whether any replica uses anything.
	Contended() bool
	// Put adds the state of an item to a packet to a peer, and returns by how many bytes
	// it grows; 0: the peer need not know it.
	Put(now time.Duration, m *gossipv1.Packet, to string, item delivery.Taken) int
	// Wanted reports whether a peer needs to know an item.
	Wanted(to string, item delivery.Item) bool
}

// Outgoing is a packet with its addressee.
type Outgoing struct {
	To     string // its name
	Packet *gossipv1.Packet
}

// budget is the number of packets and bytes that may still be sent in this period.
type budget struct {
	since          time.Duration
	packets, bytes int
	late           time.Duration // how long the oldest item that did not fit has waited
	total          Traffic
}

func (b *budget) take(bytes int) {
	b.packets--
	b.bytes -= bytes
	b.total.Packets++
	b.total.Bytes += uint64(bytes)
}

func (b *budget) left() bool { return b.packets > 0 && b.bytes >= MaxPacket+frameExtra }

// frameExtra is the growth of a packet by sealing, in bytes.
const frameExtra = 34

// HeadsChanged says that gateways came or went: all peers are sent the list soon.
func (p *Peers) HeadsChanged(now time.Duration) {
	p.headsNew = now + hangover
	p.lookAtAll()
}

// Round returns the packets that are due, at a tick of half a period, or soon after a fresh claim or sum. It also
// returns the names of peers that were forgotten meanwhile. leaving says that the agent stops in order: it sends all
// peers a last packet.
func (p *Peers) Round(now time.Duration, soon, leaving bool, from Source) (out []Outgoing, forgotten []string) {
	if p.lastTick > 0 && now-p.lastTick > pauseAfter*p.period {
		p.resumed = now // what was sent before has waited for this process, not for the network
	}
	if soon && !leaving && now-p.lastTick < p.period/4 {
		return nil, nil // the next tick sends it
	}
	p.lastTick = now
	from.Gather(now)
	p.pending = false
	forgotten = p.forget(now)
	p.renewBudget(now)
	looked := p.looked(now, leaving)
	defer func() { p.plan(now, looked) }()
	due := p.due(now, leaving, looked, from)
	if len(due) == 0 {
		return out, forgotten
	}
	heads := split(from.Heads(now), MaxPacket-overhead-len(p.Name))
	room := longestRecord + longestHead(heads)
	var held []*peer
	for pass := 0; len(due) > 0; pass++ {
		again := due[:0]
		for i, at := range due {
			if !p.budget.left() && !leaving {
				p.turn = at.place
				p.postpone(now, slices.Concat(held, again, due[i:]))
				return out, forgotten
			}
			m, more := p.fill(now, at, pass, heads, room, leaving, from)
			out = append(out, Outgoing{at.name, m})
			if more {
				again = append(again, at)
			} else if at.box.Waiting() > 0 {
				held = append(held, at)
			}
		}
		due = again
	}
	p.postpone(now, held)
	return out, forgotten
}

func (p *Peers) renewBudget(now time.Duration) {
	if b := &p.budget; now-b.since >= p.period || b.since == 0 {
		b.since, b.packets, b.bytes = max(now, 1), PacketsPerPeriod, BytesPerPeriod
	}
}

// postpone counts what does not fit into the budget, or is more than a peer acknowledges in time.
func (p *Peers) postpone(now time.Duration, rest []*peer) {
	p.budget.late = 0
	for _, at := range rest {
		p.budget.total.Deferred += uint64(at.box.Pressing())
		p.budget.late = max(p.budget.late, at.box.Oldest(now))
	}
}

// due returns the peers of looked to which something is sent now.
func (p *Peers) due(now time.Duration, leaving bool, looked []*peer, from Source) (out []*peer) {
	keepalive := p.keepalive(now)
	busy := len(p.by) <= busyPeers && from.Contended()
	for _, at := range looked {
		if at.version == 0 || !at.alive && !p.mayComeBack(now, at) {
			continue
		}
		if busy && at.pairs == 0 {
			at.busy = now + hangover
		}
		at.box.Overdue(now, p.patience(at))
		p.refresh(now, at, from)
		if leaving || p.isDue(now, at, keepalive) {
			out = append(out, at)
		}
	}
	return out
}

func (p *Peers) isDue(now time.Duration, at *peer, keepalive time.Duration) bool {
	quiet := now - at.sent
	switch {
	case at.sent == 0:
		return true
	case !at.alive || at.heard > 0 && !p.speaks(now, at): // the way is broken, or the peer is gone
		return quiet >= Idle*p.period-p.period/2
	case quiet < p.least(at):
		return false
	case at.box.Due(now):
		return true
	case at.owesAck:
		return quiet >= p.beat(at)-p.period/8
	case now < at.busy:
		return quiet >= p.spacing(at)-p.period/8
	}
	return quiet >= keepalive-p.period/2
}

// spacing is the time between two packets to a busy peer.
func (p *Peers) spacing(at *peer) time.Duration {
	if at.pairs > 0 {
		return p.beat(at)
	}
	return p.period * time.Duration((len(p.by)+busyPeers-1)/busyPeers)
}

// speaks reports whether a peer kept its last promise.
func (p *Peers) speaks(now time.Duration, at *peer) bool {
	return now-at.heard < 3*max(p.period, at.promised)+at.delays.Value()
}

// mayComeBack reports whether a peer that memberlist gave up is still spoken to.
func (p *Peers) mayComeBack(now time.Duration, at *peer) bool {
	return at.alive || !at.left && now-at.failed <= sendFailed
}

// keepalive is the time between two packets to a peer without items.
func (p *Peers) keepalive(now time.Duration) time.Duration {
	idle := Idle * p.period
	if now < p.headsNew {
		return idle
	}
	return min(max(time.Duration(len(p.by))*time.Second/keepalives, idle), max(longestKeepalive, idle))
}

// refresh queues again the items that a peer knows and whose turn has come.
func (p *Peers) refresh(now time.Duration, at *peer, from Source) {
	cycle, items := p.cycle(now, at), time.Duration(at.box.Places())
	if items == 0 {
		at.refreshed = now
		return
	}
	at.refreshed = max(at.refreshed, now-cycle)
	n := items * (now - at.refreshed) / cycle
	if n == 0 {
		return
	}
	at.refreshed += n * cycle / items
	of := int(items*p.refreshEvery(at)/cycle) + 1
	at.box.Visit(int(n), of, func(i delivery.Item, level delivery.Urgency, chosen bool) {
		switch {
		case !from.Wanted(at.name, i):
			at.box.Forget(i)
		case chosen:
			at.box.Tell(now, i, level)
		}
	})
}

// refreshEvery is the least time between two items that are sent again to a peer. To another site that is an item in
// two packets.
func (p *Peers) refreshEvery(at *peer) time.Duration {
	if at.pairs > 0 {
		return 2 * p.beat(at)
	}
	return time.Duration(len(p.by)) * time.Second / refreshRate
}

// cycle is the time of a walk through the items of a peer.
func (p *Peers) cycle(now time.Duration, at *peer) time.Duration {
	longest := refreshCycle * p.period
	if now >= p.disturbed && now >= at.box.Lossy() {
		return longest
	}
	crowds := time.Duration((len(p.by) + busyPeers - 1) / busyPeers)
	return min(longest, max(crowds*disturbedCycle*p.period, time.Duration(at.box.Places())*p.period/2))
}

// disturb notes that agents came, went or became unreachable.
func (p *Peers) disturb(now time.Duration) {
	p.disturbed = now + disturbedFor
	p.lookAtAll()
}

// fill makes the next packet to a peer; pass counts those of this round. more says that
// the peer needs another one, and there is room for it on the way.
func (p *Peers) fill(
	now time.Duration, at *peer, pass int, heads [][]*gossipv1.Replica, room int, leaving bool, from Source,
) (m *gossipv1.Packet, more bool) {
	m = p.header(now, at, p.keepalive(now), leaving)
	if pass < len(heads) {
		m.Replicas = clone(heads[pass], at.pairs > 0)
	}
	at.box.SpareCost = time.Duration(len(p.by)) * time.Second / spareRate
	at.box.Begin(now, at.seq)
	bytes := size.Packet(m)
	for bytes+room <= MaxPacket {
		item, ok := at.box.Take()
		if !ok {
			item, ok = at.box.Repeat(now - p.repeatAfter(at))
		}
		if !ok {
			break
		}
		n := from.Put(now, m, at.name, item)
		if n == 0 {
			at.box.Forget(item.Item)
			continue
		}
		at.busy = now + hangover
		p.budget.total.Records++
		bytes += n + nested
	}
	if next := p.spacing(at); now+next < at.busy || at.box.Due(now) {
		m.PromiseMs = uint32(next.Milliseconds())
	}
	p.budget.take(bytes + frameExtra)
	return m, at.box.More(now) || pass+1 < len(heads)
}

// repeatAfter is the time after which a record is repeated where packets are lost. To another site it leaves the
// acknowledgement time to come, because the way there is long and its traffic costs.
func (p *Peers) repeatAfter(at *peer) time.Duration {
	after := p.beat(at) - p.period/8
	if at.pairs > 0 {
		after += 2 * at.delays.Value()
	}
	return after
}

// clone copies heads, so that claims can be added to them. What stands for another site is not sent abroad.
func clone(heads []*gossipv1.Replica, abroad bool) (out []*gossipv1.Replica) {
	for _, h := range heads {
		if !abroad || h.GetSite() == "" {
			out = append(out, headOf(h))
		}
	}
	return out
}

func longestHead(parts [][]*gossipv1.Replica) (most int) {
	for _, part := range parts {
		for _, r := range part {
			most = max(most, size.Replica(r)+nested)
		}
	}
	return most
}

// header begins a packet to a peer.
func (p *Peers) header(now time.Duration, to *peer, promise time.Duration, leaving bool) *gossipv1.Packet {
	to.seq++
	to.sent, to.owesAck = max(now, 1), false
	to.delays.Sent(to.seq, now)
	h := &gossipv1.Packet{Agent: p.Name, Incarnation: p.Incarnation, Seq: to.seq,
		PromiseMs: uint32(promise.Milliseconds()), Leaving: leaving,
		LateMs: uint32(p.budget.late.Milliseconds()), Resend: to.resend > 0, Nearness: p.nearness}
	to.resend = max(0, to.resend-1)
	if to.lastSeq > 0 {
		h.Ack = &gossipv1.Ack{Incarnation: to.incarnation, Seq: to.lastSeq, Earlier: to.earlier,
			HeldUs: uint32(min((now - to.lastAt).Microseconds(), 1<<32-1))}
	}
	return h
}

// Traffic counts what was sent to other agents since the start, and what waits now.
type Traffic struct {
	Packets, Bytes, Records uint64        // bytes without those of IP and UDP
	Deferred                uint64        // items that did not fit into the budget, once for each round
	Waiting                 int           // items that wait for a packet
	Told                    int           // items in the peers' queues
	Late                    time.Duration // how long the oldest item that did not fit has waited
}

// Traffic returns what was sent and what waits.
func (p *Peers) Traffic() Traffic {
	t := p.budget.total
	t.Late = p.budget.late
	for _, at := range p.by {
		t.Waiting += at.box.Waiting()
		t.Told += at.box.Len()
	}
	return t
}
