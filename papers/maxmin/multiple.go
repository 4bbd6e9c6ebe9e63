package maxmin

import (
	"fmt"
	"math"
	"sync"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/papers/experiment"
)

// table3 are the sixteen flows of Table 3: four kinds, which enter at each of four core
// nodes in a row and leave behind L4.
func table3(tcp int) (rows []class, want []float64) {
	w, m, p := []float64{1, 2, 1, 3}, []float64{0, 0, 10, 10}, []float64{100, 100, 20, 20}
	rates := []float64{5, 10, 15, 20}
	for i := range 16 {
		r := class{weight: w[i%4], minimum: m[i%4], peak: p[i%4], back: .001, tcp: tcp}
		for l := i / 4; l < 4; l++ {
			r.links, r.delay = append(r.links, l), append(r.delay, .01)
			r.back += .01
		}
		r.delay[0] = .001
		rows, want = append(rows, r), append(want, rates[i%4])
	}
	want[12], want[13], want[14], want[15] = 36.67, 73.33, 20, 20
	return rows, want
}

// several are the series of the run of figure 6.
type several struct {
	want, got    []float64
	rate         []series
	count, queue [2]series // of L3 and L4
	from         int
}

var (
	severalFull  = sync.OnceValue(func() *several { return playSeveral(30, 50) })
	severalShort = sync.OnceValue(func() *several { return playSeveral(24, 20) })
)

func runSeveral(short bool) *several {
	if short {
		return severalShort()
	}
	return severalFull()
}

func playSeveral(span float64, tcp int) *several {
	rows, want := table3(tcp)
	// The longest round trip: 1 + 3·10 ms forward, as much back, and the last link.
	c := newCloud([]float64{300, 300, 150, 300}, rows, .09)
	s := &several{want: want, rate: make([]series, 16), from: int(span * 5)}
	last := make([]int, 16)
	c.Repeat(.1, .1, func() {
		for i, a := range c.flows {
			s.rate[i] = append(s.rate[i], float64(a.edge.Sent-last[i])/mbit/.1)
			last[i] = a.edge.Sent
		}
		for k := range 2 {
			s.count[k] = append(s.count[k], c.laws[k+2].Count())
			s.queue[k] = append(s.queue[k], float64(c.core[k+2].Queued()))
		}
	})
	c.Run(span + .05)
	for i := range rows {
		s.got = append(s.got, mean(s.rate[i][s.from:]))
	}
	return s
}

func tab3(short bool) *experiment.Result {
	r := &experiment.Result{}
	rows, want := table3(1)
	var uses []fairshare.Use
	var demands []fairshare.Demand
	for i, row := range rows {
		demands = append(demands, fairshare.Demand{Weight: row.weight, Guaranteed: row.minimum, Cap: row.peak})
		for _, l := range row.links {
			uses = append(uses, fairshare.Use{Tenant: i, Pool: l, Cost: 1})
		}
	}
	n, err := fairshare.NewNetwork(4, 16, uses)
	if err != nil {
		panic(err) // the table is well formed
	}
	var out fairshare.Allocation
	n.Solve([]float64{300, 300, 150, 300}, demands, fairshare.Additive, nil, &out)
	c := r.Chart("agg-table3", "Table 3: fair rates of sixteen flows", "aggregate flow", "rate (Mbit/s)")
	paper, exact, law := c.Line("paper", experiment.PaperDots), c.Line("exact network fill", experiment.Dots),
		c.Line("distributed law with TCP", experiment.Dots)
	s := runSeveral(short)
	worst, right := 0., 0
	for i := range rows {
		paper.Add(float64(i+1), want[i])
		exact.Add(float64(i+1), out.Shares[i])
		law.Add(float64(i+1), s.got[i])
		worst = math.Max(worst, math.Abs(out.Shares[i]-want[i]))
		held := map[bool]int{true: 2, false: 3}[i < 12]
		if rows[i].peak == 20 && want[i] == 20 {
			held = fairshare.ByCap
		}
		if out.Bottleneck[i] == held || want[i] == 20 && math.Abs(out.Shares[i]-20) < 1e-9 {
			right++
		}
	}
	r.Near("exact fill: largest distance to the printed rates, Mbit/s", 0, worst, .006)
	r.Near("bottlenecks as printed, of 16", 16, float64(right), 0)
	return r
}

