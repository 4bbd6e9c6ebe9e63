package chemical

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"

	"github.com/titrate/titrate/papers/experiment"
	"github.com/titrate/titrate/papers/reaction"
)

// offers are the mean rates of the eleven hosts, packets/s. The paper gives none. They fit the text about its
// figure 9: host 3 offers little, host 4 slightly more than its share (98), host 10 much more; host j starts at
// 20·j s.
var offers = [11]float64{150, 130, 120, 20, 110, 120, 110, 130, 120, 110, 250}

// eleven are the hosts of figures 7 to 9: Poisson clients, or bursts of on seconds.
func eleven(on float64) *crowd {
	rng := rand.New(rand.NewPCG(7, 8))
	c := &crowd{rng: rng, delay: func() float64 { return .06 * rng.Float64() }}
	for j, rate := range offers {
		c.hosts = append(c.hosts, host{start: 20 * float64(j), rate: rate, on: on, off: on})
	}
	return c
}

// smoother is a mean over the last second.
type smoother struct{ mean float64 }

func (s *smoother) add(v, h, span float64) float64 {
	s.mean += (v - s.mean) * h / span
	return s.mean
}

func fig7(name, title string, on float64) func(bool) *experiment.Result {
	return func(bool) *experiment.Result {
		const span = 320.0
		c := eleven(on)
		r := &experiment.Result{}
		ch := r.Chart(name, title, "time (s)", "rate (packets/s)")
		offered, used := ch.Line("offered, mean of 1 s", experiment.Thin),
			ch.Line("output of all, mean of 1 s", experiment.Solid)
		ch.Level("paper: limit 1000", 0, span, 1000)
		var in, out, long smoother
		highest, sum, n, ask := 0.0, 0.0, 0.0, 0.0
		c.run(table1(), span, func(t float64) {
			total, asked := c.total(), 0.0
			for i := range c.hosts {
				asked += c.hosts[i].offered
			}
			a, b := in.add(asked, .01, 1), out.add(total, .01, 1)
			offered.Add(t, a)
			used.Add(t, b)
			highest = math.Max(highest, long.add(total, .01, 10))
			if t > 210 {
				sum, ask, n = sum+total, ask+asked, n+1
			}
		})
		r.Within("output of all, mean from 210 s on, packets/s", "at most 1000 on average", sum/n, 900, 1001)
		r.Note("offered on average from 210 s on, packets/s", experiment.Number(ask/n))
		r.Note("highest mean of 10 s, packets/s", experiment.Number(highest)).
			Because("A host that joins takes its rate before it has sensed the others, for some seconds each time.")
		return r
	}
}

// fairness is the Jain index over time: the curve, its values, and the time constant of
// 1 − index after the last host has joined.
func fairness(apart, span float64, forget float64) (line [][2]float64, constant float64) {
	c := &crowd{fluid: true, delay: func() float64 { return .03 }}
	for j := range 11 {
		c.hosts = append(c.hosts, host{start: apart * float64(j), rate: 300})
	}
	p := reaction.Table1()
	p.K5 = forget
	joined := apart * 10
	var xs, ys []float64
	c.run(p, span, func(t float64) {
		index := c.jain(t, 1000, func(h *host) float64 { return h.out })
		line = append(line, [2]float64{t, index})
		// The differences of the shares decay; the index is quadratic in them.
		if t > joined+60 && 1-index > 1e-9 && index < .98 {
			xs, ys = append(xs, t), append(ys, math.Log(1/index-1)/2)
		}
	})
	_, slope := stat.LinearRegression(xs, ys, nil, false)
	return line, -1 / slope
}

func fig8(bool) *experiment.Result {
	const span = 700.0
	c := eleven(0)
	r := &experiment.Result{}
	ch := r.Chart("chem-fig8", "Fig 8: rates of eleven hosts, one more every 20 s", "time (s)", "output (packets/s)")
	lines, means, got := make([]*experiment.Line, 11), make([]smoother, 11), make([]float64, 11)
	for j := range lines {
		lines[j] = ch.Line(fmt.Sprintf("host %d: offers %g", j, offers[j]), experiment.Solid)
	}
	ch.Level("paper: each to its share, here 98", 200, span, 98)
	count := 0.0
	var at220 float64
	c.run(table1(), span, func(t float64) {
		for j := range c.hosts {
			v := means[j].add(c.hosts[j].out, .01, 2)
			if t >= c.hosts[j].start {
				lines[j].Add(t, v)
			}
			if t > span-100 {
				got[j] += c.hosts[j].out
			}
		}
		if t > span-100 {
			count++
		}
		if math.Abs(t-220) < .005 {
			at220 = c.jain(t, 1000, func(h *host) float64 { return h.out })
		}
	})
	j := -1
	end := c.jain(span, 1000, func(*host) float64 { j++; return got[j] / count })
	r.Within("Jain index of the last 100 s against max-min shares", "fair: each converges to its share", end, .99, 1)
	r.Note("Jain index 20 s after the last join", experiment.Number(at220))
	fair := r.Chart("chem-fig8-fairness", "Fig 8: Jain index of eleven greedy hosts over time", "time (s)",
		"Jain index")
	fair.Level("paper: fair", 0, span, 1)
	for _, apart := range []float64{0, 20} {
		curve, constant := fairness(apart, 700, k5)
		l := fair.Line(fmt.Sprintf("joins %g s apart", apart), experiment.Solid)
		for k := 0; k < len(curve); k += 20 {
			l.Add(curve[k][0], curve[k][1])
		}
		if apart == 20 {
			r.Note("time constant of the differences between shares, s", experiment.Number(constant)).
				Because("The paper calls the allocation fair and gives no time. Shares even out with this constant " +
					"after each join, so that 20 s between joins are far too short: read its figure 8 as a transient.")
		}
	}
	return r
}

func fig9(bool) *experiment.Result {
	const span = 320.0
	c := eleven(0)
	r := &experiment.Result{}
	ch := r.Chart("chem-fig9", "Fig 9: offered load and output of hosts 3, 4 and 10", "time (s)", "rate (packets/s)")
	hosts := []int{3, 4, 10}
	var lines [3][2]*experiment.Line
	var means [3][2]smoother
	var sums [3][2]float64
	for i, j := range hosts {
		lines[i][0] = ch.Line(fmt.Sprintf("host %d offers", j), experiment.Thin)
		lines[i][1] = ch.Line(fmt.Sprintf("host %d sends", j), experiment.Solid)
	}
	ch.Level("paper: regulated to its share, here 98", 200, span, 98)
	c.run(table1(), span, func(t float64) {
		for i, j := range hosts {
			h := &c.hosts[j]
			if t < h.start {
				continue
			}
			lines[i][0].Add(t, means[i][0].add(h.offered, .01, 2))
			lines[i][1].Add(t, means[i][1].add(h.out, .01, 2))
			if t > 220 {
				sums[i][0], sums[i][1] = sums[i][0]+h.offered, sums[i][1]+h.out
			}
		}
	})
	part := func(i int) float64 { return sums[i][1] / sums[i][0] }
	r.Within("host 3 (offers 20/s): sent of what it offers, 220 to 320 s", "no regulation", part(0), .97, 1.03)
	r.Within("host 4 (offers 110/s): sent of what it offers, 220 to 320 s", "slight regulation", part(1), .5, .99)
	r.Within("host 10 (offers 250/s): sent of what it offers, 220 to 320 s", "major regulation", part(2), .05, .75)
	return r
}
