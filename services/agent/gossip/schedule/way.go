package schedule

import (
	"slices"
	"time"
)

// way is the one-way delay of the last packets to one peer that were acknowledged. [Delay] is a
// peak that bounds how late claims are; this is what most packets take, for what waits for an
// answer. The zero value knows nothing.
type way struct {
	last [waySamples]uint32 // microseconds
	n    int                // measured so far
}

const (
	// waySamples is the number of packets by which the way is judged: some 16 s without traffic.
	waySamples = 32
	// fewestSamples is the number of measurements before the way is known.
	fewestSamples = 8
)

func (w *way) sample(d time.Duration) {
	w.last[w.n%waySamples] = uint32(max(d.Microseconds(), 1))
	w.n++
}

// value is the median; not ok: too few were measured. The packets that a busy machine holds up do not
// count, so that a moment of load makes no way long.
func (w *way) value() (d time.Duration, ok bool) {
	if w.n < fewestSamples {
		return 0, false
	}
	sorted := w.last
	all := sorted[:min(w.n, waySamples)]
	slices.Sort(all)
	return time.Duration(all[len(all)/2]) * time.Microsecond, true
}

// Way is the way to the farthest of the other agents.
type Way struct {
	Peers   int             // other agents that are alive
	Unknown int             // of them, agents to which too few packets were measured
	Longest time.Duration   // the longest of Known
	To      string          // the agent that is so far; "" if none is known
	Known   []time.Duration // median time one way to each other known agent
}

// Beyond returns how many agents are known to be farther than a way.
func (w Way) Beyond(most time.Duration) (n int) {
	for _, d := range w.Known {
		if d > most {
			n++
		}
	}
	return n
}

// Way returns how far the other agents of this site are.
func (p *Peers) Way() Way { return p.wayTo(func(at *peer) bool { return at.pairs == 0 }) }

// WayAbroad returns how far the agents of another site are: is reports whether an agent is of that site.
func (p *Peers) WayAbroad(is func(name string) bool) Way {
	return p.wayTo(func(at *peer) bool { return at.pairs > 0 && is(at.name) })
}

func (p *Peers) wayTo(counts func(*peer) bool) (w Way) {
	for _, at := range p.ordered() {
		if !at.alive || at.left || !counts(at) {
			continue
		}
		w.Peers++
		d, ok := at.delays.way.value()
		if !ok {
			w.Unknown++
			continue
		}
		if w.Known = append(w.Known, d); d > w.Longest {
			w.Longest, w.To = d, at.name
		}
	}
	return w
}
