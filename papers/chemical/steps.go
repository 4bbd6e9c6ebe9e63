package chemical

import (
	"math"
	"math/rand/v2"

	"github.com/titrate/titrate/papers/experiment"
	"github.com/titrate/titrate/papers/reaction"
)

// load is the input of a controller from a time on: from in s, in and ext in 1/s.
type load struct{ from, in, ext float64 }

// at is the load at time t.
func at(loads []load, t float64) (now load) {
	for _, l := range loads {
		if t >= l.from {
			now = l
		}
	}
	return now
}

// fluid feeds one controller and returns its output at each step.
func fluid(p reaction.Constants, loads []load, span float64) []float64 {
	c := NewController(p)
	out := make([]float64, int(span/step))
	for k := range out {
		l := at(loads, float64(k)*step)
		out[k] = c.Step(step, l.in, l.ext)
	}
	return out
}

// sampled draws one trajectory of the jump process (Gillespie): the packets that left in
// bins of the given length, as a rate.
func sampled(loads []load, span, bin float64) (rates []float64) {
	p := reaction.Table1()
	net, err := reaction.NewAdaptive(p)
	if err != nil {
		panic(err) // Table 1 is well formed
	}
	s := reaction.NewSampler(net.NewVessel(p), 1, rand.New(rand.NewPCG(6, 6)))
	last := 0.0
	for t := 0.0; t < span-bin/2; t += bin {
		l := at(loads, t)
		s.SetInput(net.Int, l.in)
		s.SetInput(net.Ext, l.ext)
		s.Run(bin)
		rates = append(rates, (s.Fired(net.Out)-last)/bin)
		last = s.Fired(net.Out)
	}
	return rates
}

// predicted is the response of the linear model about the steady state of the first load,
// (11), to the later loads. The paper plots it as the estimate of its transfer function.
func predicted(loads []load, span float64) []float64 {
	p := reaction.Table1()
	net, err := reaction.NewAdaptive(p)
	if err != nil {
		panic(err) // Table 1 is well formed
	}
	v := net.NewVessel(p)
	v.SetInput(net.Int, loads[0].in)
	v.SetInput(net.Ext, loads[0].ext)
	if err := v.Settle(); err != nil {
		panic(err) // below the limit there is a steady state
	}
	rest, lin := p.KF*v.Amount(net.F), v.Linearize()
	x := make([]float64, len(lin.A))
	out := make([]float64, int(span/step))
	for k := range out {
		l := at(loads, float64(k)*step)
		const parts = 4 // the fastest pole is at −502/s
		for range parts {
			x = euler(lin, x, []float64{l.in - loads[0].in, l.ext - loads[0].ext}, step/parts)
		}
		out[k] = rest + p.KF*x[net.F]
	}
	return out
}

// euler is one explicit step of dx/dt = A·x + B·u.
func euler(l *reaction.Linear, x, u []float64, h float64) []float64 {
	next := make([]float64, len(x))
	for i := range x {
		next[i] = x[i]
		for j := range x {
			next[i] += h * l.A[i][j] * x[j]
		}
		for j := range u {
			next[i] += h * l.B[i][j] * u[j]
		}
	}
	return next
}

// limited is the prediction above the limit, (8) and (13): deaf to v_int, and
// (E0·k4 − v_ext)/(1 + k4/k2) through the filter.
func limited(loads []load, span float64) []float64 {
	p := reaction.Table1()
	out, f := make([]float64, int(span/step)), 0.0
	for k := range out {
		l := at(loads, float64(k)*step)
		rest := (p.Enzyme*p.K4 - l.ext) / (1 + p.K4/p.K2)
		if k == 0 {
			f = rest
		}
		f += step * p.KF * (rest - f)
		out[k] = f
	}
	return out
}

// draw adds a series of steps to a chart.
func draw(c *experiment.Chart, name string, style experiment.Style, series []float64, h float64) {
	l := c.Line(name, style)
	for k, v := range series {
		if h >= .05 || k%20 == 0 {
			l.Add(float64(k)*h, v)
		}
	}
}

// mean of a series between two times.
func mean(series []float64, h, from, to float64) float64 {
	sum, n := 0.0, 0
	for k := int(from / h); k < int(to/h) && k < len(series); k++ {
		sum, n = sum+series[k], n+1
	}
	return sum / math.Max(1, float64(n))
}

func fig6a(bool) *experiment.Result {
	loads := []load{{0, 500, 300}, {10, 550, 300}, {15, 550, 350}}
	out, chance, model := fluid(reaction.Table1(), loads, 20), sampled(loads, 20, .25), predicted(loads, 20)
	r := &experiment.Result{}
	c := r.Chart("chem-fig6a", "Fig 6a: below the limit; v_int steps at 10 s, v_ext at 15 s", "time (s)",
		"output (packets/s)")
	draw(c, "single packets (Gillespie), per 0.25 s", experiment.Thin, chance, .25)
	draw(c, "output, law of mass action", experiment.Solid, out, step)
	draw(c, "paper: transfer function (12)", experiment.FromPaper, model, step)
	worst := 0.0
	for k := 10000; k < len(out); k++ {
		worst = math.Max(worst, math.Abs(out[k]-model[k]))
	}
	r.Near("output before the steps, packets/s", 500, out[9999], 1)
	r.Near("output 5 s after v_int rose, packets/s", 550, out[14999], 1)
	r.Within("worst distance to the transfer function after 10 s, packets/s", "fully conforms", worst, 0, 2)
	dip := 0.0
	for _, v := range out[15000:] {
		dip = math.Max(dip, math.Abs(v-550))
	}
	r.Within("worst deviation after v_ext rose, packets/s", "no perceived effect", dip, 0, 5.5)
	r.Within("single packets, mean from 5 to 10 s, packets/s", "500", mean(chance, .25, 5, 10), 475, 525)
	return r
}

