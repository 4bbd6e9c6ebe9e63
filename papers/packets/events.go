package packets

import "container/heap"

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
	// sent is the time at which the source sent the packet, entered the time at which it entered the queue, s.
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

// agenda has the events that are to come, the earliest first.
type agenda struct {
	heap earliest
	n    uint64
}

func (a *agenda) push(e event) {
	a.n++
	e.n = a.n
	heap.Push(&a.heap, &e)
}

// due reports whether an event comes until then.
func (a *agenda) due(until float64) bool { return len(a.heap) > 0 && a.heap[0].at <= until }

func (a *agenda) pop() event { return *heap.Pop(&a.heap).(*event) }

// earliest orders events by time; events of one time keep the order in which they were pushed.
type earliest []*event

func (q earliest) Len() int { return len(q) }
func (q earliest) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}
func (q earliest) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *earliest) Push(x any)   { *q = append(*q, x.(*event)) }
func (q *earliest) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
