package packets

import (
	"math/rand/v2"

	"github.com/titrate/titrate/control/aqm"
)

// Link is an outgoing link with a queue.
type Link struct {
	Rate float64 // packets/s; may change while it runs, not to 0
	Law  aqm.Law // marks and drops arrivals, nil: none
	// Buffer is the most packets that may wait, 0: unbounded. Laws also have their own buffers.
	Buffer int
	// Every is the interval at which the law sees the queue, s.
	Every float64

	// Offered, Lost, Sent and Marked count packets.
	Offered, Lost, Sent, Marked int

	queue []packet
	head  int
	busy  bool
	net   *Network
	id    int32
}

// Queued returns the number of waiting packets, including the one on the wire.
func (l *Link) Queued() int { return len(l.queue) - l.head }

// Hop is a part of a path: a delay, then a link.
type Hop struct {
	Delay float64
	Link  *Link
}

// Network is a simulation.
type Network struct {
	Now   float64
	Links []*Link
	Flows []*Flow
	Rand  *rand.Rand

	agenda agenda
	calls  []func()
}

// New is an empty network.
func New(seed uint64) *Network {
	return &Network{Rand: rand.New(rand.NewPCG(seed, 1))}
}

// Add adds a link.
func (n *Network) Add(l Link) *Link {
	l.net, l.id = n, int32(len(n.Links))
	n.Links = append(n.Links, &l)
	if every := l.Every; l.Law != nil && every > 0 {
		n.Repeat(0, every, func() { l.Law.Step(n.Now, float64(l.Queued()), l.Rate, float64(len(n.Flows))) })
	}
	return &l
}

// At calls f at a time.
func (n *Network) At(t float64, f func()) {
	n.calls = append(n.calls, f)
	n.agenda.push(event{at: t, kind: calls, id: int32(len(n.calls) - 1)})
}

// Repeat calls f every so many seconds from a time on.
func (n *Network) Repeat(from, every float64, f func()) {
	id := int32(len(n.calls))
	n.calls = append(n.calls, nil)
	n.calls[id] = func() {
		f()
		n.agenda.push(event{at: n.Now + every, kind: calls, id: id})
	}
	n.agenda.push(event{at: from, kind: calls, id: id})
}

// Run lets the network run until a time.
func (n *Network) Run(until float64) {
	for n.agenda.due(until) {
		e := n.agenda.pop()
		n.Now = e.at
		switch e.kind {
		case arrives:
			n.arrive(e.p)
		case departs:
			n.Links[e.id].depart()
		case acked:
			n.Flows[e.p.flow].acknowledge(e.p)
		case expires:
			n.Flows[e.id].expire(e.at)
		case calls:
			n.calls[e.id]()
		}
	}
	n.Now = until
}

// arrive is a packet at the link of its hop, or at its sink.
func (n *Network) arrive(p packet) {
	f := n.Flows[p.flow]
	if int(p.hop) == len(f.Path) {
		f.receive(p)
		return
	}
	l := f.Path[p.hop].Link
	l.Offered++
	verdict := aqm.Accept
	if l.Law != nil {
		verdict = l.Law.Arrive(aqm.Arrival{Now: n.Now, Cost: 1, Queued: float64(l.Queued()), Rand: n.Rand.Float64()})
	}
	if l.Buffer > 0 && l.Queued() >= l.Buffer {
		verdict = aqm.Drop
	}
	switch verdict {
	case aqm.Drop:
		l.Lost++
		return
	case aqm.Mark:
		if !f.Plain {
			p.marked = true
			l.Marked++
			break
		}
		l.Lost++ // it cannot be marked
		return
	}
	p.entered = n.Now
	l.queue = append(l.queue, p)
	if !l.busy {
		l.serve()
	}
}

// serve puts the first packet on the wire that the law does not drop there.
func (l *Link) serve() {
	for l.busy = false; l.Queued() > 0; l.take() {
		p, verdict := &l.queue[l.head], aqm.Accept
		if l.Law != nil {
			verdict = l.Law.Depart(l.net.Now, float64(l.Queued()-1), l.net.Now-p.entered)
		}
		if verdict == aqm.Drop || verdict == aqm.Mark && l.net.Flows[p.flow].Plain {
			l.Lost++
			continue
		}
		if verdict == aqm.Mark {
			p.marked = true
			l.Marked++
		}
		l.busy = true
		l.net.agenda.push(event{at: l.net.Now + 1/l.Rate, kind: departs, id: l.id})
		return
	}
}

// take removes the first packet.
func (l *Link) take() packet {
	p := l.queue[l.head]
	if l.head++; l.head > 4096 && l.head*2 > len(l.queue) {
		l.queue = append(l.queue[:0], l.queue[l.head:]...)
		l.head = 0
	}
	return p
}

// depart sends the first packet.
func (l *Link) depart() {
	p := l.take()
	l.Sent++
	p.hop++
	f := l.net.Flows[p.flow]
	delay := f.Last
	if int(p.hop) < len(f.Path) {
		delay = f.Path[p.hop].Delay
	}
	l.net.agenda.push(event{at: l.net.Now + delay, kind: arrives, p: p})
	l.serve()
}