func fig6a(short bool) *experiment.Result {
	r, s := &experiment.Result{}, runSeveral(short)
	c := r.Chart("agg-fig6a", "Fig 6a: estimated weighted number of bottlenecked flows", "time (s)", "|Q|w")
	for k, want := range []float64{12, 3} {
		draw(c, fmt.Sprintf("L%d", k+3), s.count[k])
		c.Level(fmt.Sprintf("paper: %g", want), 0, float64(len(s.count[k]))/10, want)
		r.Near(fmt.Sprintf("|Q|w at L%d", k+3), want, mean(s.count[k][s.from:]), .05*want)
	}
	return r
}

func fig6b(short bool) *experiment.Result {
	r, s := &experiment.Result{}, runSeveral(short)
	c := r.Chart("agg-fig6b", "Fig 6b: queues of the two congested links", "time (s)", "queue (Kbytes)")
	for k := range 2 {
		draw(c, fmt.Sprintf("L%d", k+3), s.queue[k])
		r.Near(fmt.Sprintf("queue of L%d in the last half, Kbytes", k+3), target, mean(s.queue[k][s.from:]), 13)
	}
	c.Level("paper: target 256", 0, float64(len(s.queue[0]))/10, target)
	return r
}

// rates draws the flows from a to b.
func rates(name, title string, a, b int) func(bool) *experiment.Result {
	return func(short bool) *experiment.Result {
		r, s := &experiment.Result{}, runSeveral(short)
		c := r.Chart(name, title, "time (s)", "rate (Mbit/s)")
		worst := 0.
		level := c.Line("paper: Table 3", experiment.PaperDots)
		for i := a; i < b; i++ {
			draw(c, fmt.Sprintf("AF%d", i+1), s.rate[i])
			level.Add(float64(len(s.rate[i]))/10, s.want[i])
			worst = math.Max(worst, math.Abs(s.got[i]/s.want[i]-1))
		}
		r.Within(fmt.Sprintf("AF%d to AF%d: largest relative distance to Table 3 in the last half", a+1, b),
			"exactly follows", worst, 0, .03)
		return r
	}
}

// Paper lists its figures and tables.
func Paper() experiment.Paper {
	return experiment.Paper{
		Key: "agg", Package: "papers/maxmin, papers/packets, control/fairshare",
		Citation: "Ryu, Cho & Chong, Stabilized Edge-to-Edge Aggregate Flow Control (2004)",
		Experiments: []experiment.Experiment{
			{Figure: "Fig 1, 2, 5", Name: "agg-fig1", Title: "network model, block diagram, topology",
				Cannot: "drawings"},
			{Figure: "Fig 3a", Name: "agg-fig3a", Title: "the stable region of the gains", Run: fig3a},
			{Figure: "Fig 3b", Name: "agg-fig3b", Title: "how fast the loop decays by its gains", Run: fig3b},
			{Figure: "Theorem 3", Name: "agg-theorem3", Title: "mixes of delays are stable where the longest one is",
				Run: theorem3},
			{Figure: "Table 1", Name: "agg-table1", Title: "what the recommended parameters do", Run: tab1},
			{Figure: "Table 2", Name: "agg-table2", Title: "fair rates on one link", Run: tab2},
			{Figure: "Fig 4a", Name: "agg-fig4a", Title: "estimate of the weighted number of flows", Run: fig4(fig4a)},
			{Figure: "Fig 4b", Name: "agg-fig4b", Title: "common fair rate", Run: fig4(fig4b)},
			{Figure: "Fig 4c", Name: "agg-fig4c", Title: "queue of the link", Run: fig4(fig4c)},
			{Figure: "Fig 4d", Name: "agg-fig4d", Title: "TCP flows inside the aggregates", Run: fig4(fig4d)},
			{Figure: "Fig 4e", Name: "agg-fig4e", Title: "rates of the aggregates", Run: fig4(fig4e)},
			{Figure: "Fig 4f", Name: "agg-fig4f", Title: "rates with equal weights", Run: fig4f},
			{Figure: "Table 3", Name: "agg-table3", Title: "fair rates over several links", Run: tab3},
			{Figure: "Fig 6a", Name: "agg-fig6a", Title: "estimates at L3 and L4", Run: fig6a},
			{Figure: "Fig 6b", Name: "agg-fig6b", Title: "queues of L3 and L4", Run: fig6b},
			{Figure: "Fig 6c", Name: "agg-fig6c", Title: "rates of AF1 to AF8",
				Run: rates("agg-fig6c", "Fig 6c: rates of AF1 to AF8", 0, 8)},
			{Figure: "Fig 6d", Name: "agg-fig6d", Title: "rates of AF9 to AF16",
				Run: rates("agg-fig6d", "Fig 6d: rates of AF9 to AF16", 8, 16)},
		},
	}
}
