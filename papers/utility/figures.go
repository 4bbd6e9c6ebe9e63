package utility

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/titrate/titrate/papers/experiment"
)

func fig2(short bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("price-fig2", "Fig 2: (k, R) with an error below 0.1 % after 500 rounds", "k", "R (10¹¹)")
	stable := c.Line("stable", experiment.Dots)
	const grid = 5000
	leastK, leastR := math.Inf(1), math.Inf(1)
	for k := float64(grid); k < 255000; k += grid {
		for x := .5; x < 28; x += .5 {
			if ok := settles(k, x*1e11, .001, 500); ok > 0 {
				leastR = math.Min(leastR, x)
				if x == 3 {
					leastK = math.Min(leastK, k)
				}
				stable.Add(k, x)
			}
		}
	}
	c.Line("paper: starts around here", experiment.PaperDots).Add(25000, 3)
	bound := capacity * capacity / sources / 1e11
	c.Level("exact bound γ < 1: R > 1.948·10¹¹", 0, 255000, bound)
	r.Near("least stable k at R = 3·10¹¹", 25000, leastK, 5000)
	r.Near("least stable R, 10¹¹", 3, leastR, 1.1).
		Because("The bound is C²/(3W) = 1.948·10¹¹ (γ < 1); the paper reads its own plot to about 3·10¹¹.")
	return r
}

// curve runs greedy sources for n rounds, with the egress queue, and draws the injection.
func curve(k, r float64, n int, line *experiment.Line) (totals, queues []float64) {
	l, e := newLaw(k, r), egress{peak: capacity}
	for i := range n {
		l.Step()
		e.forward(l.Total(), round)
		totals, queues = append(totals, l.Total()), append(queues, e.queue)
		if line != nil {
			line.Add(float64(i+1), l.Total())
		}
	}
	return totals, queues
}

// fig4 is the rate over (k, R) after 500 rounds.
func fig4(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("price-fig4", "Fig 4: rate of the egress node, mean of rounds 400 to 500", "k", "rate (packets/s)")
	near, n := 0, 0
	for _, x := range []float64{1.5, 2, 3, 5, 10, 20} {
		l := c.Line(fmt.Sprintf("R = %g·10¹¹", x), experiment.Solid)
		for k := 5000.; k < 255000; k += 5000 {
			law, e, sum := newLaw(k, x*1e11), egress{peak: capacity}, 0.
			for i := range 500 {
				law.Step()
				if out := e.forward(law.Total(), round); i >= 400 {
					sum += out / 100
				}
			}
			l.Add(k, sum)
			if n++; math.Abs(sum/capacity-1) < .02 {
				near++
			}
		}
	}
	c.Level("paper: capacity 764500", 5000, 255000, capacity)
	r.Within("part of the (k, R) with a rate within 2 % of the capacity", "for most values close to the capacity",
		float64(near)/float64(n), .7, 1)
	return r
}

func fig5(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("price-fig5", "Fig 5: queue of the egress node after 500 rounds", "k",
		"standing queue added per 100 rounds (packets)")
	worst, outside := 0., 0.
	for _, x := range []float64{1.5, 2, 3.5, 5, 10, 20} {
		l := c.Line(fmt.Sprintf("R = %g·10¹¹", x), experiment.Solid)
		for k := 5000.; k < 255000; k += 5000 {
			// Once the rates match, the fluid queue of the start neither grows nor drains: it
			// is emptied after 400 rounds, and what comes again is counted.
			law, e, sum := newLaw(k, x*1e11), egress{peak: capacity}, 0.
			for i := range 500 {
				law.Step()
				if i == 400 {
					e.queue = 0
				}
				if e.forward(law.Total(), round); i >= 400 {
					sum += e.queue / 100
				}
			}
			l.Add(k, sum)
			if k > 50000 && x > 3 {
				worst = math.Max(worst, sum)
			} else {
				outside = math.Max(outside, sum)
			}
		}
	}
	c.Level("paper: small from here on for R > 3·10¹¹", 50000, 255000, 0)
	r.Within("R > 3·10¹¹ and k > 50000: largest mean queue, packets", "remains small", worst, 0, 50)
	r.Within("elsewhere: largest mean queue, packets", "larger", outside, 100, math.Inf(1))
	return r
}

// crossing is the round at which the injection first falls back below the capacity.
func crossing(totals []float64) float64 {
	over := false
	for i, v := range totals {
		if v > capacity {
			over = true
		} else if over {
			return float64(i + 1)
		}
	}
	return math.Inf(1)
}

