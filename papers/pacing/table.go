package pacing

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/control/pacing"
	"github.com/titrate/titrate/papers/markdown"
)

// credit is the product's loop: a pacer that is asked every 5 ms.
type credit struct {
	pacer pacing.Pacer
	last  float64
}

func newCredit(kernel) Loop { return &credit{} }

// Wake implements Loop.
func (c *credit) Wake(now, rate, size float64) (sent, sleep float64) {
	c.pacer.Advance(now-c.last, rate)
	for c.last = now; c.pacer.Take(size); {
		sent += size
	}
	return sent, .005
}

// Table compares send loops on the models of the two kernels: how far the mean rate is from
// the commanded one, and how much goes at one wake-up.
func Table() string {
	all := append([]named{{"credit with its remainder (ours)", newCredit}}, loops...)
	var rows [][]string
	for _, n := range all {
		for _, k := range []kernel{old, now} {
			slow, _ := judge(n, k, 10)
			fast, most := judge(n, k, 500)
			rows = append(rows, []string{n.name, k.name, fmt.Sprintf("%.2f", slow), fmt.Sprintf("%.2f", fast),
				fmt.Sprintf("%.0f", most)})
		}
	}
	return markdown.Table([]string{"loop", "kernel", "error at 10 Mbit/s (%)", "error at 500 Mbit/s (%)",
		"most at once at 500 Mbit/s (packets)"}, rows)
}

// judge runs a loop for a minute at a rate in Mbit/s.
func judge(n named, k kernel, rate float64) (off, most float64) {
	mean := drive(n.make(k), k, constant(rate), 60, true, func(t, bytes float64) {
		if t > 1 { // the first wake-ups catch up with the start
			most = math.Max(most, bytes/packet)
		}
	})
	return 100 * math.Abs(1-mean*8/(rate*1e6)), most
}
