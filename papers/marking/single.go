package marking

import (
	"fmt"
	"math"
	"sync"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/papers/experiment"
	"github.com/titrate/titrate/papers/packets"
)

const (
	hosts = .04 // s, the paper's links to the hosts
	core  = .02 // s, the paper's link between the routers
)

// queueChart is a chart of queues over time with the paper's level.
func queueChart(r *experiment.Result, name, title string, until float64) *experiment.Chart {
	c := r.Chart(name, title, "time (s)", "queue, mean of 0.2 s (packets)")
	c.YMax = buffer
	c.Level("paper: desired queue 150", 0, until, 150)
	return c
}

// settled is the first time from which the mean of five points stays within off of level.
func settled(l *experiment.Line, level, off float64) float64 {
	at := 0.0
	for i := 4; i < l.Len(); i++ {
		sum := 0.0
		for k := i - 4; k <= i; k++ {
			_, y := l.At(k)
			sum += y / 5
		}
		if math.Abs(sum-level) > off {
			at, _ = l.At(i)
		}
	}
	return at
}

func fig4(short bool) *experiment.Result {
	r, until := &experiment.Result{}, length(short, 100)
	c := queueChart(r, "aqm-fig4", "Fig 4: 100 sources under the variable structure law", until)
	d := newDumbbell(100, variable, hosts, core)
	l := c.Line("variable structure", experiment.Solid)
	o := watch(d.Network, d.link, 20, until, l)
	r.Within("mean queue from 20 s on, packets", "stable, around 100 with 150 desired (Remark 3)", o.queue, 65, 135)
	r.Within("seconds until the queue (mean of 1 s) stays within 90 packets of its mean", "fast response",
		settled(l, o.queue, 90), 0, 15)
	r.Near("packets lost from 20 s on, %", 0, 100*o.loss, .01)
	r.Within("use of the link", "high", o.use, .99, 1.01)
	r.Note("standard deviation of the queue, packets", experiment.Number(o.spread)).
		Because("The queue swings. kS = 10 is three times what slides with this round trip (kS·τ = 3.2 > π/2), a " +
			"limit cycle. That also keeps it some 50 packets below the desired queue.")
	return r
}

// length returns the length of a run, s.
func length(short bool, full float64) float64 {
	if short {
		return math.Min(full, 50)
	}
	return full
}

func fig5(short bool) *experiment.Result {
	r, until := &experiment.Result{}, length(short, 100)
	c := queueChart(r, "aqm-fig5", "Fig 5: 100 sources under the other laws", until)
	out := map[string]outcome{}
	for _, law := range laws {
		d := newDumbbell(100, law.law, hosts, core)
		var l *experiment.Line
		if law.name != laws[0].name {
			l = c.Line(law.name, experiment.Solid)
		}
		out[law.name] = watch(d.Network, d.link, 20, until, l)
	}
	ours := out["variable structure"]
	r.Holds("packets lost: VS, RED, drop tail, %", "VS lower than the others",
		fmt.Sprintf("%.2f, %.2f, %.2f", 100*ours.loss, 100*out["RED"].loss, 100*out["drop tail"].loss),
		"in this order", ours.loss < out["RED"].loss && ours.loss < out["drop tail"].loss)
	r.Holds("use of the link: VS, RED", "VS higher", fmt.Sprintf("%.3f, %.3f", ours.use, out["RED"].use),
		"in this order", ours.use > out["RED"].use)
	pi := out["PI"]
	r.Within("PI: mean queue from 20 s on, packets (150 desired)", "sluggish transient", pi.queue, 180, 300)
	r.Holds("standard deviation of the queue: VS, drop tail, packets", "VS smaller fluctuation",
		fmt.Sprintf("%.0f, %.0f", ours.spread, out["drop tail"].spread),
		"in this order", ours.spread < out["drop tail"].spread)
	r.Note("REM: mean queue, packets; use", fmt.Sprintf("%.0f; %.3f", out["REM"].queue, out["REM"].use))
	return r
}

