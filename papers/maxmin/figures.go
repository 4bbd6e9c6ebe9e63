package maxmin

import (
	"fmt"
	"math"
	"sync"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/papers/experiment"
)

// table2 are the six flows of Table 2 with round trips of 20 to 70 ms; phase is the length
// of its four periods, 25 s in the paper.
func table2(phase float64, equal bool) []class {
	rows := []class{
		{weight: 1}, {weight: 1.5, minimum: 5}, {weight: 2, from: phase, until: 3 * phase},
		{weight: 2.5, minimum: 10}, {weight: 3}, {weight: 1, minimum: 15, from: 2 * phase, until: 3 * phase},
	}
	for i := range rows {
		r := &rows[i]
		trip := .02 + .01*float64(i)
		if r.peak, r.tcp, r.links = 1000, 30, []int{0}; equal {
			r.weight, r.minimum = 1, 0
		}
		// The link itself has 10 ms.
		r.delay, r.back = []float64{math.Max(0, trip/2-.01)}, trip/2
	}
	return rows
}

// fair are the theoretical rates in a period, 0 for flows that are not there.
func fair(rows []class, at float64) []float64 {
	out := make([]float64, len(rows))
	var on []int
	var demands []fairshare.Demand
	for i, r := range rows {
		if r.from < at && (r.until == 0 || r.until >= at) {
			on = append(on, i)
			demands = append(demands, fairshare.Demand{Weight: r.weight, Guaranteed: r.minimum, Cap: r.peak})
		}
	}
	shares := make([]float64, len(on))
	fairshare.Fill(100, demands, fairshare.Additive, 0, shares)
	for k, i := range on {
		out[i] = shares[k]
	}
	return out
}

// phaseOf is the length of a period, s.
func phaseOf(short bool) float64 {
	if short {
		return 14
	}
	return 25
}

// record are the series of a run on one link.
type record struct {
	phase           float64
	rows            []class
	rate, count     []series // per flow, |Q|w; per 0.1 s
	fairRate, queue series
	means           [4][]float64 // per period, rates over its last quarter
	counts, queues  [4]float64
	use             [4]float64
	lost            int
	tcp             [][]float64 // per aggregate, its flows' throughputs over the last period, Mbit/s
	settling        float64     // s from the arrival at phase until AF1 is within 5 %
}

type series []float64

// play runs Table 2, with its weights or with equal ones.
func play(short, equal, lossless bool) *record {
	rec := &record{phase: phaseOf(short)}
	rec.rows = table2(rec.phase, equal)
	for i := range rec.rows {
		rec.rows[i].lossless = lossless
	}
	c := newCloud([]float64{100}, rec.rows, .07)
	rec.rate = make([]series, len(rec.rows))
	rec.count = make([]series, 1)
	last := make([]int, len(rec.rows))
	sent, delivered := 0, make([][]int, len(rec.rows))
	c.Repeat(.1, .1, func() {
		for i, a := range c.flows {
			rec.rate[i] = append(rec.rate[i], float64(a.edge.Sent-last[i])/mbit/.1)
			last[i] = a.edge.Sent
		}
		rec.count[0] = append(rec.count[0], c.laws[0].Count())
		rec.fairRate = append(rec.fairRate, c.laws[0].Fair())
		rec.queue = append(rec.queue, float64(c.core[0].Queued()))
	})
	for p := range 4 {
		from := (float64(p) + .75) * rec.phase
		c.Run(from)
		sent = c.core[0].Sent
		c.Run(float64(p+1) * rec.phase)
		rec.use[p] = float64(c.core[0].Sent-sent) / (c.core[0].Rate * (float64(p+1)*rec.phase - from))
		a, b := int(from*10), int(float64(p+1)*rec.phase*10)-1
		for i := range rec.rows {
			rec.means[p] = append(rec.means[p], mean(rec.rate[i][a:b]))
		}
		rec.counts[p], rec.queues[p] = mean(rec.count[0][a:b]), mean(rec.queue[a:b])
		if p == 2 {
			for i, a := range c.flows {
				for _, f := range a.flows {
					delivered[i] = append(delivered[i], f.Delivered)
				}
			}
		}
	}
	for i, a := range c.flows {
		var each []float64
		for k, f := range a.flows {
			each = append(each, float64(f.Delivered-delivered[i][k])/mbit/rec.phase)
		}
		rec.tcp = append(rec.tcp, each)
	}
	rec.lost = c.core[0].Lost
	want := fair(rec.rows, rec.phase+.1)[0]
	first := int(rec.phase * 10)
	for k := first; k < 2*first; k++ {
		if math.Abs(mean(rec.rate[0][max(0, k-4):k+1])-want) > .05*want {
			rec.settling = float64(k+1-first) / 10
		}
	}
	return rec
}

