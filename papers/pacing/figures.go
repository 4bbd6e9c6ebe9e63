package pacing

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/papers/experiment"
)

// rates are the paper's rates, Mbit/s.
var rates = []float64{1, 10, 100, 200, 400, 500, 600}

func fig4(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("rmc-fig4", "Fig 4: a packet every t seconds on 2.6.19 with HZ = 1000, no load",
		"nominal sleep t (ms)", "relative error of the rate (%)")
	c.LogX = true
	l := c.Line("model of the tick", experiment.Solid)
	k, most, last := kernel{tick: .001}, 0., 0.
	for _, ms := range []float64{1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100} {
		t := ms * 1e-3
		mean := drive(RFC3448NoBurst{Granularity: 1e-6}, k, func(float64) float64 { return packet / t }, 500*t,
			false, nil)
		last = 100 * (1 - mean*t/packet)
		most = math.Max(most, last)
		l.Add(t*1e3, last)
	}
	c.Line("paper: up to 53 % at 1 ms", experiment.PaperDots).Add(1, 53)
	r.Near("largest error, at a sleep of the granularity, %", 53, most, 4).
		Because("One tick too many is exactly 50 %; the rest is what the process itself takes.")
	r.Within("error at 100 ms, %", "falls with the sleep", last, 0, 2)
	return r
}

// errors are the relative errors of a loop by rate, %.
func errors(n named, k kernel, span float64, line *experiment.Line) (text string, most float64) {
	for i, rate := range rates {
		mean := drive(n.make(k), k, constant(rate), span, true, nil)
		off := 100 * math.Abs(1-mean*8/(rate*1e6))
		line.Add(rate, math.Max(off, 1e-3))
		most = math.Max(most, off)
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%.2g", off)
	}
	return text, most
}

func fig7(k kernel, name, title string, single, burst, tolerance float64) func(bool) *experiment.Result {
	return func(short bool) *experiment.Result {
		r, span := &experiment.Result{}, 60.
		if short {
			span = 30
		}
		c := r.Chart(name, title, "rate (Mbit/s)", "relative error (%)")
		c.LogX, c.LogY = true, true
		var text [4]string
		var most [4]float64
		for i, n := range loops {
			text[i], most[i] = errors(n, k, span, c.Line(n.name, experiment.Solid))
		}
		c.Level("paper: RMC below 0.06 %", 1, 600, .06)
		r.Within("RMC: largest error of 1 to 600 Mbit/s, %", "less than 0.06", most[2], 0,
			map[bool]float64{true: .12, false: .06}[short])
		r.Near("RFC 3448 (no bursts): largest, %", single, most[0], tolerance)
		r.Near("RFC 3448 (bursts): largest, %", burst, most[1], 1)
		r.Note("RFC 3448 as section 4.6 of it says (nominal time): errors by rate, %", text[3]).
			Because("The paper compares with loops that start the next interval when the packet went. The RFC has " +
				"the nominal send time advance by t_ipi whatever the real time was, which makes up for late " +
				"wake-ups as the RMC does.")
		return r
	}
}

// trace is the effective rate in bins of a tenth of a second, Mbit/s.
func trace(l Loop, k kernel, c command, span, bin float64, load bool, line *experiment.Line) (bins []float64) {
	bins = make([]float64, int(span/bin+.5))
	drive(l, k, c, span, load, func(t, bytes float64) {
		if i := int(t/bin + 1e-9); i < len(bins) {
			bins[i] += bytes * 8 / 1e6 / bin
		}
	})
	for i, v := range bins {
		if line != nil {
			line.Add((float64(i)+.5)*bin, v)
		}
	}
	return bins
}

// mean of bins from a to b.
func mean(bins []float64, a, b int) (sum float64) {
	for _, v := range bins[a:b] {
		sum += v / float64(b-a)
	}
	return sum
}