func fig6(short bool) *experiment.Result {
	r := &experiment.Result{}
	c := queueChart(r, "aqm-fig6", "Fig 6: 150 sources, 50 of them off from 40 to 70 s", 100)
	spread := map[string][2]float64{}
	use := map[string]float64{}
	for _, law := range laws[:4] {
		d := newDumbbell(150, law.law, hosts, core)
		for _, f := range d.Flows[100:] {
			d.At(40, f.Stop)
			d.At(70, f.Start)
		}
		l := c.Line(law.name, experiment.Solid)
		before := watch(d.Network, d.link, 20, 40, l)
		d2 := watch(d.Network, d.link, 40.01, 70, nil)
		rest := watch(d.Network, d.link, 70.01, 100, nil)
		spread[law.name] = [2]float64{before.queue, d2.queue}
		use[law.name] = math.Min(math.Min(before.use, d2.use), rest.use)
	}
	move := func(name string) float64 { return math.Abs(spread[name][1] - spread[name][0]) }
	r.Within("VS: change of the mean queue when 50 of 150 leave, packets", "very robust", move(laws[0].name), 0, 30)
	r.Holds("the same: VS, PI, REM, packets", "PI and REM fluctuate heavily",
		fmt.Sprintf("%.0f, %.0f, %.0f", move(laws[0].name), move("PI"), move("REM")),
		"VS least", move(laws[0].name) < move("PI") && move(laws[0].name) < move("REM"))
	r.Within("RED: use of the link, least of the three parts", "over-marks: use degraded", use["RED"], 0, .95)
	return r
}

// loads are the numbers of sources of figures 7 to 9.
var loads = []int{50, 100, 150, 200, 250}

// Figures 7 to 9 show three quantities of the same runs.
var (
	inFull  = sync.OnceValue(func() map[string][]outcome { return sweep(false) })
	inShort = sync.OnceValue(func() map[string][]outcome { return sweep(true) })
)

func byLoad(short bool) map[string][]outcome {
	if short {
		return inShort()
	}
	return inFull()
}

// sweep is the outcome per law and number of sources from 20 to 100 s.
func sweep(short bool) map[string][]outcome {
	out := map[string][]outcome{}
	for _, law := range laws {
		for _, m := range loads {
			d := newDumbbell(m, law.law, hosts, core)
			out[law.name] = append(out[law.name], watch(d.Network, d.link, 20, length(short, 100), nil))
		}
	}
	return out
}

// loadChart draws one quantity over the number of sources.
func loadChart(r *experiment.Result, name, title, y string, out map[string][]outcome,
	of func(outcome) float64) *experiment.Chart {
	c := r.Chart(name, title, "TCP sources", y)
	for _, law := range laws {
		l := c.Line(law.name, experiment.Solid)
		for i, m := range loads {
			l.Add(float64(m), of(out[law.name][i]))
		}
	}
	return c
}

// series formats one quantity of a law over the number of sources.
func series(list []outcome, format string, of func(outcome) float64) (text string, low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i, o := range list {
		if i > 0 {
			text += ", "
		}
		v := of(o)
		text += fmt.Sprintf(format, v)
		low, high = math.Min(low, v), math.Max(high, v)
	}
	return text, low, high
}

func fig7(short bool) *experiment.Result {
	r, out := &experiment.Result{}, byLoad(short)
	of := func(o outcome) float64 { return o.queue }
	c := loadChart(r, "aqm-fig7", "Fig 7: mean queue from 20 to 100 s by number of sources", "mean queue (packets)",
		out, of)
	c.Level("paper: VS around 100", 50, 250, 100)
	text, low, high := series(out[laws[0].name], "%.0f", of)
	r.Holds("VS: mean queue for 50, 100, 150, 200, 250 sources, packets", "around 100", text, "60 to 140",
		low >= 60 && high <= 140)
	text, low, high = series(out["PI"], "%.0f", of)
	r.Holds("PI: the same", "blows up with the sources", text, "at 250 above that at 50 by more than 60", high > low+60)
	text, low, high = series(out["RED"], "%.0f", of)
	r.Holds("RED: the same", "varies slightly", text, "within 30 packets", high-low < 30)
	text, low, high = series(out["REM"], "%.0f", of)
	r.Holds("REM: the same", "varies slightly", text, "within 30 packets", high-low < 30).
		Because("REM raises its price by γ(α(q − q*) + r − C0) per step. With ns-2's gains and steps of 2 ms the " +
			"price for 250 sources takes longer than the run; with a step per packet (0.8 ms) the queue is 20 to 99 " +
			"packets. The paper does not give the period.")
	return r
}