// gains are the gains of figures 6 to 10.
var gains = []struct {
	figure string
	k, r   float64
}{{"6", 1e5, 5e11}, {"7", 1e5, 1.5e11}, {"8", 1e5, 1e12}, {"9", 2e4, 5e11}, {"10", 1.5e5, 5e11}}

// convergence is one of figures 6 to 10.
func convergence(i int) func(bool) *experiment.Result {
	return func(bool) *experiment.Result {
		r, g := &experiment.Result{}, gains[i]
		name := "price-fig" + g.figure
		c := r.Chart(name, fmt.Sprintf("Fig %s: k = %g, R = %g", g.figure, g.k, g.r), "round",
			"injection of three sources (packets/s)")
		n := 100
		if g.figure == "9" {
			n = 300
		}
		totals, _ := curve(g.k, g.r, n, c.Line("sum of the rates", experiment.Solid))
		c.Level("paper: capacity", 0, float64(n), capacity)
		base, _ := curve(gains[0].k, gains[0].r, 300, nil)
		two, tenth := settles(g.k, g.r, .02, 2000), settles(g.k, g.r, .001, 2000)
		switch g.figure {
		case "6":
			at := settles(g.k, g.r, .1, 2000)
			r.Near("round from which the rates stay within 10 %", 20, float64(at), 5)
		case "7":
			r.Holds("settles", "does not converge", map[bool]string{true: "never", false: "yes"}[two < 0], "never",
				two < 0)
			return r
		case "8":
			r.Holds("round of the first return to the capacity: here, Fig 6", "reacts slowly",
				fmt.Sprintf("%g, %g", crossing(totals), crossing(base)), "later", crossing(totals) > crossing(base))
		case "9":
			r.Holds("round within 2 %: here, Fig 6", "longer with smaller k",
				fmt.Sprintf("%d, %d", two, settles(1e5, 5e11, .02, 2000)), "later", two > settles(1e5, 5e11, .02, 2000))
		case "10":
			r.Holds("round within 2 %: here, Fig 6", "shorter with larger k",
				fmt.Sprintf("%d, %d", two, settles(1e5, 5e11, .02, 2000)), "earlier",
				two < settles(1e5, 5e11, .02, 2000))
		}
		r.Note("rounds until within 2 % and 0.1 % for good", fmt.Sprintf("%d, %d", two, tenth))
		return r
	}
}

func fig11(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("price-fig11", "Fig 11: two sources offer 500 Mbit/s, one 50 Mbit/s", "round", "rate (packets/s)")
	l := newLaw(1e5, 5e11)
	const small = 50e6 / 512
	l.Offered = []float64{500e6 / 512, 500e6 / 512, small}
	var lines [sources]*experiment.Line
	for s := range lines {
		lines[s] = c.Line(fmt.Sprintf("source %d", s+1), experiment.Solid)
	}
	for i := range 100 {
		l.Step()
		for s := range lines {
			lines[s].Add(float64(i+1), l.Sent(s))
		}
	}
	c.Level("paper: equal parts of the rest", 0, 100, (capacity-small)/2)
	r.Near("source of 50 Mbit/s: sent of what it offers", 1, l.Sent(2)/small, .001)
	r.Near("the other two: largest relative distance to half of the rest", 0,
		math.Abs(l.Sent(0)*2/(capacity-small)-1), .005)
	return r
}

func continuous(short bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("price-lyapunov", "Continuous model: Lyapunov function, also for gains that the rounds do not stand",
		"time (rounds)", "V(x, p)/V at the start")
	c.LogY = true
	rises, far := 0., 0.
	for _, g := range []struct{ k, r float64 }{{1e5, 5e11}, {1e5, 1.5e11}, {6e5, 1e11}, {2e4, 1e11}} {
		x, p, share := 1e5, 2e-6, capacity/sources
		rest := 1 / share
		v := func() float64 {
			return sources*(x-share-share*math.Log(x/share))/g.k + g.r*(p-rest)*(p-rest)/2
		}
		start, last := v(), v()
		l := c.Line(fmt.Sprintf("k = %g, R = %g", g.k, g.r), experiment.Solid)
		const h = 1e-4
		for i := range 2_000_000 {
			x, p = math.Max(1, x+h*g.k*(1-x*p)), math.Max(0, p+h*(sources*x-capacity)/g.r)
			if i%2000 == 0 {
				now := v()
				rises = math.Max(rises, (now-last)/start)
				last = now
				l.Add(float64(i)*h, math.Max(now/start, 1e-12))
			}
		}
		far = math.Max(far, math.Abs(x/share-1))
	}
	c.Level("paper: V never rises", 0, 200, 1)
	r.Near("largest rise of V, relative to its start (0.01 % for the integrator)", 0, rises, 1e-4)
	r.Within("largest distance to the share after 200 rounds' time, any k and R", "stable for any k and R", far, 0, .01)
	return r
}