// rateFigure is figures 8 to 10: a loop commanded to send 500 Mbit/s, on both kernels, and the
// rates that the paper reports.
func rateFigure(i int, name, title string, find func(r *experiment.Result, a, b []float64),
	paper ...float64) func(bool) *experiment.Result {
	return func(bool) *experiment.Result {
		r := &experiment.Result{}
		c := r.Chart(name, title, "time (s)", "effective rate, mean of 0.5 s (Mbit/s)")
		var bins [2][]float64
		for j, k := range []kernel{old, now} {
			bins[j] = trace(loops[i].make(k), k, constant(500), 60, .5, true, c.Line(k.name, experiment.Solid))
		}
		for _, rate := range paper {
			c.Level(fmt.Sprintf("paper: %g", rate), 0, 60, rate)
		}
		find(r, bins[0], bins[1])
		return r
	}
}

func fig8(r *experiment.Result, a, b []float64) {
	for j, bins := range [][]float64{a, b} {
		worst := 0.
		for _, v := range bins {
			worst = math.Max(worst, math.Abs(v/500-1))
		}
		name := []string{old.name, now.name}[j]
		r.Within(name+": mean, Mbit/s", "matches 500", mean(bins, 0, 120), 499.5, 500.5)
		r.Within(name+": largest distance of half a second from 500, %", "smooth", 100*worst, 0, 5)
	}
}

func fig9(r *experiment.Result, a, b []float64) {
	r.Near("2.6.19: mean, Mbit/s", 1, mean(a, 0, 120), .5)
	r.Note("2.6.28: mean without and with load, Mbit/s", fmt.Sprintf("%.1f and %.1f", mean(b, 0, 39), mean(b, 42, 78))).
		Because("The paper has about 105 and 70; the model's two shortest sleeps are fitted to these.")
}

func fig10(r *experiment.Result, a, b []float64) {
	r.Near("2.6.19: mean, Mbit/s", 25, mean(a, 0, 120), 1)
	r.Near("2.6.28: mean, Mbit/s", 492, mean(b, 0, 120), 2).
		Because("41 whole packets per wake-up: 492 Mbit/s every millisecond, 24.6 every 20 ms. The dip to 430 after " +
			"52 s in the paper is not in the model.")
}

// step is a command that goes from the greatest rate to a tenth at 10 s and back at 20 s.
func step(mbit float64) command {
	return func(t float64) float64 {
		if t >= 10 && t < 20 {
			mbit := mbit / 10
			return mbit * 1e6 / 8
		}
		return mbit * 1e6 / 8
	}
}

// settling is the time after a step at from until the rate per wake-up stays within 5 %.
func settling(gain, mbit, from, final float64) float64 {
	bins := trace(controlled(gain), old, step(mbit), 30, .02, false, nil)
	last := int(from / .02)
	for i := last; i < min(last+450, len(bins)); i++ {
		// Whole packets: one more or less, as the pole 1 − k_r carries it on, is no deviation.
		grain := packet * 8 / 1e6 / .02 / (1 - math.Abs(1-gain))
		if off := math.Abs(bins[i] - final); off > .05*final && off > 1.01*grain {
			last = i + 1
		}
	}
	return float64(last)*.02 - from
}

// transients is figure 11 or 12: rates around a step for several gains.
func transients(name, title string, mbit, from, final float64) func(*experiment.Result) {
	return func(r *experiment.Result) {
		c := r.Chart(name, title, "time (s)", "effective rate (Mbit/s)")
		for _, gain := range []float64{.2, .5, 1, 1.5, 1.8} {
			bins := trace(controlled(gain), old, step(mbit), 30, .02, false, nil)
			l := c.Line(fmt.Sprintf("k_r = %g", gain), experiment.Solid)
			for i := int((from - .1) / .02); i < int((from+.8)/.02); i++ {
				l.Add(float64(i)*.02, bins[i])
			}
		}
		c.Level("paper: as commanded", from, from+.8, final)
		slow, dead, ring := settling(.2, mbit, from, final), settling(1, mbit, from, final),
			settling(1.8, mbit, from, final)
		r.Holds(fmt.Sprintf("%g Mbit/s: settling with k_r = 0.2, 1, 1.8, s", mbit),
			"faster with larger k_r, slower and oscillating above 1",
			fmt.Sprintf("%.2f, %.2f, %.2f", slow, dead, ring), "least at 1", dead < slow && dead < ring)
		bins := trace(controlled(1.8), old, step(mbit), 30, .02, false, nil)
		crosses := 0
		for i := int(from / .02); i < int((from+.4)/.02); i++ {
			if (bins[i]-final)*(bins[i+1]-final) < 0 {
				crosses++
			}
		}
		r.Within(fmt.Sprintf("%g Mbit/s: crossings of the commanded rate with k_r = 1.8", mbit), "oscillates",
			float64(crosses), 4, math.Inf(1))
	}
}