func fig8(short bool) *experiment.Result {
	r, out := &experiment.Result{}, byLoad(short)
	of := func(o outcome) float64 { return o.use }
	c := loadChart(r, "aqm-fig8", "Fig 8: use of the link from 20 to 100 s by number of sources", "use of the link",
		out,
		of)
	c.Level("paper: VS and PI highest", 50, 250, 1)
	text, low, _ := series(out[laws[0].name], "%.4f", of)
	r.Holds("VS: use for 50, 100, 150, 200, 250 sources", "better than REM and RED, as PI", text, "at least 0.99",
		low >= .99)
	text, low, _ = series(out["PI"], "%.4f", of)
	r.Holds("PI: the same", "as VS", text, "at least 0.99", low >= .99)
	text, low, high := series(out["RED"], "%.3f", of)
	r.Holds("RED: the same", "lower, and it varies with the sources", text, "below 0.98, within more than 0.02",
		high < .98 && high-low > .02)
	text, _, high = series(out["REM"], "%.4f", of)
	r.Holds("REM: the same", "lower than VS, and it varies", text, "below 0.98", high < .98).
		Because("REM's queue does not run empty here, see Fig 7.")
	return r
}

func fig9(short bool) *experiment.Result {
	r, out := &experiment.Result{}, byLoad(short)
	of := func(o outcome) float64 { return 100 * o.loss }
	c := loadChart(r, "aqm-fig9", "Fig 9: packets lost from 20 to 100 s by number of sources",
		"lost (% of the packets offered)", out, of)
	c.Level("paper: VS always 0", 50, 250, 0)
	c.Level("paper: RED from 6", 50, 250, 6)
	c.Level("to 13", 50, 250, 13)
	text, _, high := series(out[laws[0].name], "%.2f", of)
	r.Holds("VS: lost for 50, 100, 150, 200, 250 sources, %", "always 0", text, "0", high == 0)
	text, low, high := series(out["PI"], "%.2f", of)
	r.Holds("PI: the same", "rises with the load", text, "at 250 most, above 1 %", high > 1 && low < .5 &&
		of(out["PI"][4]) == high)
	rem, _, most := series(out["REM"], "%.2f", of)
	r.Holds("REM: the same", "lower than PI", rem, "below PI at 250", most < high)
	text, low, high = series(out["RED"], "%.1f", of)
	r.Holds("RED: the same", "much higher, 6 to 13 % (not plotted)", text, "4 to 15 %", low >= 4 && high <= 15)
	text, _, _ = series(out["drop tail"], "%.1f", of)
	r.Note("drop tail: the same", text)
	return r
}

func fig10(short bool) *experiment.Result {
	r := &experiment.Result{}
	c := queueChart(r, "aqm-fig10", "Fig 10: 300 sources", 100)
	var out [2]outcome
	for i, law := range laws[:2] {
		d := newDumbbell(300, law.law, hosts, core)
		out[i] = watch(d.Network, d.link, 20, length(short, 100), c.Line(law.name, experiment.Solid))
	}
	r.Within("VS: mean queue from 20 s on, packets", "good transient, low overshoot", out[0].queue, 60, 200)
	r.Within("VS: standard deviation of the queue, packets", "very low overshoot", out[0].spread, 0, 60).
		Because("With 300 sources a window is some four packets and one mark halves it. The limit cycle of Fig 4 " +
			"grows to the size of the buffer, and 2 % is lost. In the paper's plot the queue is steadier.")
	r.Holds("mean queue above the desired 150: VS, PI, packets", "PI slower, larger overshoot",
		fmt.Sprintf("%.0f, %.0f", out[0].queue-150, out[1].queue-150), "PI more", out[1].queue > out[0].queue+50)
	r.Holds("packets lost: VS, PI, %", "PI higher", fmt.Sprintf("%.2f, %.2f", 100*out[0].loss, 100*out[1].loss),
		"PI more", out[1].loss > out[0].loss+.01)
	return r
}

func fig11(short bool) *experiment.Result {
	r, until := &experiment.Result{}, length(short, 100)
	c := queueChart(r, "aqm-fig11", "Fig 11: 120 greedy sources and 50 that turn on and off every 5 s", until)
	out := map[string]outcome{}
	for _, law := range laws[:4] {
		d := newDumbbell(170, law.law, hosts, core)
		for _, f := range d.Flows[120:] {
			for t := 5 + 5*d.Rand.Float64(); t < until; t += 5 {
				d.At(t, f.Stop)
				d.At(t+5*d.Rand.Float64(), f.Start)
			}
		}
		out[law.name] = watch(d.Network, d.link, 20, until, c.Line(law.name, experiment.Solid))
	}
	vs := out[laws[0].name]
	r.Within("VS: mean queue, packets", "robust against short-lived flows", vs.queue, 60, 150)
	r.Within("VS: packets lost, %", "improves the performance", 100*vs.loss, 0, .2)
	r.Holds("use of the link: VS, RED", "VS higher", fmt.Sprintf("%.3f, %.3f", vs.use, out["RED"].use),
		"in this order", vs.use > out["RED"].use)
	r.Holds("mean queue above the desired 150: VS, PI, packets", "VS nearer",
		fmt.Sprintf("%.0f, %.0f", vs.queue-150, out["PI"].queue-150), "in this order",
		math.Abs(vs.queue-150) < math.Abs(out["PI"].queue-150))
	return r
}