// router plays the router of section 6 with nodes offered loads, by intervals; law nil: no
// control. It returns mean rates out, injected and the queue's mean and deviation.
func router(l *PrimalDual, offered [sources]float64, n int) (out, in, queue, spread float64, each [sources]float64) {
	const peak, cost, span = 760e3, 2.12e-7, .01
	e, rng := egress{peak: peak, cost: cost}, rand.New(rand.NewPCG(12, 1))
	if l != nil {
		l.Offered, l.Capacity = offered[:], 700e3
	}
	squares, count := 0., 0.
	for i := range n {
		total := 0.
		var sent [sources]float64
		for s := range offered {
			sent[s] = offered[s]
			if l != nil {
				sent[s] = l.Sent(s)
			}
			// Single packets: the count in an interval is as good as normal.
			sent[s] = math.Max(0, sent[s]+math.Sqrt(sent[s]/span)*rng.NormFloat64())
			total += sent[s]
		}
		if l != nil {
			l.Step()
		}
		rate := e.forward(total, span)
		if i >= n/2 {
			out, in, queue, squares, count = out+rate, in+total, queue+e.queue, squares+e.queue*e.queue, count+1
			for s := range each {
				each[s] += sent[s]
			}
		}
	}
	queue /= count
	for s := range each {
		each[s] /= count
	}
	return out / count, in / count, queue, math.Sqrt(math.Max(0, squares/count-queue*queue)), each
}

func fig12(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("price-fig12", "Fig 12, on a model of the router: rates by offered load", "offered load (packets/s)",
		"rate (packets/s)")
	sent, injected, before, flood := c.Line("sent, with control", experiment.Solid),
		c.Line("injected, with control", experiment.Thin), c.Line("sent, without", experiment.Solid),
		c.Line("injected, without", experiment.Thin)
	var with, without, saved, plain float64
	peak := 0.
	for load := 100e3; load <= 2.8e6; load += 100e3 {
		each := [sources]float64{load / 3, load / 3, load / 3}
		out, in, _, _, _ := router(newLaw(1e5, 5e11), each, 600)
		bare, all, _, _, _ := router(nil, each, 600)
		sent.Add(load, out)
		injected.Add(load, in)
		before.Add(load, bare)
		flood.Add(load, all)
		with, without, saved, plain = out, bare, in, all
		peak = math.Max(peak, bare)
	}
	c.Level("paper: 700000 with control", 700e3, 2.8e6, 700e3)
	r.Holds("without control: sent at its peak, and at 2.8 million offered, packets/s", "collapses beyond a point",
		fmt.Sprintf("%.0f, %.0f", peak, without), "less than 0.7 of the peak", without < .7*peak)
	r.Near("with control: sent at 2.8 million offered, packets/s", 700e3, with, 10e3)
	r.Near("less traffic in the internal network, %", 75, 100*(1-saved/plain), 3)
	r.Note("more sent with control than without, %", experiment.Number(100*(with/without-1))).
		Because("The paper has nearly 90 %. The cost of receiving a packet, 0.212 µs, is fitted to that; all else " +
			"follows.")
	return r
}

func fig13(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("price-fig13", "Fig 13, on a model of the router: queue by offered load", "offered load (packets/s)",
		"mean queue (packets)")
	a, b := c.Line("with control", experiment.Solid), c.Line("without", experiment.Solid)
	var with, without float64
	for load := 100e3; load <= 2.8e6; load += 100e3 {
		each := [sources]float64{load / 3, load / 3, load / 3}
		_, _, q, _, _ := router(newLaw(1e5, 5e11), each, 600)
		_, _, p, _, _ := router(nil, each, 600)
		a.Add(load, q)
		b.Add(load, p)
		with, without = q, p
	}
	c.Level("paper: small with control", 100e3, 2.8e6, 0)
	r.Within("with control: mean queue at 2.8 million offered, packets", "small", with, 0, 50)
	r.Within("without: the same (1000 is full)", "congested", without, 900, 1000)
	return r
}

