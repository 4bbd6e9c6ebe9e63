package packets

import (
	"math"
	"testing"

	"github.com/titrate/titrate/control/aqm"
)

// pair is one link of 1000 packets/s with a round trip of 100 ms and m flows.
func pair(m, buffer int, law aqm.Law) (*Network, *Link) {
	n := New(3)
	l := n.Add(Link{Rate: 1000, Buffer: buffer, Law: law, Every: .01})
	for range m {
		n.Connect(Flow{Path: []Hop{{Delay: .02, Link: l}}, Last: .03, Back: .05})
	}
	for i, f := range n.Flows {
		n.At(.1*float64(i), f.Start)
	}
	return n, l
}

// One flow with room for a window fills the link: nothing is lost until the window fills the
// pipe and the buffer, 100 + 100 packets, and slow start ends at its threshold.
func TestOneFlowFillsTheLink(t *testing.T) {
	n, l := pair(1, 100, nil)
	n.Run(10)
	before := l.Sent
	n.Run(60)
	if use := float64(l.Sent-before) / 50000; use < .99 || use > 1.0001 {
		t.Errorf("use %v", use)
	}
	f := n.Flows[0]
	if l.Lost == 0 || l.Lost > 20 || f.Timeouts > 1 {
		t.Errorf("%d lost, %d timeouts; want a loss per sawtooth of some 14 s", l.Lost, f.Timeouts)
	}
}

// What is lost is sent again: the sink gets every packet once, in order.
func TestEverythingArrives(t *testing.T) {
	n, l := pair(20, 10, nil)
	n.Run(60)
	for _, f := range n.Flows {
		if int(f.expected)+len(f.early) != f.Delivered || f.Delivered < 500 || f.oldest > f.expected {
			t.Errorf("flow %d: delivered %d, in order %d, early %d, acknowledged %d", f.id, f.Delivered, f.expected,
				len(f.early), f.oldest)
		}
	}
	if l.Lost == 0 || l.Offered != l.Sent+l.Lost+l.Queued() {
		t.Errorf("offered %d, sent %d, lost %d, queued %d", l.Offered, l.Sent, l.Lost, l.Queued())
	}
}

// marker marks with a fixed probability.
type marker float64

func (marker) Step(_, _, _, _ float64)            {}
func (marker) Depart(_, _, _ float64) aqm.Verdict { return aqm.Accept }
func (m marker) Arrive(a aqm.Arrival) aqm.Verdict {
	if a.Rand < float64(m) {
		return aqm.Mark
	}
	return aqm.Accept
}

// With a marking probability p the window is the steady-state window of the model (1) of Yan, Gao and Özbay,
// √(2(1−p)/p). It is so within the error of one halving per window and whole packets.
func TestWindowUnderMarking(t *testing.T) {
	for _, p := range []float64{.005, .02} {
		n, l := pair(1, 0, marker(p))
		l.Rate = 1e6 // no queue
		sum, count := 0.0, 0.0
		n.Repeat(20, .1, func() { sum, count = sum+n.Flows[0].Window(), count+1 })
		n.Run(600)
		want := math.Sqrt(2 * (1 - p) / p)
		if got := sum / count; math.Abs(got/want-1) > .15 {
			t.Errorf("p = %v: window %v, want %v", p, got, want)
		}
	}
}

// A link that goes dead is retried with a growing timeout, and the flow recovers.
func TestTimeouts(t *testing.T) {
	n, l := pair(1, 0, nil)
	gate := &gate{}
	l.Law = gate
	n.At(5, func() { gate.shut = true })
	n.At(20, func() { gate.shut = false })
	n.Run(20)
	f := n.Flows[0]
	if f.Timeouts < 3 || f.Timeouts > 6 {
		t.Errorf("%d timeouts in 15 s, want 1 + 2 + 4 + 8 s", f.Timeouts)
	}
	was := f.Delivered
	n.Run(60)
	if f.Delivered-was < 10000 {
		t.Errorf("%d packets after the outage", f.Delivered-was)
	}
}

type gate struct {
	marker
	shut bool
}

func (g *gate) Arrive(aqm.Arrival) aqm.Verdict {
	if g.shut {
		return aqm.Drop
	}
	return aqm.Accept
}

// The same seed gives the same run.
func TestDeterministic(t *testing.T) {
	var sent [2]int
	for i := range sent {
		n, l := pair(10, 20, nil)
		n.Run(20)
		sent[i] = l.Sent*1000 + l.Lost
	}
	if sent[0] != sent[1] {
		t.Errorf("%v", sent)
	}
}
