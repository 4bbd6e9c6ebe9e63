package baseline

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/lab/simulate/system"
)

// Claims makes gateways whose parts are the announced claims of Titrate's own rate
// controller, without the ledger that Titrate holds limits with.
func Claims(stage system.Stage) (system.System, error) {
	n := len(stage.Cast.Gateways)
	return newCluster(stage, stage.Scenario.Gossip.Period,
		&claims{others: newAnnounced(n, nil), own: make([][]drc.Controller, n)})
}

// claims is the law of Claims. A message has three figures per unit: the claim, the weight if saturated, and
// the claim if not saturated.
type claims struct {
	others *announced
	own    [][]drc.Controller // by gateway and unit
}

func (l *claims) reset(c *cluster, now time.Duration) {
	c.byWeight(now)
	for g := range l.own {
		fresh := l.own[g] == nil || !c.up[g]
		if fresh {
			l.own[g] = make([]drc.Controller, len(c.total))
		}
		for u := range l.own[g] {
			if p := c.controller(g, u); fresh {
				l.own[g][u] = drc.New(p)
			} else {
				l.own[g][u].Configure(p)
			}
		}
	}
}

// controller has the parameters of a unit at a gateway.
func (c *cluster) controller(g, u int) drc.Params {
	gossip := c.agenda.gossip
	sum := 0.0
	for _, w := range c.weights {
		sum += w
	}
	return drc.Params{
		Rate: c.total[u], Weight: c.weights[g], TotalWeight: math.Max(sum, 1e-9), Guarantee: drc.DefaultGuarantee,
		Lag: (gossip.Delay + gossip.Jitter + gossip.Period).Seconds(), Period: gossip.Period.Seconds(), Police: true,
	}
}

func (l *claims) receive(c *cluster, m *message) { l.others.receive(c, m) }

func (l *claims) turn(c *cluster, now time.Duration) {
	for g := range c.gateways {
		if !c.up[g] {
			continue
		}
		sent := make([]float64, 3*len(c.total))
		others := l.others.sums(g, now, forgetAfter, make([]float64, len(sent)))
		for u := range l.own[g] {
			own := &l.own[g][u]
			own.Step(c.every.Seconds(), c.gateways[g].wanted[u],
				drc.Sums{Claims: others[3*u], Active: others[3*u+1], Unsaturated: others[3*u+2]})
			c.set(g, u, own.Rate(), now)
			claim := own.Publish()
			sent[3*u], sent[3*u+1], sent[3*u+2] = claim.Claim, claim.Active, claim.Unsaturated
		}
		l.others.send(c, g, now, sent)
	}
}
