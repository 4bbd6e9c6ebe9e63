package chemical

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/papers/experiment"
	"github.com/titrate/titrate/papers/reaction"
)

// four are the nodes of figure 10. Each wants all of the 2 Mbit/s. A node starts every apart seconds. Reports
// from other nodes arrive 20 ms late.
func four(apart float64) (*crowd, reaction.Constants) {
	c := &crowd{fluid: true, delay: func() float64 { return .02 }}
	for j := range 4 {
		c.hosts = append(c.hosts, host{start: apart * float64(j), rate: 4})
	}
	p := reaction.Table1().Scaled(2. / 1000)
	p.KF, p.K5 = 100, k5
	return c, p
}

// published plays the paper's controller and draws it. It returns, for each number of nodes, three figures over
// the last half of the time with this number. They are the mean rate per node, the standard deviation of the
// first node, and the least and greatest mean of a node.
func published(r *experiment.Result, name string, apart float64) (each, swing, least, most [4]float64) {
	c, p := four(apart)
	ch := r.Chart(name, fmt.Sprintf("Fig 10, published controller: one more node every %g s", apart), "time (s)",
		"rate (Mbit/s)")
	var lines [4]*experiment.Line
	for j := range lines {
		lines[j] = ch.Line(fmt.Sprintf("node %d", j+1), experiment.Solid)
	}
	for n, v := range []float64{2, 1, .65, .5} {
		l := ch.Line(fmt.Sprintf("paper: %g each", v), experiment.FromPaper)
		l.Add(apart*float64(n), v)
		l.Add(apart*float64(n+1), v)
	}
	var sum, sums, squares, count [4]float64
	var nodes [4][4]float64
	c.run(p, 4*apart, func(t float64) {
		n := int(t / apart)
		for j := range c.hosts {
			if t >= c.hosts[j].start {
				lines[j].Add(t, c.hosts[j].out)
			}
		}
		if t-float64(n)*apart < apart/2 || n > 3 {
			return
		}
		count[n]++
		for j := 0; j <= n; j++ {
			v := c.hosts[j].out
			sum[n] += v / float64(n+1)
			nodes[n][j] += v
		}
		sums[n] += c.hosts[0].out
		squares[n] += c.hosts[0].out * c.hosts[0].out
	})
	for n := range each {
		each[n] = sum[n] / count[n]
		m := sums[n] / count[n]
		swing[n] = math.Sqrt(math.Max(0, squares[n]/count[n]-m*m))
		least[n], most[n] = math.Inf(1), 0
		for j := 0; j <= n; j++ {
			least[n], most[n] = math.Min(least[n], nodes[n][j]/count[n]), math.Max(most[n], nodes[n][j]/count[n])
		}
	}
	return each, swing, least, most
}

// announced plays the product's controller on the same nodes: claims every 10 ms, 20 ms
// late, packets of 1500 bytes. It returns the last node's seconds from its join until it
// has its share within 5 %, and the highest mean of all over a second, Mbit/s.
func announced(r *experiment.Result, name string, apart float64) (settling, highest float64) {
	const h, late, every, packet = .005, 4, 2, .012 // s, steps, steps, Mbit
	ch := r.Chart(name, fmt.Sprintf("The same nodes with announced claims (ours): one more every %g s", apart),
		"time (s)", "rate, mean of 0.1 s (Mbit/s)")
	var lines [4]*experiment.Line
	var cs [4]drc.Controller
	var said [4][late + 1]drc.Claim
	var means [4]smoother
	var all smoother
	for j := range cs {
		lines[j] = ch.Line(fmt.Sprintf("node %d", j+1), experiment.Solid)
		cs[j] = drc.New(drc.Params{Rate: 2 / packet, Weight: 1, TotalWeight: 4, Replicas: 4,
			Guarantee: drc.DefaultGuarantee, Lag: .03, Period: .01})
	}
	ch.Level("paper: 0.5 each of four", 3*apart, 4*apart, .5)
	for k := range int(4 * apart / h) {
		t, total := float64(k)*h, 0.0
		for j := range cs {
			offered := 0.0
			if t >= apart*float64(j) {
				offered = 4 / packet
			}
			var o drc.Sums
			for i := range cs {
				if i != j {
					received := said[i][(k+1)%(late+1)]
					o.Claims, o.Active, o.Unsaturated = o.Claims+received.Claim, o.Active+received.Active,
						o.Unsaturated+received.Unsaturated
				}
			}
			out := cs[j].Step(h, offered*h, o) / h * packet
			cs[j].Remove(math.Max(0, cs[j].Backlog()-offered*.1)) // clients give up after 0.1 s
			total += out
			v := means[j].add(out, h, .1)
			lines[j].Add(t, v)
			if j == 3 && t >= 3*apart && math.Abs(v-.5) > .025 {
				settling = t - 3*apart
			}
		}
		for j := range cs {
			c := said[j][k%(late+1)]
			if (k+j)%every == 0 {
				c = cs[j].Publish()
			}
			said[j][(k+1)%(late+1)] = c
		}
		highest = math.Max(highest, all.add(total, h, 1))
	}
	return settling, highest
}

func fig10(bool) *experiment.Result {
	r := &experiment.Result{}
	each, swing, least, most := published(r, "chem-fig10", 100)
	for n, want := range []float64{2, 1, .65, .5} {
		r.Near(fmt.Sprintf("rate per node of %d, mean, Mbit/s", n+1), want, each[n], .05*want)
	}
	r.Holds("standard deviation of a node's rate with 1, 2, 3, 4 nodes, Mbit/s", "stochasticity rises with the nodes",
		fmt.Sprintf("%.3f, %.3f, %.3f, %.3f", swing[0], swing[1], swing[2], swing[3]), "4 nodes more than 2",
		swing[3] > swing[1]+.05).
		Because("The paper suspects TCP. Without any TCP and without chance the published loop oscillates without " +
			"end. With four nodes and kF = 100/s it is stable up to 8.8 ms of delay, and the delay is 20 ms.")
	_, _, soonLeast, soonMost := published(r, "chem-fig10-5s", 5)
	r.Within("least mean rate of four nodes over the greatest, joins 100 s apart", "divided fairly on average",
		least[3]/most[3], .9, 1)
	r.Note("the same, joins 5 s apart", experiment.Number(soonLeast[3]/soonMost[3])).
		Because("The paper gives no time axis in words. With joins 5 s apart each newcomer takes nearly all: the " +
			"shares have no time to even out.")
	settling, highest := announced(r, "chem-fig10-ours", 5)
	r.Note("ours, joins 5 s apart: seconds until the fourth node has its share within 5 %", experiment.Number(settling))
	r.Note("ours: highest second of all four, Mbit/s", experiment.Number(highest))
	return r
}
