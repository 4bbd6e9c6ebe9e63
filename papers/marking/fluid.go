package marking

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/papers/experiment"
)

// plant integrates the fluid model (1) with (2), or with delayed feedback (12), from an
// empty queue, and returns the queue every millisecond. c0 is the capacity, packets/s.
func plant(law *VS, m, c0, span float64, delayed bool) []float64 {
	const h, trip = 1e-4, .2
	r, q := c0/4, 0.0
	late := int(trip / h)
	rates, marks := make([]float64, late), make([]float64, late)
	var out []float64
	for k := range int(span / h) {
		tau := q/c0 + trip
		p := math.Min(1, math.Max(0, law.Marking(q, r, c0)))
		change := m/(tau*tau) - (m/(tau*tau)+r*r/(2*m))*p
		i := k % late
		if delayed {
			old, was := rates[i], marks[i]
			if k < late {
				old, was = r, 0
			}
			change = m*old/(tau*tau*r) - (m*old/(tau*tau*r)+r*old/(2*m))*was
		}
		rates[i], marks[i] = r, p
		r = math.Max(1, r+h*change)
		q = math.Min(buffer, math.Max(0, q+h*(r-c0)))
		if k%10 == 0 {
			out = append(out, q)
		}
	}
	return out
}

// last are the mean, the least and the greatest of the last part of a series.
func last(series []float64, n int) (mean, low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range series[len(series)-n:] {
		mean += v / float64(n)
		low, high = math.Min(low, v), math.Max(high, v)
	}
	return mean, low, high
}

func models(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("aqm-plant", "Models (1)–(6) and (12): the queue of 100 sources under the published law", "time (s)",
		"queue (packets)")
	c.Level("paper: desired queue 150", 0, 40, 150)
	law := PaperVS()
	var means, low, high [2]float64
	for i, name := range []string{"(1): no delay", "(12): feedback a round trip late"} {
		series := plant(&law, 100, rate, 40, i == 1)
		l := c.Line(name, experiment.Solid)
		for k := 0; k < len(series); k += 10 {
			l.Add(float64(k)/1000, series[k])
		}
		means[i], low[i], high[i] = last(series, 10000)
	}
	r.Near("(1): queue in the end, packets", 150, means[0], 2)
	r.Within("(1): its swing in the end, packets", "converges to the sliding manifold", high[0]-low[0], 0, 5)
	r.Holds("(12): queue in the end, packets (swing)", "steady state error because of the delay",
		fmt.Sprintf("%.0f (%.0f)", means[1], high[1]-low[1]), "off by more than 5, or swinging by more than 20",
		math.Abs(means[1]-150) > 5 || high[1]-low[1] > 20)
	rate := decay(&law)
	r.Within("(1): decay of the queue's error on the manifold, 1/s", "kS = 10", rate, 9, 11)
	return r
}

// decay is the rate at which the queue nears its target on the sliding manifold: the slope
// of ln|q − qd| between errors of 20 and 1 packets.
func decay(law *VS) float64 {
	series := plant(law, 100, rate, 20, false)
	from, until := -1, -1
	for k, q := range series {
		e := math.Abs(q - law.Target)
		if e > 20 {
			from, until = k, -1
		} else if e < 1 && until < 0 {
			until = k
		}
	}
	if from < 0 || until <= from {
		return 0
	}
	a, b := math.Abs(series[from]-law.Target), math.Abs(series[until]-law.Target)
	return math.Log(a/b) / (float64(until-from) / 1000)
}

func bound(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("aqm-bound", "(11): what δ must exceed for the proof of robustness", "M+ with M- = 50", "γ")
	l := c.Line("γ of (11), round trips of 0.2 to 0.44 s", experiment.Solid)
	for m := 50.; m <= 300; m += 5 {
		l.Add(m, Gamma(50, m, .2, .44))
	}
	c.Level("paper: δ = 0.3", 50, 300, .3)
	g := Gamma(50, 150, .2, .44)
	r.Holds("γ of (11) for M = 50 to 150 and the delays of the dumbbell", "δ = 0.3 > γ", experiment.Number(g),
		"below 0.3", g < .3).
		Because("The paper's own parameters do not meet its condition (11): δ would have to exceed γ. The law works " +
			"in the simulations all the same; the proof does not cover them.")
	return r
}