func mean(s []float64) (sum float64) {
	for _, v := range s {
		sum += v / float64(len(s))
	}
	return sum
}

var runs [2][2]func() *record

func init() {
	for i := range runs {
		for j := range runs[i] {
			runs[i][j] = sync.OnceValue(func() *record { return play(i == 1, j == 1, false) })
		}
	}
}

// run is play, once.
func run(short, equal bool) *record {
	i, j := 0, 0
	if short {
		i = 1
	}
	if equal {
		j = 1
	}
	return runs[i][j]()
}

// draw adds a series to a chart.
func draw(c *experiment.Chart, name string, s series) {
	l := c.Line(name, experiment.Solid)
	for k, v := range s {
		l.Add(float64(k+1)/10, v)
	}
}

// printed is Table 2.
var printed = [4][]float64{
	{10.63, 20.94, 0, 36.56, 31.88, 0}, {8.5, 17.75, 17, 31.25, 25.5, 0},
	{6.36, 14.54, 12.73, 25.91, 19.1, 21.36}, {10.63, 20.94, 0, 36.56, 31.88, 0},
}

func tab2(short bool) *experiment.Result {
	r, rec := &experiment.Result{}, run(short, false)
	c := r.Chart("agg-table2", "Table 2: fair rates and the rates of the packet-level run",
		"paper: fair rate (Mbit/s)", "seen in the last quarter of the period (Mbit/s)")
	c.Line("equal", experiment.FromPaper).Add(0, 0)
	c.Lines[0].Add(40, 40)
	dots := c.Line("six flows in four periods", experiment.Dots)
	exact, seen := 0., 0.
	for p, row := range printed {
		theory := fair(rec.rows, (float64(p)+.5)*rec.phase)
		for i, want := range row {
			if want == 0 {
				continue
			}
			exact = math.Max(exact, math.Abs(theory[i]-want))
			seen = math.Max(seen, math.Abs(rec.means[p][i]-want)/want)
			dots.Add(want, rec.means[p][i])
		}
	}
	r.Near("exact fill: largest distance to the printed rates, Mbit/s", 0, exact, .011)
	r.Within("distributed law with TCP: largest relative distance", "exactly follows", seen, 0, .03)
	return r
}

func tab1(short bool) *experiment.Result {
	r, rec := &experiment.Result{}, run(short, false)
	c := r.Chart("agg-table1", "Table 1's parameters: use of the link per period", "period",
		"use of the link in its last quarter")
	l := c.Line("use", experiment.Solid)
	low := 1.
	for p, u := range rec.use {
		l.Add(float64(p+1), u)
		low = math.Min(low, u)
	}
	c.Level("paper: full use", 1, 4, 1)
	r.Within("use of the link with Table 1's parameters, least of the periods", "fully utilized", low, .99, 1.01)
	r.Note("seconds from the arrival of AF3 until AF1 (mean of 0.5 s) stays within 5 %",
		experiment.Number(rec.settling)).
		Because("The paper gives no time. Thirty TCP flows that start at once overfill the edge of AF3, which " +
			"falls to 0 until their timeouts 3 s later.")
	r.Note("the same with edges that lose nothing", experiment.Number(play(short, false, true).settling))
	return r
}

// fig4 is a figure of the run with Table 2's weights.
func fig4(body func(*experiment.Result, *record)) func(bool) *experiment.Result {
	return func(short bool) *experiment.Result {
		r := &experiment.Result{}
		body(r, run(short, false))
		return r
	}
}

func fig4a(r *experiment.Result, rec *record) {
	c := r.Chart("agg-fig4a", "Fig 4a: estimated weighted number of bottlenecked flows", "time (s)", "|Q|w")
	draw(c, "estimate", rec.count[0])
	for p, want := range []float64{8, 10, 11, 8} {
		c.Level(fmt.Sprintf("paper: %g", want), float64(p)*rec.phase, float64(p+1)*rec.phase, want)
		r.Near(fmt.Sprintf("|Q|w in period %d", p+1), want, rec.counts[p], .05*want)
	}
}

