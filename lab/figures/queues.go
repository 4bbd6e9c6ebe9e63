package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/titrate/titrate/control/aqm"
)

// reno is one greedy TCP Reno source with ECN: one halving per window.
type reno struct {
	window, threshold     float64
	flying, next, recover int
}

// segment is a packet on its way, or its acknowledgement.
type segment struct {
	source, number int
	hit            bool
}

const (
	slots = 1250 // per second: the time of one packet of 1000 bytes at 10 Mbit/s
	there = 50   // slots from source to queue, 40 ms
	home  = 200  // slots from the queue to the sink and back, 160 ms
	ring  = 256
)

// dumbbell is the paper's figure 2: M sources, one queue with room for 300.
type dumbbell struct {
	sources      []reno
	queue        []segment
	arrive, acks [ring][]segment // by slot
	rng          *rand.Rand
	slot         int
}

// queues draws the queue under five laws for 100 sources, and under the published law
// for 50 to 250.
func queues() []figure {
	const seconds = 60
	laws := figure{name: "queues-laws", title: "Queue of 100 Reno sources with ECN under five laws", x: "time (s)", y: "queue (packets, mean of 0.5 s)"}
	vs, red, rem, pi := aqm.PaperVS(), aqm.DefaultRED(300), aqm.DefaultREM(150, 300), aqm.HollotPI(150, 300)
	vs.Buffer = 300
	for _, c := range []struct {
		name string
		law  aqm.Law
	}{{"variable structure", &vs}, {"PI", &pi}, {"RED", &red}, {"REM", &rem}, {"drop tail", &aqm.DropTail{Delay: 300. / slots}}} {
		laws.lines = append(laws.lines, watch(c.name, c.law, 100, seconds))
	}
	load := figure{name: "queues-load", title: "Fig. 7–9: the published law by number of sources", x: laws.x, y: laws.y}
	for m := 50; m <= 250; m += 50 {
		law := aqm.PaperVS()
		law.Buffer = 300
		load.lines = append(load.lines, watch(fmt.Sprintf("M = %d", m), &law, m, seconds))
	}
	return []figure{laws, load}
}

// watch runs m sources under a law and draws the queue.
func watch(name string, law aqm.Law, m, seconds int) line {
	d := &dumbbell{sources: make([]reno, m), rng: rand.New(rand.NewPCG(5, uint64(m)))}
	for i := range d.sources {
		d.sources[i] = reno{window: 1, threshold: 64}
		d.emit(i)
	}
	l, sum := line{name: name}, 0
	for d.slot = 0; d.slot < seconds*slots; d.slot++ {
		d.pass(law)
		if sum += len(d.queue); d.slot%(slots/2) == slots/2-1 {
			l.add(float64(d.slot)/slots, float64(sum)/(slots/2))
			sum = 0
		}
	}
	return l
}

// emit sends what the window of source i allows.
func (d *dumbbell) emit(i int) {
	s := &d.sources[i]
	for float64(s.flying)+1 <= s.window {
		at := (d.slot + there + d.rng.IntN(4)) % ring // a little jitter breaks phase effects
		d.arrive[at] = append(d.arrive[at], segment{source: i, number: s.next})
		s.flying, s.next = s.flying+1, s.next+1
	}
}

// pass lets one slot pass.
func (d *dumbbell) pass(law aqm.Law) {
	now, at := float64(d.slot)/slots, d.slot%ring
	if d.slot%13 == 0 { // about 10 ms
		law.Step(now, float64(len(d.queue)), slots, float64(len(d.sources)))
	}
	for _, p := range d.arrive[at] {
		v := law.Arrive(aqm.Arrival{Now: now, Cost: 1, Queued: float64(len(d.queue)), Rand: d.rng.Float64()})
		if p.hit = v != aqm.Accept; v == aqm.Drop { // noticed like a mark, a round trip later
			d.send(p)
		} else {
			d.queue = append(d.queue, p)
		}
	}
	d.arrive[at] = d.arrive[at][:0]
	if len(d.queue) > 0 {
		d.send(d.queue[0])
		d.queue = d.queue[1:]
	}
	for _, a := range d.acks[at] {
		d.acknowledge(a)
	}
	d.acks[at] = d.acks[at][:0]
}

// send puts the acknowledgement on its way.
func (d *dumbbell) send(p segment) {
	at := (d.slot + home) % ring
	d.acks[at] = append(d.acks[at], p)
}

// acknowledge is Reno's reaction.
func (d *dumbbell) acknowledge(a segment) {
	s := &d.sources[a.source]
	s.flying--
	switch {
	case a.hit && a.number >= s.recover:
		s.window = max(s.window/2, 1)
		s.threshold, s.recover = s.window, s.next
	case s.window < s.threshold:
		s.window++
	default:
		s.window += 1 / s.window
	}
	d.emit(a.source)
}
