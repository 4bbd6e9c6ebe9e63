// Package marking reproduces Yan, Gao & Özbay, "Variable Structure Control in Active Queue Management for TCP
// with ECN". It has the law (9) ([VS]) with the paper's parameters, compared with drop tail, [RED], [REM] and
// [PI]. They run by packet-level TCP Reno with ECN and timeouts (package packets), and on the fluid models (1)
// to (6) and (12). [PIE] is here for package comparison.
//
// Where the paper leaves a choice open: a law sees the queue every 3 ms (at 10 ms the mean queues are the same
// and the link's use is 0.98). RED has the thresholds 5 and 15 of the page that the paper cites and, as in
// ns-2, drops arrivals while the average is above twice the upper threshold. REM has the defaults of ns-2, a
// target of 20 packets and a step every 2 ms.
package marking

import (
	"math"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/papers/experiment"
	"github.com/titrate/titrate/papers/packets"
)

const (
	rate   = 1250. // packets/s: 10 Mbit/s of 1000-byte packets
	buffer = 300   // packets
	look   = .003  // s between two looks of a law at the queue
)

// named is a law with its name.
type named struct {
	name string
	law  func(buffer float64) aqm.Law
}

func variable(b float64) aqm.Law { l := PaperVS(); l.Buffer = b; return &l }
func integral(b float64) aqm.Law { l := HollotPI(150, b); return &l }
func random(b float64) aqm.Law {
	return &forced{RED{Min: 5, Max: 15, MaxP: .1, Weight: .002, Buffer: b}}
}
func exponential(b float64) aqm.Law { l := DefaultREM(20, b); l.Period = .002; return &l }
func dropTail(float64) aqm.Law      { return nil }

// laws are the laws of the paper's comparison.
var laws = []named{{"variable structure", variable}, {"PI", integral}, {"RED", random}, {"REM", exponential},
	{"drop tail", dropTail}}

// forced is RED as ns-2 has it: while the average is where p is 1, arrivals are dropped and
// not marked.
type forced struct{ RED }

// Arrive drops where RED is sure to mark.
func (f *forced) Arrive(a aqm.Arrival) aqm.Verdict {
	v := f.RED.Arrive(a)
	if v == aqm.Mark && f.Probability() >= 1 {
		return aqm.Drop
	}
	return v
}

// dumbbell is the paper's figure 2: sources with links of 10 Mbit/s, one queue.
type dumbbell struct {
	*packets.Network
	link *packets.Link
}

// newDumbbell has m sources; host and core are the delays of the links to the hosts and
// between the routers, s.
func newDumbbell(m int, law func(float64) aqm.Law, host, core float64) *dumbbell {
	d := &dumbbell{Network: packets.New(uint64(m) + 5)}
	d.link = d.Add(packets.Link{Rate: rate, Law: law(buffer), Buffer: buffer, Every: look})
	for range m {
		d.Connect(packets.Flow{Path: []packets.Hop{{Delay: host, Link: d.link}}, Last: core + host,
			Back: 2*host + core, Access: rate})
	}
	for _, f := range d.Flows {
		d.At(d.Rand.Float64(), f.Start) // within the first second
	}
	return d
}

// outcome are the figures of a queue in a part of a run.
type outcome struct {
	queue, spread float64 // mean and standard deviation, packets
	use, loss     float64 // of the link's rate; of the packets offered
	least, most   float64 // mean queue of one second
}

// watch runs a network until a time, draws the queue as means of 0.2 s and measures from a
// time on.
func watch(n *packets.Network, l *packets.Link, from, until float64, line *experiment.Line) (o outcome) {
	var sum, squares, count, part, second float64
	var sent, offered, lost int
	k := 0
	o.least = math.Inf(1)
	n.Repeat(0, .01, func() {
		q := float64(l.Queued())
		part += q
		second += q
		if k++; k%20 == 0 && line != nil {
			line.Add(n.Now, part/20)
			part = 0
		}
		if k%100 == 0 {
			if n.Now > from {
				o.least, o.most = math.Min(o.least, second/100), math.Max(o.most, second/100)
			}
			second = 0
		}
		if n.Now >= from {
			sum, squares, count = sum+q, squares+q*q, count+1
		}
	})
	n.At(from, func() { sent, offered, lost = l.Sent, l.Offered, l.Lost })
	n.Run(until)
	o.queue = sum / count
	o.spread = math.Sqrt(math.Max(0, squares/count-o.queue*o.queue))
	o.use = float64(l.Sent-sent) / (until - from) / l.Rate
	o.loss = float64(l.Lost-lost) / math.Max(1, float64(l.Offered-offered))
	return o
}