// trips plays 100 sources with other delays.
func trips(name, title string, host, link float64) func(bool) *experiment.Result {
	return func(short bool) *experiment.Result {
		r, until := &experiment.Result{}, length(short, 100)
		c := queueChart(r, name, title, until)
		out := map[string]outcome{}
		for _, law := range laws[:4] {
			d := newDumbbell(100, law.law, host, link)
			out[law.name] = watch(d.Network, d.link, 20, until, c.Line(law.name, experiment.Solid))
		}
		vs := out[laws[0].name]
		r.Within("VS: mean queue, packets", "still stabilised", vs.queue, 40, 200)
		r.Near("VS: packets lost, %", 0, 100*vs.loss, .05)
		if link < .05 {
			r.Within("RED: use of the link", "also good", out["RED"].use, .9, 1.01)
		} else {
			r.Holds("use of the link: VS, RED", "VS better than its peers",
				fmt.Sprintf("%.3f, %.3f", vs.use, out["RED"].use), "in this order", vs.use > out["RED"].use)
			r.Holds("largest mean queue of a second: VS, PI, packets", "VS better than its peers",
				fmt.Sprintf("%.0f, %.0f", vs.most, out["PI"].most), "VS less", vs.most < out["PI"].most)
		}
		r.Note("VS: standard deviation of the queue, packets; use", fmt.Sprintf("%.0f; %.3f", vs.spread, vs.use))
		return r
	}
}

// parkingLot is the paper's figure 3: five links in a row, 300 flows through all of them and 50 that cross each
// of the middle three. The paper has its rates and delays only in the drawing, which we do not have. Chosen
// here: 20 Mbit/s at the ends, 15 in the middle, 10 ms each.
func parkingLot(law func(float64) aqm.Law) (*packets.Network, []*packets.Link) {
	n := packets.New(14)
	var links []*packets.Link
	for i := range 5 {
		mbit := 15.
		if i == 0 || i == 4 {
			mbit = 20
		}
		links = append(links, n.Add(packets.Link{Rate: mbit * 125, Law: law(200), Buffer: 200, Every: look}))
	}
	var path []packets.Hop
	for _, l := range links {
		path = append(path, packets.Hop{Delay: .01, Link: l})
	}
	for range 300 {
		n.Connect(packets.Flow{Path: path, Last: .02, Back: .07, Access: rate})
	}
	for i := 1; i <= 3; i++ {
		for range 50 {
			n.Connect(packets.Flow{Path: path[i : i+1], Last: .04, Back: .05, Access: rate})
		}
	}
	for _, f := range n.Flows {
		n.At(n.Rand.Float64(), f.Start)
	}
	return n, links
}

func fig14(short bool) *experiment.Result {
	r, until := &experiment.Result{}, length(short, 100)
	c := r.Chart("aqm-fig14", "Fig 14: queue 4 of five links in a row, 300 + 3·50 sources", "time (s)",
		"queue, mean of 0.2 s (packets)")
	out := map[string]outcome{}
	ends := 0.0
	for _, law := range laws[:4] {
		n, links := parkingLot(law.law)
		out[law.name] = watch(n, links[3], 20, until, c.Line(law.name, experiment.Solid))
		if law.name == laws[0].name {
			ends = float64(links[0].Queued() + links[4].Queued())
		}
	}
	c.Level("paper: PI fills the queue, 200", 0, until, 200)
	vs, pi := out[laws[0].name], out["PI"]
	r.Within("VS: queues 1 and 5 at the end, packets", "almost empty", ends, 0, 20)
	r.Within("VS: mean of queue 4, packets", "stable", vs.queue, 40, 160)
	r.Within("VS: use of link 4", "high", vs.use, .97, 1.01)
	r.Within("RED: use of link 4", "lower than VS", out["RED"].use, 0, vs.use-.005)
	r.Holds("mean of queue 4: VS, PI, packets (200 is full)", "PI fills the queue",
		fmt.Sprintf("%.0f, %.0f", vs.queue, pi.queue), "PI above 150", pi.queue > 150 && vs.queue < pi.queue)
	r.Note("REM: mean of queue 4, packets; use", fmt.Sprintf("%.0f; %.3f", out["REM"].queue, out["REM"].use)).
		Because("The paper has REM's queue too small. Rates and delays of its figure 3 are not in the text; those " +
			"here are chosen.")
	return r
}