func fig6b(bool) *experiment.Result {
	loads := []load{{0, 1400, 600}, {10, 1450, 600}, {15, 1450, 650}}
	out, chance := fluid(reaction.Table1(), loads, 25), sampled(loads, 25, .25)
	r := &experiment.Result{}
	c := r.Chart("chem-fig6b", "Fig 6b: above the limit; v_int steps at 10 s, v_ext at 15 s", "time (s)",
		"output (packets/s)")
	draw(c, "single packets (Gillespie), per 0.25 s", experiment.Thin, chance, .25)
	draw(c, "output, law of mass action", experiment.Solid, out, step)
	draw(c, "paper: (8) and (13b)", experiment.FromPaper, limited(loads, 25), step)
	peak, when := 0.0, 0
	for k, v := range out {
		if v > peak {
			peak, when = v, k
		}
	}
	change := 0.0
	for _, v := range out[10000:15000] {
		change = math.Max(change, math.Abs(v-out[9999]))
	}
	r.Near("output before the steps, by (8), packets/s", 396.04, out[9999], .5)
	r.Within("change after v_int rose, packets/s", "zero", change, 0, .5)
	r.Near("output after v_ext rose, by (8), packets/s", 346.53, out[24999], .5)
	r.Within("single packets, mean from 5 to 15 s, packets/s", "396", mean(chance, .25, 5, 15), 376, 416)
	r.Note("peak of the start, packets/s (at s)",
		experiment.Number(peak)+" ("+experiment.Number(float64(when)*step)+")")
	return r
}

func tab1(bool) *experiment.Result {
	r := &experiment.Result{}
	p := reaction.Table1()
	c := r.Chart("chem-table1", "Table 1: output of one controller alone, by offered load",
		"offered load (packets/s)", "output (packets/s)")
	l := c.Line("output after 60 s", experiment.Solid)
	for in := 100.0; in <= 2000; in += 100 {
		out := fluid(p, []load{{0, in, 0}}, 60)
		l.Add(in, out[len(out)-1])
	}
	c.Level("paper: v_max = k4·E0", 0, 2000, 1000)
	_, top := l.At(l.Len() - 1)
	r.Within("largest output of one controller alone, packets/s", "1000, never 100 % used", top, 980, 999).
		Because("v_max is E0·k2·k4/(k2+k4) = 990.1, not k4·E0. The missing 1 % is k4/k2, not the variance of c_T " +
			"that the paper suspects (its section 5.3).")
	return r
}

// reset plays section 4.3: load, then silence, and the remaining state; and a host that is idle for 100 s while
// it senses others, and then sends.
func reset(bool) *experiment.Result {
	r := &experiment.Result{}
	c := r.Chart("chem-reset", "Section 4.3: 500/s offered again after 100 s of idling beside 500/s of others",
		"time (s)", "output (packets/s)")
	var back [2]float64
	fresh := c.Line("paper: as at the start", experiment.FromPaper)
	for i, forget := range []float64{k5, 0} {
		p := reaction.Table1()
		p.K5 = forget
		law := NewController(p)
		l := c.Line("k5 = "+experiment.Number(forget)+"/s", experiment.Solid)
		for k := range 260_000 {
			t, in := float64(k)*step, 0.0
			if t < 20 || t >= 120 {
				in = 480
			}
			out := law.Step(step, in, 500)
			if k%100 == 0 {
				l.Add(t, out)
			}
			if k%100 == 0 && t < 20 && i == 0 {
				fresh.Add(t+120, out)
			}
			if t >= 120 && back[i] == 0 && out > .9*480 {
				back[i] = t - 120
			}
		}
	}
	law := NewController(table1())
	for k := range 200_000 {
		in, ext := 0.0, 0.0
		if k < 30_000 {
			in, ext = 1200, 500
		}
		law.Step(step, in, ext)
	}
	s, _, es, et, t, f := law.State()
	r.Within("molecules of S, ES, ET, T and F 170 s after a load of 30 s", "resets to the vanilla state", s+es+et+t+f,
		0, 1)
	r.Note("seconds until a host that idled for 100 s beside others sends again, k5 = 0.1/s",
		experiment.Number(back[0]))
	r.Note("the same without r5 (k5 = 0)", experiment.Number(back[1])).
		Because("r5 is essential, and its constant is not in Table 1. T collects what is sensed; without r5 a host " +
			"must first use up all that it sensed while it idled.")
	return r
}
