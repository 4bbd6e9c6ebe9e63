package maxmin

import (
	"math"

	"github.com/titrate/titrate/papers/packets"
)

const (
	mbit   = 125.  // packets/s in a Mbit/s, packets of 1000 bytes
	target = 256   // packets, q_T
	edge   = 256   // packets, buffer of an aggregate at its edge
	ask    = .01   // s between control packets of a source
	period = .0024 // s, T = 30Δ at 100 Mbit/s
	window = .024  // s, W = 300Δ
)

// class is an aggregate flow: its terms, its path and when it is there.
type class struct {
	weight, minimum, peak float64 // Mbit/s
	from, until           float64 // s
	links                 []int   // it passes, in order
	delay                 []float64
	back                  float64 // s from the last link to its edge
	tcp                   int
	lossless              bool // its edge has room for all, so that it always has something to send
}

// aggregate is a class that runs: the edge with its queue and rate, and the TCP flows in it.
type aggregate struct {
	class
	Source
	edge  *packets.Link
	flows []*packets.Flow
	sent  int // packets reported to the source law
	on    bool
}

// cloud is the network: core links with the link algorithm, and the aggregates.
type cloud struct {
	*packets.Network
	mu    []float64 // Mbit/s
	core  []*packets.Link
	laws  []Link
	flows []*aggregate
}

// newCloud builds it. longest is τ̄, the longest round trip of the gains, s.
func newCloud(mu []float64, classes []class, longest float64) *cloud {
	c := &cloud{Network: packets.New(4), mu: mu}
	for _, m := range mu {
		l := c.Add(packets.Link{Rate: m * mbit})
		c.core = append(c.core, l)
		c.laws = append(c.laws, Link{A: .5 / longest, B: .1 / (longest * longest), Period: period, Window: window,
			Target: target / mbit, Max: m, Margin: .9, Memory: .98})
	}
	for i := range c.laws {
		c.Repeat(0, period, func() { c.laws[i].Step(float64(c.core[i].Queued()) / mbit) })
	}
	for _, k := range classes {
		c.join(k)
	}
	return c
}

// join adds an aggregate.
func (c *cloud) join(k class) {
	a := &aggregate{class: k, Source: Source{Weight: k.weight, Minimum: k.minimum, Peak: k.peak, Interval: ask}}
	buffer := edge
	if k.lossless {
		buffer = 0 // unbounded
	}
	a.edge = c.Add(packets.Link{Rate: 1, Buffer: buffer})
	path := []packets.Hop{{Delay: .001, Link: a.edge}}
	for i, l := range k.links {
		path = append(path, packets.Hop{Delay: k.delay[i], Link: c.core[l]})
	}
	for range k.tcp {
		f := c.Connect(packets.Flow{Path: path, Last: .01, Back: k.back})
		a.flows = append(a.flows, f)
		c.At(k.from+.2*c.Rand.Float64(), f.Start)
		if k.until > 0 {
			c.At(k.until, f.Stop)
		}
	}
	c.flows = append(c.flows, a)
	c.At(k.from, func() { a.on = true })
	if k.until > 0 {
		c.At(k.until, func() { a.on = false })
	}
	c.Repeat(k.from, ask, func() { c.inform(a) })
	c.Repeat(0, .001, func() { a.edge.Rate = math.Max(10, a.Rate()*mbit) })
}

// inform sends a control packet of an aggregate along its path and home.
func (c *cloud) inform(a *aggregate) {
	if !a.on {
		return
	}
	a.Send(float64(a.edge.Sent-a.sent) / mbit)
	a.sent = a.edge.Sent
	p, due := a.Tick(c.Now + 1e-9)
	if !due {
		return
	}
	c.forward(a, &p, 0)
}

// forward takes a control packet to the next link, through its queue, and home.
func (c *cloud) forward(a *aggregate, p *Packet, hop int) {
	if hop == len(a.links) {
		c.At(c.Now+a.back+.01, func() { a.Hear(*p) })
		return
	}
	c.At(c.Now+a.delay[hop], func() {
		l := a.links[hop]
		c.laws[l].Pass(p)
		c.At(c.Now+float64(c.core[l].Queued())/c.core[l].Rate, func() { c.forward(a, p, hop+1) })
	})
}
