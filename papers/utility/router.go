// Package utility reproduces Ye & MacGregor, "Optimal Utility-based Internal Congestion
// Control in a Cluster-based Router". It has the primal-dual law (9), (10) by rounds
// ([PrimalDual]), its stability over the gains k and R, the continuous model with its
// Lyapunov function, and the router. [Quote] is our scale-free form of the law.
//
// The router of sections 5 and 6 is a model here: ingress nodes inject what the law allows,
// the egress node has a queue and a processor that receiving and sending share. Its one
// constant that the paper does not give, the cost of receiving a packet, is fitted to one
// figure of the paper, and is said to be.
package utility

import "math"

const (
	capacity = 764500. // packets/s, of the egress node in the simulations
	sources  = 3
	round    = .001 // s, a control interval of the model
	limit    = 1000 // packets, the egress queue
)

// newLaw is the law of three greedy sources of weight 1 with gains k and r, from rest.
func newLaw(k, r float64) *PrimalDual {
	return &PrimalDual{K: k, R: r, Weight: 1, Capacity: capacity, Rates: make([]float64, sources)}
}

// settles is the round from which all sources stay within off of their share, relative; -1
// if they do not within n rounds.
func settles(k, r, off float64, n int) int {
	l, last := newLaw(k, r), 0
	for i := 1; i <= n; i++ {
		l.Step()
		for _, x := range l.Rates {
			if !(math.Abs(x*sources/l.Capacity-1) <= off) {
				last = i
			}
		}
	}
	if last == n {
		return -1
	}
	return last + 1
}

// egress is the node where packets leave: receiving a packet takes cost s of its processor,
// sending one the rest of 1/peak.
type egress struct {
	peak, cost float64
	queue      float64
}

// forward receives at a rate for a while and returns the rate sent. Receiving goes first.
func (e *egress) forward(in, span float64) float64 {
	send := math.Max(0, (1-in*e.cost)/(1/e.peak-e.cost))
	out := math.Min(send, in+e.queue/span)
	e.queue = math.Min(limit, math.Max(0, e.queue+(in-out)*span))
	return out
}
