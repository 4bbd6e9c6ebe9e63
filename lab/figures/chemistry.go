package main

import (
	"fmt"

	"github.com/titrate/titrate/control/drc"
)

// step is h in seconds.
const step = 0.001

// load is what a controller is fed from a time on.
type load struct{ from, in, ext float64 }

// chemistry draws the adaptive controller with the paper's constants, whose figures 7
// to 9 and 10 need k5 > 0.
func chemistry() []figure {
	return []figure{
		feed("chemistry-6a", "Fig. 6a: below the limit, steps of demand and of the others' load", []load{{0, 500, 300}, {30, 550, 300}, {60, 550, 350}}),
		feed("chemistry-6b", "Fig. 6b: above the limit", []load{{0, 1400, 600}, {30, 1450, 600}, {60, 1450, 650}}),
		eleven(), four(),
	}
}

// feed runs one controller for 90 s.
func feed(name, title string, loads []load) figure {
	c, out, want := drc.NewPaper(drc.Table1()), line{name: "output"}, line{name: "demand"}
	now := load{}
	for k := range 90_000 {
		t := float64(k) * step
		for _, l := range loads {
			if t >= l.from {
				now = l
			}
		}
		rate := c.Step(step, now.in, now.ext)
		if k%50 == 0 {
			out.add(t, rate)
			want.add(t, now.in)
		}
	}
	return figure{name: name, title: title, x: "time (s)", y: "rate (1/s)", lines: []line{out, want}}
}

// crowd couples controllers that hear each other's output late seconds ago. Controller
// i starts at i·apart seconds. Every 100th step is told to see.
func crowd(p drc.PaperParams, n int, in, late, apart, span float64, see func(t float64, each []float64)) {
	cs, each := make([]drc.Paper, n), make([]float64, n)
	past := make([][]float64, max(1, int(late/step+.5)))
	for i := range past {
		past[i] = make([]float64, n)
	}
	for i := range cs {
		cs[i] = drc.NewPaper(p)
	}
	for k := range int(span / step) {
		t, old, all := float64(k)*step, past[k%len(past)], 0.0
		for _, v := range old {
			all += v
		}
		for i := range cs {
			if each[i] = 0; t >= float64(i)*apart {
				each[i] = cs[i].Step(step, in, all-old[i])
			}
		}
		copy(old, each)
		if k%100 == 0 {
			see(t, each)
		}
	}
}

// eleven draws figures 7 to 9.
func eleven() figure {
	p := drc.Table1()
	p.K5 = 0.1
	total, first, last := line{name: "total"}, line{name: "host 1"}, line{name: "host 11"}
	crowd(p, 11, 1000, 0.001, 20, 400, func(t float64, each []float64) {
		sum := 0.0
		for _, v := range each {
			sum += v
		}
		total.add(t, sum)
		first.add(t, each[0])
		last.add(t, each[10])
	})
	return figure{name: "chemistry-7", title: "Fig. 7–9: eleven hosts, one more every 20 s", x: "time (s)", y: "rate (1/s)", lines: []line{total, first, last}}
}

// four draws figure 10, and what its means hide: from three nodes on it oscillates.
func four() figure {
	p := drc.Table1().Scaled(2. / 1000)
	p.KF, p.K5 = 100, 0.1
	f := figure{name: "chemistry-10", title: "Fig. 10: nodes on 2 Mbit/s, 20 ms apart, one more every 5 s", x: "time (s)", y: "rate (Mbit/s)"}
	lines := make([]line, 4)
	crowd(p, 4, 4, 0.02, 5, 20, func(t float64, each []float64) {
		for i := range lines {
			lines[i].name = fmt.Sprint("node ", i+1)
			lines[i].add(t, each[i])
		}
	})
	f.lines = lines
	return f
}