func fig4b(r *experiment.Result, rec *record) {
	c := r.Chart("agg-fig4b", "Fig 4b: common fair rate of the link", "time (s)", "f (Mbit/s)")
	draw(c, "f", rec.fairRate)
	for p := range printed {
		c.Level(fmt.Sprintf("paper: %g", printed[p][0]), float64(p)*rec.phase, float64(p+1)*rec.phase, printed[p][0])
		from, to := int((float64(p)+.75)*rec.phase*10), int(float64(p+1)*rec.phase*10)-1
		r.Near(fmt.Sprintf("f in period %d, Mbit/s", p+1), printed[p][0], mean(rec.fairRate[from:to]),
			.03*printed[p][0])
	}
}

func fig4c(r *experiment.Result, rec *record) {
	c := r.Chart("agg-fig4c", "Fig 4c: queue of the link", "time (s)", "queue (Kbytes)")
	draw(c, "queue", rec.queue)
	c.Level("paper: target 256", 0, 4*rec.phase, target)
	for p, q := range rec.queues {
		r.Near(fmt.Sprintf("queue in the last quarter of period %d, Kbytes", p+1), target, q, 13)
	}
	surge, drop := 0., math.Inf(1)
	for k := int(rec.phase * 10); k < int(rec.phase*10)+50; k++ {
		surge = math.Max(surge, rec.queue[k])
	}
	for k := int(3 * rec.phase * 10); k < int(3*rec.phase*10)+50; k++ {
		drop = math.Min(drop, rec.queue[k])
	}
	r.Within("largest queue within 5 s of AF3's arrival, Kbytes", "surge", surge, 270, math.Inf(1))
	r.Within("least queue within 5 s of the departures, Kbytes", "sudden drop", drop, 0, 240)
}

func fig4d(r *experiment.Result, rec *record) {
	c := r.Chart("agg-fig4d", "Fig 4d: throughput of each TCP flow in the last period over its aggregate's mean",
		"aggregate flow", "normalised throughput")
	dots := c.Line("TCP flows", experiment.Dots)
	c.Level("paper: around 1", 1, 6, 1)
	used, jain := math.Inf(1), math.Inf(1)
	for i, each := range rec.tcp {
		if rec.rows[i].until > 0 {
			continue
		}
		m, squares := mean(each), 0.
		for _, v := range each {
			dots.Add(float64(i+1), v/m)
			squares += v * v / (m * m) / float64(len(each))
		}
		used = math.Min(used, m*float64(len(each))/printed[3][i])
		jain = math.Min(jain, 1/squares)
	}
	r.Within("throughput of an aggregate's TCP flows over its fair rate, least", "TCP flows track the bandwidth",
		used, .93, 1.03)
	r.Within("Jain index of the TCP flows in an aggregate, least", "share it in their normal way", jain, .8, 1.0001)
}

func fig4e(r *experiment.Result, rec *record) {
	c := r.Chart("agg-fig4e", "Fig 4e: rates of six aggregates on 100 Mbit/s", "time (s)", "rate (Mbit/s)")
	worst := 0.
	for i := range rec.rows {
		draw(c, fmt.Sprintf("AF%d: w = %g, m = %g", i+1, rec.rows[i].weight, rec.rows[i].minimum), rec.rate[i])
	}
	level := c.Line("paper: Table 2", experiment.PaperDots)
	for p, row := range printed {
		for i, want := range row {
			if want > 0 {
				level.Add((float64(p)+.5)*rec.phase, want)
				worst = math.Max(worst, math.Abs(rec.means[p][i]/want-1))
			}
		}
	}
	r.Within("largest relative distance to Table 2 in the last quarter of a period", "exactly follows", worst, 0, .03)
	r.Near("packets lost in the core", 0, float64(rec.lost), 0)
}

func fig4f(short bool) *experiment.Result {
	r, rec := &experiment.Result{}, run(short, true)
	c := r.Chart("agg-fig4f", "Fig 4f: the same flows with weight 1 and no minimum", "time (s)", "rate (Mbit/s)")
	for i := range rec.rows {
		draw(c, fmt.Sprintf("AF%d", i+1), rec.rate[i])
	}
	for p, n := range []float64{4, 5, 6, 4} {
		c.Level(fmt.Sprintf("paper: 100/%g", n), float64(p)*rec.phase, float64(p+1)*rec.phase, 100/n)
		worst := 0.
		for i, v := range rec.means[p] {
			if fair(rec.rows, (float64(p)+.5)*rec.phase)[i] > 0 {
				worst = math.Max(worst, math.Abs(v*n/100-1))
			}
		}
		r.Within(fmt.Sprintf("largest relative distance to 100/%g Mbit/s", n), "divided equally", worst, 0, .03)
	}
	return r
}
