// Package chemical reproduces Monti & Sifalakis, "Design, Analysis and Performances of Chemical-Inspired Rate
// Controllers in Packet Networks" (Basel, CS-2013-001). It has their adaptive controller ([Controller]), alone
// and coupled, with the constants of their Table 1. Package reaction has the controller's network of reactions,
// and the computations on such networks.
//
// The paper gives neither the clients' rates of its figures 7 to 9 nor the constant of reaction r5. Both are
// chosen here: [offers] and [k5]. Table 1 can be read as k5 = 0. Then a host that was idle keeps all that it
// sensed while idle, and never gets a rate again.
//
// Nodes sense the others' output as a rate, late by the delay. Arrivals are Poisson, or bursts.
package chemical

import (
	"math"
	"math/rand/v2"

	"github.com/titrate/titrate/papers/reaction"
)

// step is h in seconds.
const step = 0.001

// k5 is the constant of r5 in 1/s, which the paper leaves open.
const k5 = 0.1

// table1 are the paper's constants with r5 in force.
func table1() reaction.Constants {
	p := reaction.Table1()
	p.K5 = k5
	return p
}

// host is one node.
type host struct {
	start float64 // s
	rate  float64 // mean offered rate, 1/s
	// on and off are the mean lengths of bursts and of the pauses between them, s; 0: no bursts.
	on, off float64

	law     Controller
	bursts  bool
	until   float64 // of this burst or pause
	offered float64 // rate in this step
	out     float64
}

// crowd are coupled nodes.
type crowd struct {
	hosts []host
	delay func() float64 // of the news from one host to another, s; redrawn every 50 ms
	rng   *rand.Rand
	fluid bool // arrivals without chance
}

// past is the number of steps for which outputs are remembered: delays must be shorter.
const past = 1 << 10

// run plays the crowd for span seconds and calls see every tenth step.
func (c *crowd) run(p reaction.Constants, span float64, see func(t float64)) {
	n := len(c.hosts)
	for i := range c.hosts {
		c.hosts[i].law = NewController(p)
	}
	history := make([]float64, past*n)
	late := make([]int, n*n)
	for k := range int(span/step + .5) {
		t := float64(k) * step
		if k%50 == 0 {
			for i := range late {
				late[i] = max(1, int(c.delay()/step+.5))
			}
		}
		for i := range c.hosts {
			h, ext := &c.hosts[i], 0.0
			if t < h.start {
				continue
			}
			for j := range n {
				if j != i {
					ext += history[(k-late[i*n+j]+past)%past*n+j]
				}
			}
			h.offered = c.arrivals(h, t)
			h.out = h.law.Step(step, h.offered, ext)
		}
		for i := range c.hosts {
			history[k%past*n+i] = c.hosts[i].out
		}
		if k%10 == 0 {
			see(t)
		}
	}
}

// arrivals returns the rate of arrivals at host h in this step.
func (c *crowd) arrivals(h *host, t float64) float64 {
	rate := h.rate
	if h.on > 0 {
		for t >= h.until {
			h.bursts = !h.bursts
			mean := h.off
			if h.bursts {
				mean = h.on
			}
			h.until += mean * c.rng.ExpFloat64()
			if h.until < t-60 { // it was not there yet
				h.until = t
			}
		}
		if !h.bursts {
			return 0
		}
		rate *= (h.on + h.off) / h.on
	}
	if c.fluid {
		return rate
	}
	return float64(poisson(c.rng, rate*step)) / step
}

func poisson(rng *rand.Rand, mean float64) (n int) {
	for limit, p := math.Exp(-mean), rng.Float64(); p > limit; p *= rng.Float64() {
		n++
	}
	return n
}

// total is the sum of the hosts' outputs.
func (c *crowd) total() (sum float64) {
	for i := range c.hosts {
		sum += c.hosts[i].out
	}
	return sum
}

// jain returns the fairness index of the hosts' rates against their max-min shares: (Σx)²/(n·Σx²) of x =
// got/share over the hosts that are present.
func (c *crowd) jain(t, capacity float64, got func(*host) float64) float64 {
	shares := c.shares(t, capacity)
	sum, squares, n := 0.0, 0.0, 0.0
	for i := range c.hosts {
		if shares[i] > 0 {
			x := got(&c.hosts[i]) / shares[i]
			sum, squares, n = sum+x, squares+x*x, n+1
		}
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (n * squares)
}

// shares are the max-min shares of the hosts that have started by t; 0 for the others.
func (c *crowd) shares(t, capacity float64) []float64 {
	out := make([]float64, len(c.hosts))
	fill := func(f float64) (sum float64) {
		for i, h := range c.hosts {
			if out[i] = 0; t >= h.start {
				out[i] = math.Min(h.rate, f)
			}
			sum += out[i]
		}
		return sum
	}
	if fill(math.Inf(1)) <= capacity {
		return out
	}
	lo, hi := 0.0, capacity
	for range 60 {
		if mid := (lo + hi) / 2; fill(mid) < capacity {
			lo = mid
		} else {
			hi = mid
		}
	}
	fill(lo)
	return out
}
