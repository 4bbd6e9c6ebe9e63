package packets

import "math"

// Flow is a greedy TCP Reno source and its sink. Windows are in packets.
type Flow struct {
	Path   []Hop
	Last   float64 // delay behind the last link, s
	Back   float64 // delay of the acknowledgements, s
	Access float64 // rate of the source's own link, packets/s; 0: unbounded
	Plain  bool    // without ECN: a mark is a loss

	// Delivered counts packets that reached the sink for the first time, Timeouts expired timers.
	Delivered, Timeouts int

	net                 *Network
	id                  int32
	on                  bool
	window, threshold   float64
	next, oldest, most  int32 // next to send; first not acknowledged; end of the sent packets
	duplicates          int
	recovering          bool
	recover, reduced    int32 // until here a loss, a mark, is of the same window
	smooth, spread, rto float64
	free, passed        float64 // when the access link is free; when the last packet left
	deadline            float64
	armed               bool

	expected int32
	early    map[int32]bool // received out of order
}

const (
	leastRTO   = .2 // s, as ns-2 and Linux have it
	greatest   = 60.0
	firstLimit = 64 // slow start threshold at the beginning
)

// Connect adds a flow. It sends from Start on.
func (n *Network) Connect(f Flow) *Flow {
	f.net, f.id = n, int32(len(n.Flows))
	f.early = map[int32]bool{}
	n.Flows = append(n.Flows, &f)
	return &f
}

// Start begins a new transfer, from slow start.
func (f *Flow) Start() {
	f.on, f.window, f.threshold, f.rto = true, 1, firstLimit, 3
	f.recovering, f.duplicates, f.reduced, f.recover = false, 0, f.most, f.most
	f.smooth = 0
	f.send()
}

// Stop sends nothing new.
func (f *Flow) Stop() { f.on = false }

// Window is the congestion window in packets.
func (f *Flow) Window() float64 { return f.window }

// send sends the packets that the window allows.
func (f *Flow) send() {
	for f.on && float64(f.next-f.oldest)+1 <= math.Max(1, f.window) {
		f.emit(f.next)
		f.next++
	}
}

// emit sends one packet through the access link.
func (f *Flow) emit(seq int32) {
	at := math.Max(f.net.Now, f.free)
	if f.Access > 0 {
		at += 1 / f.Access
	}
	f.free = at
	p := packet{flow: f.id, seq: seq, sent: f.net.Now, again: seq < f.most}
	f.most = max(f.most, seq+1)
	// A little jitter, as of a host's processing, breaks the lockstep of equal sources.
	at = math.Max(f.passed, at+1e-3*f.net.Rand.Float64())
	f.passed = at // packets do not overtake each other
	at += f.Path[0].Delay
	f.net.agenda.push(event{at: at, kind: arrives, p: p})
	if f.deadline == 0 {
		f.arm()
	}
}

// arm sets the retransmission timer. One event is under way at most; it looks at the deadline.
func (f *Flow) arm() {
	f.deadline = f.net.Now + f.rto
	if !f.armed {
		f.armed = true
		f.net.agenda.push(event{at: f.deadline, kind: expires, id: f.id})
	}
}

// expire is the timer: nothing came back for a time.
func (f *Flow) expire(now float64) {
	f.armed = false
	switch {
	case f.deadline == 0:
		return
	case now < f.deadline-1e-9:
		f.armed = true
		f.net.agenda.push(event{at: f.deadline, kind: expires, id: f.id})
		return
	}
	f.Timeouts++
	f.threshold = math.Max(2, float64(f.next-f.oldest)/2)
	f.window, f.duplicates, f.recovering = 1, 0, false
	f.next, f.recover, f.reduced = f.oldest, f.most, f.most
	f.rto = math.Min(greatest, 2*f.rto)
	f.deadline = 0
	if f.on || f.oldest < f.most {
		f.emit(f.next)
		f.next++
	}
}

// receive is a packet at the sink, which acknowledges the packets received in order.
func (f *Flow) receive(p packet) {
	if p.seq >= f.expected && !f.early[p.seq] {
		f.Delivered++
		f.early[p.seq] = true
		for f.early[f.expected] {
			delete(f.early, f.expected)
			f.expected++
		}
	}
	p.seq = f.expected
	f.net.agenda.push(event{at: f.net.Now + f.Back, kind: acked, p: p})
}

// acknowledge is Reno's reaction to an acknowledgement of all below p.seq.
func (f *Flow) acknowledge(p packet) {
	if !p.again {
		f.sample(f.net.Now - p.sent)
	}
	if p.marked && f.oldest >= f.reduced && !f.recovering {
		f.threshold = math.Max(2, f.window/2)
		f.window = math.Max(1, f.window/2)
		f.reduced = f.most
	}
	if p.seq > f.oldest {
		f.advance(p)
	} else if f.next > f.oldest {
		f.duplicate()
	}
	f.send()
}

// advance takes a new acknowledgement.
func (f *Flow) advance(p packet) {
	fresh := p.seq - f.oldest
	f.oldest = p.seq
	f.next = max(f.next, f.oldest)
	f.duplicates = 0
	switch {
	case f.recovering:
		f.recovering = false
		f.window = f.threshold
	case p.marked: // no growth by an acknowledgement with an echo
	case f.window < f.threshold:
		f.window += float64(min(fresh, 1))
	default:
		f.window += 1 / f.window
	}
	if f.deadline = 0; f.next > f.oldest {
		f.arm()
	}
}

// duplicate counts towards fast retransmit, and inflates the window in fast recovery.
func (f *Flow) duplicate() {
	f.duplicates++
	switch {
	case f.recovering:
		f.window++
	case f.duplicates == 3 && f.oldest >= f.recover:
		f.threshold = math.Max(2, math.Min(f.window, float64(f.next-f.oldest))/2)
		f.window = f.threshold + 3
		f.recovering, f.recover, f.reduced = true, f.most, f.most
		f.emit(f.oldest)
		f.arm()
	}
}

// sample updates the retransmission timeout (Jacobson).
func (f *Flow) sample(rtt float64) {
	if f.smooth == 0 {
		f.smooth, f.spread = rtt, rtt/2
	} else {
		f.spread += (math.Abs(rtt-f.smooth) - f.spread) / 4
		f.smooth += (rtt - f.smooth) / 8
	}
	f.rto = math.Min(greatest, math.Max(leastRTO, f.smooth+4*f.spread))
}
