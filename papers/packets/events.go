package packets

// kind of an event.
type kind uint8

const (
	arrives kind = iota // a packet reaches the link of its hop
	departs             // a link has sent its first packet
	acked               // an acknowledgement reaches its source
	expires             // a source's retransmission timer
	calls               // a function of the experiment
)

// packet is one on its way.
type packet struct {
	flow   int32
	seq    int32
	hop    int8
	marked bool
	again  bool // a retransmission: no sample of the round trip
	// sent is when its source sent it, entered when it came into the queue, s.
	sent, entered float64
}

// event is something that happens at a time.
type event struct {
	at   float64
	n    uint64 // order of events at the same time
	kind kind
	id   int32 // link or function
	p    packet
}

// agenda is a binary heap of events by time.
type agenda struct {
	heap []event
	n    uint64
}

func (a *agenda) push(e event) {
	a.n++
	e.n = a.n
	a.heap = append(a.heap, e)
	for i := len(a.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !before(&a.heap[i], &a.heap[up]) {
			return
		}
		a.heap[i], a.heap[up] = a.heap[up], a.heap[i]
		i = up
	}
}

func (a *agenda) pop() event {
	top, last := a.heap[0], len(a.heap)-1
	a.heap[0] = a.heap[last]
	a.heap = a.heap[:last]
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < last && before(&a.heap[c], &a.heap[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		a.heap[i], a.heap[least] = a.heap[least], a.heap[i]
		i = least
	}
}

func before(x, y *event) bool { return x.at < y.at || x.at == y.at && x.n < y.n }