func fig11(bool) *experiment.Result {
	r := &experiment.Result{}
	transients("rmc-fig11a", "Fig 11a: 100 to 10 Mbit/s", 100, 10, 10)(r)
	transients("rmc-fig11b", "Fig 11b: 500 to 50 Mbit/s", 500, 10, 50)(r)
	return r
}

func fig12(bool) *experiment.Result {
	r := &experiment.Result{}
	transients("rmc-fig12a", "Fig 12a: 10 to 100 Mbit/s", 100, 20, 100)(r)
	transients("rmc-fig12b", "Fig 12b: 50 to 500 Mbit/s", 500, 20, 500)(r)
	return r
}

func fig13(short bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("rmc-fig13", "Fig 13: 5 % settling time by gain", "k_r", "settling time (s)")
	down, up := c.Line("decrease, mean of 100 to 600 Mbit/s", experiment.Solid), c.Line("increase", experiment.Solid)
	marks := c.Line("paper: about 0.5, 0.06, 0.3 s", experiment.PaperDots)
	at := map[float64]float64{}
	for k := 1; k <= 9; k++ {
		gain := float64(2*k) / 10
		a, b, n := 0., 0., 0.
		for _, mbit := range []float64{100, 200, 400, 500, 600} {
			if short && mbit != 500 {
				continue
			}
			a, b, n = a+settling(gain, mbit, 10, mbit/10), b+settling(gain, mbit, 20, mbit), n+1
		}
		down.Add(gain, a/n)
		up.Add(gain, b/n)
		at[gain] = (a + b) / 2 / n
	}
	for _, said := range [][2]float64{{.2, .5}, {1, .06}, {1.8, .3}} {
		marks.Add(said[0], said[1])
	}
	r.Near("k_r = 0.2: settling, mean of decrease and increase, s", .5, at[.2], .2)
	r.Near("k_r = 1: the same (two wake-ups are 0.04)", .06, at[1], .041)
	r.Near("k_r = 1.8: the same", .3, at[1.8], .15)
	return r
}

func prop1(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("rmc-prop1", "Proposition 1: mismatch per step, by gain", "step", "|d_c − d_e − its rest| (packets)")
	c.LogY = true
	bounded, free := 0., math.Inf(1)
	for _, gain := range []float64{.1, .5, 1.5, 1.9, 2.05, 2.2} {
		s := Sender{Gain: gain}
		l := c.Line(fmt.Sprintf("k_r = %g", gain), experiment.Solid)
		rest, last := 1e5*(1/gain-1), 0.
		for k := range 200 {
			s.Step(.01, 1e7, 1)
			last = math.Abs(s.Mismatch() - rest)
			l.Add(float64(k), math.Max(last, .1))
		}
		if gain < 2 {
			bounded = math.Max(bounded, last)
		} else {
			free = math.Min(free, last)
		}
	}
	c.Level("paper: at the boundary, k_r = 2, it stays", 0, 199, 5e4)
	r.Within("k_r of 0.1 to 1.9: largest distance to rest after 200 steps, packets", "stable for 0 < k_r < 2",
		bounded, 0, 40)
	r.Within("k_r of 2.05 and 2.2: least distance, packets", "unstable", free, 1e4, math.Inf(1))
	return r
}