func fig14(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("price-fig14", "Fig 14, on a model of the router: injection of three nodes, one offered a third",
		"load of nodes 1 and 2 (packets/s)", "injected (packets/s)")
	var lines [sources]*experiment.Line
	for s := range lines {
		lines[s] = c.Line(fmt.Sprintf("node %d", s+1), experiment.Solid)
	}
	var last, equal [sources]float64
	for load := 50e3; load <= 600e3; load += 25e3 {
		_, _, _, _, last = router(newLaw(1e5, 5e11), [sources]float64{load, load, load / 3}, 600)
		for s := range lines {
			lines[s].Add(load, last[s])
		}
	}
	rest := c.Line("paper: equal parts of the rest of 700000", experiment.FromPaper)
	for load := 300e3; load <= 600e3; load += 25e3 {
		rest.Add(load, (700e3-load/3)/2)
	}
	_, _, _, _, equal = router(newLaw(1e5, 5e11), [sources]float64{6e5, 6e5, 6e5}, 600)
	r.Near("equal loads: least over greatest injection", 1, math.Min(equal[0], equal[2])/math.Max(equal[0], equal[2]),
		.01)
	r.Near("node offered 200000: part injected", 1, last[2]/200e3, .01)
	r.Near("the two overloaded nodes: ratio", 1, last[0]/last[1], .01)
	return r
}

func fig15(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("price-fig15", "Fig 15, on a model of the router: rate sent with the gains of Fig 6 to 10", "figure",
		"rate (packets/s)")
	dots := c.Line("sent, mean", experiment.Dots)
	c.Level("paper: set capacity", 6, 10, 700e3)
	least, unstable := math.Inf(1), 0.
	load := 2.8e6 / 3
	for i, g := range gains {
		out, _, _, _, _ := router(newLaw(g.k, g.r), [sources]float64{load, load, load}, 2000)
		dots.Add(float64(6+i), out)
		if g.figure == "7" {
			unstable = out
		} else {
			least = math.Min(least, out)
		}
	}
	r.Within("gains of Fig 6, 8, 9, 10: least rate, packets/s", "close to the set capacity", least, 690e3, 710e3)
	r.Within("gains of Fig 7, packets/s", "much less", unstable, 0, 650e3)
	return r
}

// Paper lists its figures.
func Paper() experiment.Paper {
	p := experiment.Paper{
		Key: "price", Package: "papers/utility",
		Citation: "Ye & MacGregor, Optimal Utility-based Internal Congestion Control in a Cluster-based Router (2009)",
		Experiments: []experiment.Experiment{
			{Figure: "Fig 1, 3", Name: "price-fig1", Title: "forwarding paths", Cannot: "drawings"},
			{Figure: "Section 4.3", Name: "price-lyapunov", Title: "the continuous model is stable for any gains",
				Run: continuous},
			{Figure: "Fig 2", Name: "price-fig2", Title: "stable gains of the rounds", Run: fig2},
			{Figure: "Fig 4", Name: "price-fig4", Title: "rate of the egress node by gains", Run: fig4},
			{Figure: "Fig 5", Name: "price-fig5", Title: "queue of the egress node by gains", Run: fig5},
		},
	}
	for i, g := range gains {
		p.Experiments = append(p.Experiments, experiment.Experiment{Figure: "Fig " + g.figure,
			Name:  "price-fig" + g.figure,
			Title: fmt.Sprintf("convergence with k = %g, R = %g", g.k, g.r), Run: convergence(i)})
	}
	p.Experiments = append(p.Experiments,
		experiment.Experiment{Figure: "Fig 11", Name: "price-fig11", Title: "fairness with different offers",
			Run: fig11},
		experiment.Experiment{Figure: "Fig 12", Name: "price-fig12",
			Title: "congestion collapse with and without control, on a model", Run: fig12},
		experiment.Experiment{Figure: "Fig 13", Name: "price-fig13",
			Title: "queue with and without control, on a model", Run: fig13},
		experiment.Experiment{Figure: "Fig 14", Name: "price-fig14",
			Title: "fairness between ingress nodes, on a model", Run: fig14},
		experiment.Experiment{Figure: "Fig 15", Name: "price-fig15", Title: "rate by gains, on a model", Run: fig15})
	return p
}
