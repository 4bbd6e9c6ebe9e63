package limiter

import (
	"math"

	"github.com/titrate/titrate/control/config"
)

// A request has a plain cost, and perhaps others with names, such as its tokens of input
// and its tokens of output. Each limit and each pool counts by one of them: the plain one unless it
// names another. A limit does not apply to a request without the cost that it names; a pool counts
// such a request by its plain cost.
//
// Like identities, names become indices when a configuration is compiled, see [Engine.Name].

// MaxCosts bounds the names of costs in one process.
const MaxCosts = 8

// Plain is the place of a request's plain cost, beside the places in its Costs.
const Plain = -1

// Costs are the costs of one request by index, in cost units; 0 where it has none.
type Costs [MaxCosts]float64

// costName says by which cost a limit or a pool counts: the plain one, 1 + index of a name, or
// unnamedCost.
type costName uint8

const (
	plainCost   costName = 0
	unnamedCost costName = MaxCosts + 1 // no request has it
)

// by returns a cost in fixed point; 0: there is none.
func (c *Costs) by(name costName) int64 {
	if c == nil || name == unnamedCost || !(c[name-1] > 0) {
		return 0
	}
	return max(1, int64(min(c[name-1], MaxCost)*unit+0.5))
}

// known returns which costs there are, as bits.
func (c *Costs) known() (bits uint8) {
	if c == nil {
		return 0
	}
	for i, cost := range c {
		if cost > 0 {
			bits |= 1 << i
		}
	}
	return bits
}

// clone copies the costs, which outlive their request while it is held.
func (c *Costs) clone() *Costs {
	if c == nil {
		return nil
	}
	out := *c
	return &out
}

// cost returns the index of a cost's name.
func (n *Names) cost(name string) costName {
	if name == "" {
		return plainCost
	}
	for i, known := range n.Costs {
		if known == name {
			return costName(i + 1)
		}
	}
	return unnamedCost
}

// price has the costs of a request: the plain one, in fixed point, and the others by name.
type price struct {
	plain int64
	named *Costs
}

// by returns the cost by which a limit counts the request; 0: it does not.
func (p *price) by(name costName) int64 {
	if name == plainCost {
		return p.plain
	}
	return p.named.by(name)
}

// at returns the cost that the route's pool counts.
func (p *price) at(rt *route) int64 {
	if rt.cost != plainCost {
		if cost := p.named.by(rt.cost); cost != 0 {
			return cost
		}
	}
	return p.plain
}

// costOf returns what the request costs a limit.
func (c *call) costOf(l *limit) int64 {
	if l.plain {
		return c.price.plain
	}
	return c.otherCost(l)
}

// otherCost is costOf for a limit that counts another cost, or weighs the cost; apart, so that costOf costs no call.
func (c *call) otherCost(l *limit) int64 { return c.weigh(l, c.price.by(l.cost)) }

// counts reports whether a limit counts the request.
func (c *call) counts(l *limit) bool {
	return l.mode != config.Off && l.classes&c.classes != 0 && (l.cost == plainCost || c.named.by(l.cost) != 0)
}

// counter returns the cost by which the route's pool counts a request.
func (rt *route) counter(r *Request) costName {
	if rt.cost == plainCost || r.Costs.by(rt.cost) == 0 {
		return plainCost
	}
	return rt.cost
}

// PoolCost returns what a request counts at its pool, in millionths of a cost unit, and the place
// among its Costs that it comes from, or Plain.
func (e *Engine) PoolCost(r *Request) (micros int64, place int) {
	by := plainCost
	if rt, ok := e.findRoute(r); ok {
		by = rt.counter(r)
	}
	return r.costBy(by), int(by) - 1
}

// LeastBurst returns the smallest burst among the limits that can refuse a request by one of its costs. A greater cost
// never passes them. The place is Plain, or that of a cost in r.Costs which is not 0. The burst is +Inf if there is no
// such limit, never 0, and a whole number of millionths. A replica that is cut off from the others for long has a part
// of the burst, and that counts.
func (e *Engine) LeastBurst(r *Request, place int) float64 {
	least := math.Inf(1)
	rt, ok := e.findRoute(r)
	if !ok {
		return least
	}
	c := newCall(0, r, rt)
	for _, l := range rt.limits {
		if l.mode == config.Enforce && l.cost == costName(place+1) && c.counts(l) {
			least = min(least, e.keys.Burst(c.keysOf(l), c.under(l))/c.weightOf(l))
		}
	}
	return max(1, math.Floor(least*unit)) / unit
}