func prop2(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("rmc-prop2", "Proposition 2: every wake-up 5 ms later from 1 s on", "time (s)",
		"rate, mean of 0.1 s, over the commanded one")
	worst := 0.
	plain := c.Line("no feedback", experiment.Thin)
	for _, gain := range []float64{.2, 1, 1.8} {
		s := Sender{Gain: gain}
		l := c.Line(fmt.Sprintf("k_r = %g", gain), experiment.Solid)
		sent, open, t, mark := 0., 0., 0., 0.
		for t < 4 {
			dt := .01
			if t > 1 {
				dt = .015
			}
			t += dt
			sent += s.Step(dt, 1e6, 1)
			open += 1e6 * .01
			if t-mark >= .1 {
				ratio := sent / (1e6 * (t - mark))
				l.Add(t, ratio)
				if gain == 1 {
					plain.Add(t, open/(1e6*(t-mark)))
				}
				if t > 3 {
					worst = math.Max(worst, math.Abs(ratio-1))
				}
				sent, open, mark = 0, 0, t
			}
		}
	}
	c.Level("paper: rejected", 1, 4, 1)
	r.Within("largest error 2 s after the step, k_r = 0.2, 1, 1.8", "rejected whatever k_r", worst, 0, .01)
	return r
}

// Paper lists its figures.
func Paper() experiment.Paper {
	return experiment.Paper{
		Key: "rmc", Package: "papers/pacing, control/pacing",
		Citation: "De Cicco & Mascolo, A Mismatch Controller for Implementing High-Speed Rate-based Transport " +
			"Protocols (2009)",
		Experiments: []experiment.Experiment{
			{Figure: "Fig 1–3, 5, 6", Name: "rmc-fig1", Title: "block diagrams, timing", Cannot: "drawings"},
			{Figure: "Fig 4", Name: "rmc-fig4", Title: "error of a plain loop by sleep", Run: fig4},
			{Figure: "Prop 1", Name: "rmc-prop1", Title: "stable gains", Run: prop1},
			{Figure: "Prop 2", Name: "rmc-prop2", Title: "a step of the disturbance is rejected", Run: prop2},
			{Figure: "Fig 7a", Name: "rmc-fig7a", Title: "error of three loops by rate, 2.6.19",
				Run: fig7(old, "rmc-fig7a", "Fig 7a: error by rate on a model of 2.6.19, HZ = 100", 99, 95, 1)},
			{Figure: "Fig 7b", Name: "rmc-fig7b", Title: "error of three loops by rate, 2.6.28",
				Run: fig7(now, "rmc-fig7b", "Fig 7b: error by rate on a model of 2.6.28", 90, 4, 7)},
			{Figure: "Fig 8", Name: "rmc-fig8", Title: "effective rate of the RMC",
				Run: rateFigure(2, "rmc-fig8", "Fig 8: RMC at 500 Mbit/s, load from 20 to 40 s", fig8, 500)},
			{Figure: "Fig 9", Name: "rmc-fig9", Title: "effective rate without bursts",
				Run: rateFigure(0, "rmc-fig9", "Fig 9: RFC 3448 (no bursts) at 500 Mbit/s, load from 20 to 40 s", fig9,
					105, 70,
					1)},
			{Figure: "Fig 10", Name: "rmc-fig10", Title: "effective rate with bursts",
				Run: rateFigure(1, "rmc-fig10", "Fig 10: RFC 3448 (bursts) at 500 Mbit/s, load from 20 to 40 s", fig10,
					492, 25)},
			{Figure: "Fig 11", Name: "rmc-fig11", Title: "a sudden decrease, by gain", Run: fig11},
			{Figure: "Fig 12", Name: "rmc-fig12", Title: "a sudden increase, by gain", Run: fig12},
			{Figure: "Fig 13", Name: "rmc-fig13", Title: "settling time by gain", Run: fig13},
			{Figure: "Section 5, here", Name: "rmc-kernel",
				Title: "the loops on the kernel of this machine, without and with load", Measured: true, Run: measured},
		},
	}
}
