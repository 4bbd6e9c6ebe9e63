package grid

import (
	"fmt"
	"math"

	"github.com/titrate/titrate/lab/simulate/measure"
)

// Result is the whole grid.
type Result struct {
	Quick bool   `json:"quick"`
	Seed  uint64 `json:"seed"`
	Rows  []*Row `json:"rows"`
	// Site are gateways of one site: EXACT limits compared with LOCAL ones.
	Site []*SiteRow `json:"site"`
	// Losses are the figures in which a rival does better than OPTIMISTIC, worst first.
	Losses []Loss `json:"losses"`
}

// Row has the figures of a system with a limit at a number of gateways, the worst over all cells and clients.
type Row struct {
	Limit    string  `json:"limit"`
	Burst    float64 `json:"burst"`
	Replicas int     `json:"replicas"`
	Events   string  `json:"events,omitempty"` // the event; "" none
	System   string  `json:"system"`

	Within   int     `json:"within"`   // requests of clients below the limit
	Refused  int     `json:"refused"`  // requests of Within
	Wrongful Extreme `json:"wrongful"` // largest part refused of any client's
	// Over clients above the limit. Mean is admitted over the central bucket's admitted, or over the rate if
	// the rate is less; Over is admitted over the rate.
	Mean Extreme `json:"mean"`
	Over Extreme `json:"over"`
	// Excess is over rate·t + burst, requests; Spared is Excess over Slack, the used part of the bound.
	Excess Extreme `json:"excess"`
	Spared Extreme `json:"spared"`

	rate float64
}

// Extreme is a worst value and where it was seen.
type Extreme struct {
	Value float64 `json:"value"`
	Where string  `json:"where,omitempty"`
	set   bool
}

func (e *Extreme) atMost(v float64, where string) {
	if !e.set || v < e.Value {
		*e = Extreme{v, where, true}
	}
}

func (e *Extreme) atLeast(v float64, where string) {
	if !e.set || v > e.Value {
		*e = Extreme{v, where, true}
	}
}

// Loss is a figure in which a rival is better.
type Loss struct {
	Limit    string  `json:"limit"`
	Burst    float64 `json:"burst"`
	Replicas int     `json:"replicas"`
	Events   string  `json:"events,omitempty"`
	What     string  `json:"what"`
	Rival    string  `json:"rival"`
	Ours     Extreme `json:"ours"`
	Theirs   Extreme `json:"theirs"`
}

// row finds or makes a row.
func (r *Result) row(l limit, c Cell, system string) *Row {
	fresh := &Row{Limit: l.name, Burst: l.burst, Replicas: c.Replicas, Events: c.Events, System: system, rate: l.rate}
	for _, row := range r.Rows {
		if row.System == system && row.like(fresh) {
			return row
		}
	}
	row := fresh
	r.Rows = append(r.Rows, row)
	return row
}

// like reports whether rows are of the same line.
func (row *Row) like(o *Row) bool {
	return row.Limit == o.Limit && row.Burst == o.Burst && row.Replicas == o.Replicas && row.Events == o.Events
}

// add adds the figures of one client.
func (row *Row) add(c Cell, l load, k *measure.Key) {
	where := fmt.Sprintf("%s, %v", l.name, c)
	if l.below {
		row.Within += k.Within
		row.Refused += k.Wrongful
		row.Wrongful.atLeast(k.WrongfulShare, where)
	}
	row.Excess.atLeast(k.WorstExcess, where)
	row.Spared.atLeast(k.WorstExcess/Slack(row.rate, row.Burst, c, row.System == Strict), where)
	// Fewer than thirty requests have no mean.
	if !l.below && k.AboveSeconds*row.rate >= 30 && k.AboveCentral > 0 {
		row.Mean.atMost(k.AboveMean/math.Min(k.AboveCentral, row.rate), where)
		row.Over.atLeast(k.AboveMean/row.rate, where)
	}
}
