package grid

import (
	"context"
	"fmt"
	"time"

	"github.com/titrate/titrate/lab/simulate"
	"github.com/titrate/titrate/lab/simulate/measure"
)

// Systems of a site: limits with precision EXACT, and LOCAL ones, OPTIMISTIC.
const (
	Exact = "exact"
	Local = "local"
)

// Targets of EXACT limits where nothing is lost and the way between two agents is 2 ms at most.
const (
	mostRefused = .001 // of the requests of clients below their limit
	meanOff     = .01  // as a part of the central bucket's admitted cost
)

// siteCells are gateways of one site: no loss, and a way of 0.25 to 2 ms.
func siteCells(quick bool) []Cell {
	const ms = time.Millisecond
	if quick {
		return []Cell{{Replicas: 3, Delay: ms}}
	}
	var out []Cell
	for _, n := range []int{3, 10, 30, 100} {
		for _, d := range []time.Duration{ms / 4, ms, 2 * ms} {
			if n <= 10 || d == ms {
				out = append(out, Cell{Replicas: n, Delay: d})
			}
		}
	}
	return out
}

// siteLead is the quiet time before the clients begin: owners have been owners for long, and gateways have parts.
const siteLead = 15 * time.Second

// siteSpan returns the time for which a limit is played at a site: the lower the rate, the longer.
func siteSpan(quick bool, c Cell, l limit) time.Duration {
	switch {
	case c.Replicas >= 100:
		return 10 * time.Second
	case quick, c.Replicas >= 30, l.rate >= 50:
		return 20 * time.Second
	case !l.slow():
		return 40 * time.Second
	}
	return 120 * time.Second
}

// siteJobs are the scenarios of the cells of a site, each cell once with each system.
func (o Options) siteJobs() []job {
	var out []job
	for _, c := range siteCells(o.Quick) {
		bySpan := map[time.Duration][]limit{}
		var spans []time.Duration
		for _, l := range limits(o.Quick) {
			if !c.plays(l) {
				continue
			}
			span := siteSpan(o.Quick, c, l)
			if len(bySpan[span]) == 0 {
				spans = append(spans, span)
			}
			bySpan[span] = append(bySpan[span], l)
		}
		for _, span := range spans {
			for _, system := range []string{Exact, Local} {
				out = append(out, job{cell: c, span: span, lead: siteLead, limits: bySpan[span], loads: loads(),
					seed: max(o.Seed, 1), site: system})
			}
		}
	}
	return out
}

// SiteRow has the figures of a system with a limit on gateways of one site.
type SiteRow struct {
	Limit    string        `json:"limit"`
	Burst    float64       `json:"burst"`
	Replicas int           `json:"replicas"`
	Delay    time.Duration `json:"delayNs"` // of the way between agents, one way, ± 40 %
	System   string        `json:"system"`

	Within   int     `json:"within"`   // requests of clients below the limit
	Refused  int     `json:"refused"`  // requests of Within
	Wrongful Extreme `json:"wrongful"` // largest part refused of any client's
	// Over clients above the limit: admitted in the whole run over the central bucket's admitted, the least and
	// the most.
	Least Extreme `json:"least"`
	Most  Extreme `json:"most"`
	// Excess is over rate·t + burst, requests; Bound is the bound for EXACT.
	Excess Extreme `json:"excess"`
	Bound  float64 `json:"bound"`

	rate float64
}

// playSite plays a job of a site and adds it to the result.
func (j *job) playSite(ctx context.Context, r *Result, progress func(float64)) error {
	played, err := simulate.Run(ctx, j.scenario(), simulate.Options{Progress: progress})
	if err != nil {
		return fmt.Errorf("grid: %v: %w", j.cell, err)
	}
	return j.each(played.Systems[0].Keys, func(l limit, of load, k *measure.Key) {
		r.siteRow(l, j.cell, j.site).add(of, k)
	})
}

// siteRow finds or makes a row.
func (r *Result) siteRow(l limit, c Cell, system string) *SiteRow {
	for _, row := range r.Site {
		if row.Limit == l.name && row.Burst == l.burst && row.Replicas == c.Replicas && row.Delay == c.Delay &&
			row.System == system {
			return row
		}
	}
	row := &SiteRow{Limit: l.name, Burst: l.burst, Replicas: c.Replicas, Delay: c.Delay, System: system,
		Bound: 8*l.rate*c.Delay.Seconds() + 1, rate: l.rate}
	r.Site = append(r.Site, row)
	return row
}

// add adds the figures of one client.
func (row *SiteRow) add(l load, k *measure.Key) {
	if l.below {
		row.Within += k.Within
		row.Refused += k.Wrongful
		row.Wrongful.atLeast(k.WrongfulShare, l.name)
	}
	row.Excess.atLeast(k.WorstExcess, l.name)
	if !l.below && k.Central > 0 {
		mean := float64(k.Admitted) / float64(k.Central)
		row.Least.atMost(mean, l.name)
		row.Most.atLeast(mean, l.name)
	}
}

// refused is the part refused of the requests of clients below the limit.
func (row *SiteRow) refused() float64 {
	if row.Within == 0 {
		return 0
	}
	return float64(row.Refused) / float64(row.Within)
}

// misses are the targets that a row misses, each with its cause.
func (row *SiteRow) misses() (out []string) {
	if row.refused() > mostRefused {
		out = append(out, "refused: "+row.refusedBy())
	}
	if row.Most.Value-1 > meanOff {
		out = append(out, "mean: wait")
	}
	if 1-row.Least.Value > meanOff {
		out = append(out, "mean: hand-over")
	}
	if row.Excess.Value > row.Bound {
		out = append(out, "excess")
	}
	return out
}

// refusedBy returns why clients below their limit were refused. "order": the worst client sends at random
// times, and no larger part was refused than the requests that another request can overtake on the longest way.
// "hand-over": a bucket moved from gateway to gateway.
func (row *SiteRow) refusedBy() string {
	if row.Wrongful.Where == sixty && row.Wrongful.Value <= .6*row.rate*1.4*row.Delay.Seconds() {
		return "order"
	}
	return "hand-over"
}
