package baseline

import (
	"math"
	"time"

	"github.com/titrate/titrate/lab/simulate/system"
)

// Static makes gateways that each hold their part by weight, alone.
func Static(stage system.Stage) (system.System, error) { return newCluster(stage, 0, static{}) }

type static struct{}

func (static) reset(c *cluster, now time.Duration) { c.byWeight(now) }
func (static) turn(*cluster, time.Duration)        {}
func (static) receive(*cluster, *message)          {}

// FPS makes gateways whose parts follow their share of the arrivals.
func FPS(stage system.Stage) (system.System, error) {
	return newCluster(stage, stage.Scenario.Gossip.Period, newAnnounced(len(stage.Cast.Gateways), proportional))
}

// AIMD makes gateways that probe upwards while the total fits, and back off.
func AIMD(stage system.Stage) (system.System, error) {
	return newCluster(stage, probeEvery, newAnnounced(len(stage.Cast.Gateways), probe))
}

const (
	probeEvery  = 500 * time.Millisecond // of AIMD
	increase    = .1                     // of a gateway's even part
	decrease    = .25                    // of its rate
	forgetAfter = time.Second            // of FPS; AIMD forgets after two turns and a delay
)

// announced is a law by which each gateway receives a figure of each other gateway, per unit, and sets its own
// rates from the sum.
type announced struct {
	received [][][]float64     // by receiver and sender
	at       [][]time.Duration // when
	law      func(h *announced, c *cluster, g int, now time.Duration)
}

func newAnnounced(n int, l func(*announced, *cluster, int, time.Duration)) *announced {
	h := &announced{law: l, received: make([][][]float64, n), at: make([][]time.Duration, n)}
	for g := range n {
		h.received[g], h.at[g] = make([][]float64, n), make([]time.Duration, n)
	}
	return h
}

func (h *announced) reset(c *cluster, now time.Duration) { c.byWeight(now) }

func (h *announced) receive(_ *cluster, m *message) {
	h.received[m.to][m.from], h.at[m.to][m.from] = m.rates, m.at
}

func (h *announced) turn(c *cluster, now time.Duration) {
	for g := range c.gateways {
		if c.up[g] {
			h.law(h, c, g, now)
		}
	}
}

// send sends a figure to all others.
func (h *announced) send(c *cluster, g int, now time.Duration, rates []float64) {
	for to := range c.gateways {
		if to != g && c.up[to] {
			c.agenda.send(now, message{from: g, to: to, rates: rates})
		}
	}
}

// sums adds up the figures that a gateway has received from the others at most ago before now, and its own.
func (h *announced) sums(g int, now, ago time.Duration, own []float64) []float64 {
	out := append([]float64(nil), own...)
	for from, rates := range h.received[g] {
		if rates != nil && now-h.at[g][from] <= ago {
			for u, v := range rates {
				out[u] += v
			}
		}
	}
	return out
}

// proportional is the law of FPS: a part is the own weight over all.
func proportional(h *announced, c *cluster, g int, now time.Duration) {
	own := append([]float64(nil), c.gateways[g].demand...)
	even := c.even(g)
	for u, sum := range h.sums(g, now, forgetAfter, own) {
		part := even
		if sum > 1e-9 {
			part = own[u] / sum
		}
		c.set(g, u, c.total[u]*part, now)
	}
	h.send(c, g, now, own)
}

// probe is the law of AIMD.
func probe(h *announced, c *cluster, g int, now time.Duration) {
	own := make([]float64, len(c.total))
	for u, cost := range c.gateways[g].admitted {
		own[u] = cost / c.every.Seconds()
	}
	even := c.even(g)
	for u, sum := range h.sums(g, now, 2*c.every+c.agenda.gossip.Delay+c.agenda.gossip.Jitter, own) {
		rate := c.gateways[g].buckets[u].Rate
		if sum > c.total[u] {
			rate *= 1 - decrease
		} else {
			rate = math.Min(rate+increase*even*c.total[u], c.total[u])
		}
		c.set(g, u, rate, now)
	}
	h.send(c, g, now, own)
}

// even is a gateway's part by weight.
func (c *cluster) even(g int) float64 {
	sum := 0.0
	for _, w := range c.weights {
		sum += w
	}
	return c.weights[g] / math.Max(sum, 1e-9)
}

// Waterfill makes gateways whose parts a coordinator works out from their demands.
func Waterfill(stage system.Stage) (system.System, error) {
	n := len(stage.Cast.Gateways)
	return newCluster(stage, stage.Scenario.Control.Round, &waterfill{demands: make([][]float64, n)})
}

// waterfill is the coordinator.
type waterfill struct{ demands [][]float64 } // by gateway: demands by unit

func (w *waterfill) reset(c *cluster, now time.Duration) { c.byWeight(now) }

func (w *waterfill) receive(c *cluster, m *message) {
	if m.to == centre {
		w.demands[m.from] = m.rates
		return
	}
	for u, rate := range m.rates {
		c.set(m.to, u, rate, m.at)
	}
}

// turn lets the coordinator divide by the demands that it has received. Then the gateways send it their present
// demands.
func (w *waterfill) turn(c *cluster, now time.Duration) {
	keys := len(c.stage.Cast.Keys)
	c.setShares(shares(c.stage.Scenario, c.stage.Cast, func(f int) float64 {
		sum := 0.0
		for g := range w.demands {
			sum += w.demand(c, g, keys+f)
		}
		return sum*(1+sparePart) + spareRate
	}, true))
	out := make([][]float64, len(c.gateways))
	for g := range out {
		out[g] = make([]float64, len(c.total))
	}
	demands := make([]float64, len(c.gateways))
	for u := range c.total {
		for g := range demands {
			demands[g] = w.demand(c, g, u) * (1 + sparePart)
		}
		for g, rate := range split(c.total[u], demands, c.weights) {
			out[g][u] = rate
		}
	}
	for g := range c.gateways {
		if c.up[g] {
			c.agenda.send(now, message{from: centre, to: g, rates: out[g]})
			c.agenda.send(now, message{from: g, to: centre, rates: append([]float64(nil), c.gateways[g].demand...)})
		}
	}
}

// demand returns the last demand that the coordinator received from a gateway.
func (w *waterfill) demand(c *cluster, g, unit int) float64 {
	if w.demands[g] == nil || c.weights[g] == 0 {
		return 0
	}
	return w.demands[g][unit]
}
