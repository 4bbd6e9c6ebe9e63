package comparison

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/papers/markdown"
	"github.com/titrate/titrate/papers/marking"
)

const (
	share    = 500. // requests/s that the queue serves
	target   = .05  // s, the delay target of all laws that have one
	patience = .5   // s, an answer that comes later is worth nothing
	room     = 1000 // requests, the buffer of laws without their own bound: 2 s
)

// clients is the behaviour of the clients that send.
type clients int

const (
	obeying  clients = iota // twenty that raise their rate and halve it when marked or refused
	ignoring                // always 1.5 times the share
	retrying                // 1.2 times the share, and each refusal again after 20 ms, five times
)

// manager makes a law per mode: it marks for clients that obey, and drops for the others.
type manager struct {
	name string
	make func(m aqm.Mode) aqm.Law
}

var managers = []manager{
	{"variable structure, delay form (ours)", func(m aqm.Mode) aqm.Law {
		return &aqm.VSD{Delay: target, ClientDelay: .1, Mode: m, Deadline: patience}
	}},
	{"drop tail of the delay target", func(aqm.Mode) aqm.Law { return &aqm.DropTail{Delay: target} }},
	{"drop tail, long (2 s)", func(aqm.Mode) aqm.Law { return &aqm.DropTail{Delay: 2} }},
	{"RED", func(m aqm.Mode) aqm.Law {
		l := marking.RED{Min: 12, Max: 37, MaxP: .1, Weight: .002, Buffer: room, Mode: m}
		return &l
	}},
	{"REM", func(m aqm.Mode) aqm.Law { l := marking.DefaultREM(share*target, room); l.Mode = m; return &l }},
	{"PI", func(m aqm.Mode) aqm.Law {
		l := marking.HollotPI(share*target, room)
		l.A, l.B = marking.TunePI(share, 20, .15, 160)
		l.Mode = m
		return &l
	}},
	{"PIE", func(m aqm.Mode) aqm.Law { l := marking.DefaultPIE(room); l.Delay, l.Mode = target, m; return &l }},
	{"CoDel", func(m aqm.Mode) aqm.Law { return &aqm.CoDel{Delay: target, Window: .2, Buffer: room, Mode: m} }},
}

// seen are the figures of a queue from the 30th to the 120th second.
type seen struct{ wait, p99, goodput, refused, marked float64 }

// request is a waiting request; tries are its remaining attempts.
type request struct {
	at    float64
	tries int
}

// serve plays a law in front of clients by milliseconds.
func serve(law aqm.Law, who clients) (o seen) {
	const h = .001
	rng := rand.New(rand.NewPCG(8, 8))
	var queue []request
	var waits []float64
	later := map[int][]request{} // retries by millisecond
	each, credit, next := share/25, 0., 0.
	var cuts []float64
	offered, refused, marked, good := 0., 0., 0., 0.
	for k := range 120_000 {
		t := float64(k) * h
		counted := t > 30
		if t >= next {
			law.Step(t, float64(len(queue)), share, 20)
			next = t + aqm.Interval(share)
		}
		for len(cuts) > 0 && t >= cuts[0] { // one of twenty halves
			each, cuts = each*(1-.5/20), cuts[1:]
		}
		each += 5 * h
		rate := map[clients]float64{obeying: 20 * each, ignoring: 1.5 * share, retrying: 1.2 * share}[who]
		fresh := later[k]
		delete(later, k)
		for range poisson(rng, rate*h) {
			fresh = append(fresh, request{tries: 5})
		}
		turnedAway := func(r request) {
			if counted {
				refused++
			}
			switch {
			case who == obeying:
				cuts = append(cuts, t+.1)
			case who == retrying && r.tries > 0:
				r.tries--
				later[k+20] = append(later[k+20], r)
			}
		}
		for _, r := range fresh {
			if counted {
				offered++
			}
			v := law.Arrive(aqm.Arrival{Now: t, Cost: 1, Queued: float64(len(queue)), Rand: rng.Float64()})
			if v == aqm.Drop {
				turnedAway(r)
				continue
			}
			if v == aqm.Mark {
				if who == obeying {
					cuts = append(cuts, t+.1)
				}
				if counted {
					marked++
				}
			}
			r.at = t
			queue = append(queue, r)
		}
		for credit = math.Min(credit+share*h, 1+share*h); credit >= 1 && len(queue) > 0; {
			r := queue[0]
			queue = queue[1:]
			v := law.Depart(t, float64(len(queue)), t-r.at)
			if v == aqm.Drop {
				turnedAway(r)
				continue
			}
			if v == aqm.Mark && who == obeying {
				cuts = append(cuts, t+.1)
				if counted {
					marked++
				}
			}
			credit--
			if counted {
				waits = append(waits, t-r.at)
				if t-r.at <= patience {
					good++
				}
			}
		}
	}
	slices.Sort(waits)
	return seen{1e3 * stat.Mean(waits, nil), 1e3 * stat.Quantile(.99, stat.Empirical, waits, nil), good / share / 90,
		100 * refused / offered, 100 * marked / offered}
}

// Queues is the table of laws by how clients behave.
func Queues() string {
	var rows [][]string
	for who, name := range []string{"obey", "ignore", "retry"} {
		for _, m := range managers {
			mode := aqm.DropMode
			if clients(who) == obeying {
				mode = aqm.Cooperative
			}
			o := serve(m.make(mode), clients(who))
			rows = append(rows, []string{name, m.name, fmt.Sprintf("%.0f", o.wait), fmt.Sprintf("%.0f", o.p99),
				fmt.Sprintf("%.2f", o.goodput), fmt.Sprintf("%.1f %%", o.refused), fmt.Sprintf("%.1f %%", o.marked)})
		}
	}
	return markdown.Table([]string{"clients", "law", "wait, mean (ms)", "wait, p99 (ms)", "goodput", "refused",
		"marked"},
		rows)
}
