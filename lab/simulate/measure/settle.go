package measure

import (
	"math"
	"time"
)

const (
	// window is long enough for a few requests too many to be within the tolerance
	// of a limit of fifty per second.
	window    = time.Second
	tolerance = .05
)

// quantity is something that should follow a reference: sums of bins.
type quantity struct {
	name string
	got  []float64
	due  func(bin int) float64 // per bin
	// noise is the part of due, per bin, whose arrivals are random.
	noise   func(bin int) float64
	counts  func(bin int) bool // it is to be judged there
	largest float64            // cost of a request
}

// settling finds, for each event, the time after which all quantities stayed close to their right values.
func (p *Recorder) settling() []Settling {
	out := []Settling{}
	quantities := p.quantities()
	for i := range p.t.events {
		e := &p.t.events[i]
		until := p.t.end
		for j := i + 1; j < len(p.t.events); j++ {
			if p.t.events[j].At > e.At {
				until = p.t.events[j].At
				break
			}
		}
		out = append(out, p.settle(e.At, until, e.String(), quantities))
	}
	return out
}

func (p *Recorder) settle(from, until time.Duration, what string, quantities []quantity) Settling {
	first, after := p.t.within(from, until)
	width := max(1, int(window/p.t.bin))
	s := Settling{AtSeconds: from.Seconds(), What: what}
	last := 0.0
	settled := true
	for i := range quantities {
		end := p.lastOff(&quantities[i], first, after, width)
		if end < 0 {
			continue
		}
		if t := (time.Duration(end)*p.t.bin - window/2 - from).Seconds(); t > last {
			last, s.By = t, quantities[i].name
		}
		settled = settled && end < after
	}
	if settled {
		s.Seconds = &last
	}
	return s
}

// lastOff is the bin after the last window in [first, after) that is off; −1 if
// none is.
func (p *Recorder) lastOff(q *quantity, first, after, width int) int {
	for end := after; end-width >= first; end-- {
		var got, due, noise float64
		judged := true
		for b := end - width; b < end; b++ {
			got += q.got[b]
			due += q.due(b)
			noise += q.noise(b)
			judged = judged && q.counts(b)
		}
		if judged && math.Abs(got-due) > tolerance*due+2*q.largest+3*math.Sqrt(noise*q.largest) {
			return end
		}
	}
	return -1
}

func never(int) float64 { return 0 }

// quantities are pools that are wanted whole, saturated flows, and limits.
func (p *Recorder) quantities() []quantity {
	t := p.t
	step := t.bin.Seconds()
	phases := make([]int, t.bins)
	for b := range phases {
		phases[b] = t.phaseOf(time.Duration(b) * t.bin)
	}
	var out []quantity
	for i := range t.pools {
		out = append(out, p.poolQuantity(i, phases, step))
	}
	for i := range t.flows {
		f := &t.flows[i]
		if t.poolOf[i] < 0 {
			continue
		}
		out = append(out, quantity{name: "flow " + f.tenant + "/" + f.pool, got: p.flows[i].served,
			noise: never, largest: f.largest,
			due:    func(b int) float64 { return f.fair[phases[b]] * step },
			counts: func(b int) bool { return f.saturated[phases[b]] }})
	}
	for i := range t.limits {
		l := &t.limits[i]
		out = append(out, quantity{name: "limit " + l.tenant + "/" + l.limit, got: p.limit[i],
			noise: never, largest: l.largest,
			due:    func(b int) float64 { return l.central[b] },
			counts: func(b int) bool { return l.above[phases[b]] && !t.crowded(l.tenant, phases[b]) }})
	}
	return out
}

// crowded reports whether a tenant is saturated in a pool: then the pool and not a limit bounds the tenant.
func (t *Reference) crowded(tenant string, phase int) bool {
	for i := range t.flows {
		if t.flows[i].tenant == tenant && t.flows[i].saturated[phase] {
			return true
		}
	}
	return false
}

// poolQuantity is all that is served from a pool. What the unsaturated flows in it
// want comes at random.
func (p *Recorder) poolQuantity(i int, phases []int, step float64) quantity {
	t := p.t
	pool := &t.pools[i]
	got, noise := make([]float64, t.bins), make([]float64, len(t.phases))
	largest := 0.0
	for j := range t.flows {
		if t.poolOf[j] != i {
			continue
		}
		f := &t.flows[j]
		largest = max(largest, f.largest)
		for b, x := range p.flows[j].served {
			got[b] += x
		}
		for ph := range noise {
			if !f.saturated[ph] {
				noise[ph] += f.fair[ph]
			}
		}
	}
	return quantity{name: "pool " + pool.name, got: got, largest: largest,
		due:    func(b int) float64 { return pool.capacity[phases[b]] * step },
		noise:  func(b int) float64 { return noise[phases[b]] * step },
		counts: func(b int) bool { return pool.demand[phases[b]] >= pool.capacity[phases[b]]*(1+margin) }}
}
