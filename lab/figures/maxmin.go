package main

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/fairshare"
)

// source is one flow of table 2: its law, its round trip in seconds, and when it is there.
type source struct {
	fairshare.Source
	trip, from, to float64
	sent           []float64 // a rate per step
}

// packet is a control packet on its way: to the link, or home.
type packet struct {
	fairshare.Packet
	at   float64
	from int
	home bool
}

// maxMin draws table 2: six flows with weights and minimum rates on a link of
// 100 Mbit/s, held by the link's PI law from its queue alone.
func maxMin() []figure {
	const tick, span = 0.002, 100.0
	a, b := fairshare.BestGains(0.17) // round trips of up to 70 ms, a control packet every 100 ms
	link := fairshare.Link{A: a, B: b, Period: tick, Window: 0.1, Target: 256 * 8.192e-3, Max: 100}
	rows := []struct{ m, w, from, to float64 }{{0, 1, 0, span}, {5, 1.5, 0, span}, {0, 2, 25, 75}, {10, 2.5, 0, span}, {0, 3, 0, span}, {15, 1, 50, 75}}
	flows, lines := make([]source, len(rows)), make([]line, len(rows))
	for i, r := range rows {
		flows[i] = source{Source: fairshare.Source{Weight: r.w, Minimum: r.m, Peak: 1000}, trip: 0.02 + 0.01*float64(i), from: r.from, to: r.to}
		lines[i].name = fmt.Sprintf("AF%d: w = %g, m = %g", i+1, r.w, r.m)
	}
	var post []packet
	queue, filled := 0.0, line{name: "queue"}
	for k := range int(span / tick) {
		now, in := float64(k)*tick, 0.0
		for i := range flows {
			f := &flows[i]
			rate := 0.0
			if now >= f.from && now < f.to {
				rate = f.Rate()
				f.Send(rate * tick)
				if p, due := f.Tick(now); due {
					post = append(post, packet{p, now + f.trip/2, i, false})
				}
			}
			f.sent = append(f.sent, rate)
			if late := k - int(math.Round(f.trip/2/tick)); late >= 0 {
				in += f.sent[late]
			}
			if k%50 == 0 {
				lines[i].add(now, rate)
			}
		}
		post = deliver(post, now, &link, flows)
		queue = math.Max(0, queue+(in-100)*tick)
		link.Step(queue)
		if k%50 == 0 {
			filled.add(now, queue)
		}
	}
	return []figure{
		{name: "max-min-table-2", title: "Table 2: weighted max-min with minimum rates on 100 Mbit/s", x: "time (s)", y: "rate (Mbit/s)", lines: lines},
		{name: "max-min-queue", title: "Table 2: the link's queue, target 2.1 Mbit", x: "time (s)", y: "queue (Mbit)", lines: []line{filled}},
	}
}

// deliver moves the control packets that have arrived, and returns the others.
func deliver(post []packet, now float64, link *fairshare.Link, flows []source) []packet {
	kept := post[:0]
	for _, p := range post {
		switch {
		case p.at > now:
			kept = append(kept, p)
		case p.home:
			flows[p.from].Hear(p.Packet)
		default:
			link.Pass(&p.Packet)
			p.home, p.at = true, now+flows[p.from].trip/2
			kept = append(kept, p)
		}
	}
	return kept
}
