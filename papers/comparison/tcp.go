package comparison

import (
	"fmt"

	"github.com/titrate/titrate/control/aqm"
	"github.com/titrate/titrate/papers/markdown"
	"github.com/titrate/titrate/papers/marking"
	"github.com/titrate/titrate/papers/packets"
)

// routers are laws for TCP: 1250 packets/s, a buffer of 300, a round trip of 200 ms.
var routers = []struct {
	name string
	make func() aqm.Law
}{
	{"variable structure, delay form (ours), 120 ms", func() aqm.Law { return &aqm.VSD{Delay: .12, ClientDelay: .2} }},
	{"variable structure, published", func() aqm.Law { l := marking.PaperVS(); l.Buffer = 300; return &l }},
	{"RED, 5 and 15", func() aqm.Law { return &marking.RED{Min: 5, Max: 15, MaxP: .1, Weight: .002, Buffer: 300} }},
	{"REM", func() aqm.Law { l := marking.DefaultREM(150, 300); l.Period = .002; return &l }},
	{"PI", func() aqm.Law { l := marking.HollotPI(150, 300); return &l }},
	{"PIE, 120 ms", func() aqm.Law { l := marking.DefaultPIE(300); l.Delay = .12; return &l }},
	{"CoDel, 120 ms", func() aqm.Law { return &aqm.CoDel{Delay: .12, Window: .4, Buffer: 300} }},
	{"drop tail", func() aqm.Law { return nil }},
}

// TCP is the table of laws for TCP Reno with ECN, from 20 to 60 s.
func TCP() string {
	var rows [][]string
	for _, r := range routers {
		for _, m := range []int{50, 150, 250} {
			n := packets.New(uint64(m))
			l := n.Add(packets.Link{Rate: 1250, Buffer: 300, Law: r.make(), Every: .003})
			for range m {
				n.Connect(packets.Flow{Path: []packets.Hop{{Delay: .04, Link: l}}, Last: .06, Back: .1, Access: 1250})
			}
			for _, f := range n.Flows {
				n.At(n.Rand.Float64(), f.Start)
			}
			n.Run(20)
			sent, offered, lost, sum, count := l.Sent, l.Offered, l.Lost, 0., 0.
			n.Repeat(20, .01, func() { sum, count = sum+float64(l.Queued()), count+1 })
			n.Run(60)
			rows = append(rows, []string{r.name, fmt.Sprint(m), fmt.Sprintf("%.0f", sum/count),
				fmt.Sprintf("%.3f", float64(l.Sent-sent)/40/1250),
				fmt.Sprintf("%.1f %%", 100*float64(l.Lost-lost)/float64(l.Offered-offered))})
		}
	}
	return markdown.Table([]string{"law", "sources", "queue, mean (packets)", "use", "lost"}, rows)
}
