// Package reports turns the gateways' reports into the agent's report to the coordinator.
// A filter sends amounts of cost since its last report; the agent sends rates per second,
// at other times. The amounts of a filter are added up until the agent reports, and
// divided by the time that they cover.
//
// # Invariants
//
//   - No cost is counted twice, none is lost while its filter lives.
//   - The rates of a filter that has not reported again are repeated for a second, then
//     they count no more; those of a process that is gone, at once.
//   - A parent and a child of a hot restart are one gateway.
package reports

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// repeatFor is how long a gateway's rates are repeated when it has not reported again.
// Its reports and those to the coordinator are not in step, and a flow that is left out
// counts as idle.
const repeatFor = time.Second

// Process is one life of a gateway.
type Process struct {
	Gateway    string
	Generation uint64
}

func (p Process) compare(q Process) int {
	return cmp.Or(cmp.Compare(p.Gateway, q.Gateway), cmp.Compare(p.Generation, q.Generation))
}

// Reports are those of one agent's gateways. Not safe for concurrent use; now is any
// time that does not run back.
type Reports struct {
	from map[Process]*reporter
}

// reporter is one filter process.
type reporter struct {
	interval time.Duration // that the deltas cover
	deltas   map[flow]exchange.FlowReport
	rates    map[flow]*controlv1.FlowReport
	at       time.Duration // of the rates
}

type flow struct{ tenant, pool string }

// New returns reports of nobody.
func New() *Reports { return &Reports{from: map[Process]*reporter{}} }

// Add takes a filter's report. One that covers no time (a filter's first)
// has nothing to divide by and is left out.
func (r *Reports) Add(now time.Duration, p Process, m *exchange.Report) {
	from := r.from[p]
	if from == nil {
		from = &reporter{}
		r.from[p] = from
	}
	from.at = now
	if m.Interval <= 0 {
		return
	}
	if from.deltas == nil {
		from.deltas = make(map[flow]exchange.FlowReport, len(m.Flows))
	}
	from.interval += m.Interval
	for _, f := range m.Flows {
		id := flow{f.Tenant, f.Pool}
		from.deltas[id] = merge(from.deltas[id], f)
	}
}

// Drop forgets a process that is gone.
func (r *Reports) Drop(p Process) {
	delete(r.from, p)
}

// merge adds a later report to an earlier one.
func merge(a, b exchange.FlowReport) exchange.FlowReport {
	b.Demand += a.Demand
	b.Served += a.Served
	b.Marked += a.Marked
	b.Rejected += a.Rejected
	b.ClientRejected += a.ClientRejected
	b.Shadowed += a.Shadowed
	b.Limited = b.Limited || a.Limited
	b.Completed += a.Completed
	b.Residence += a.Residence
	b.Shed += a.Shed
	return b
}

// Rates returns the rates of all gateways that reported lately, by tenant, pool
// and gateway. A parent and a child of a hot restart are one gateway.
func (r *Reports) Rates(now time.Duration) []*controlv1.FlowReport {
	sum := map[place]*controlv1.FlowReport{}
	for _, p := range slices.SortedFunc(maps.Keys(r.from), Process.compare) {
		from := r.from[p]
		if now-from.at > repeatFor {
			delete(r.from, p)
			continue
		}
		from.updateRates(p.Gateway)
		for id, f := range from.rates {
			at := place{id, p.Gateway}
			if have := sum[at]; have != nil {
				f = add(have, f)
			}
			sum[at] = f
		}
	}
	return slices.SortedFunc(maps.Values(sum), func(a, b *controlv1.FlowReport) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Gateway, b.Gateway))
	})
}

// updateRates turns the deltas into rates, if there are any.
func (f *reporter) updateRates(gateway string) {
	seconds := f.interval.Seconds()
	if seconds <= 0 {
		return
	}
	f.rates = make(map[flow]*controlv1.FlowReport, len(f.deltas))
	for id, d := range f.deltas {
		f.rates[id] = &controlv1.FlowReport{Tenant: id.tenant, Pool: id.pool, Gateway: gateway,
			Demand: d.Demand / seconds, Served: d.Served / seconds, Waiting: d.Waiting,
			Marked: d.Marked / seconds, Rejected: d.Rejected / seconds, Limited: d.Limited,
			ClientRejected: d.ClientRejected / seconds,
			Completed:      d.Completed / seconds, Residence: d.Residence / seconds, Shed: d.Shed / seconds,
			InFlight: d.InFlight}
	}
	f.interval, f.deltas = 0, nil
}

// add is the sum of two processes of one gateway.
func add(a, b *controlv1.FlowReport) *controlv1.FlowReport {
	return &controlv1.FlowReport{Tenant: a.Tenant, Pool: a.Pool, Gateway: a.Gateway,
		Demand: a.Demand + b.Demand, Served: a.Served + b.Served, Waiting: a.Waiting + b.Waiting,
		Marked: a.Marked + b.Marked, Rejected: a.Rejected + b.Rejected, Limited: a.Limited || b.Limited,
		ClientRejected: a.ClientRejected + b.ClientRejected,
		Completed:      a.Completed + b.Completed, Residence: a.Residence + b.Residence, Shed: a.Shed + b.Shed,
		InFlight: a.InFlight + b.InFlight}
}
