// Package reports turns the gateways' reports into the agent's report to the coordinator. A filter sends amounts of
// cost since its last report; the agent sends rates per second, at other times. The amounts of a filter are added up
// until the agent reports, and divided by the time that they cover.
//
// # Invariants
//
//   - No cost is counted twice, none is lost while its filter lives.
//   - The rates of a filter that has not reported again are repeated for a second, then
//     they count no more; those of a process that is gone, at once.
//   - A parent and a child of a hot restart are one gateway.
//   - A process has at most as many flows as all processes together leave of maxFlows, some 700 B each, also while no
//     coordinator takes them. What is beyond is left out.
package reports

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// repeatFor is the time for which a gateway's rates are repeated when it has not reported again. Its reports and those
// to the coordinator are not in step, and a flow that is left out counts as idle.
const repeatFor = time.Second

// maxFlows bounds the flows of all processes together. One process has half of them at most.
const maxFlows = 1 << 18

// Process is one life of a gateway.
type Process struct {
	Gateway    string
	Generation uint64
}

func (p Process) compare(q Process) int {
	return cmp.Or(cmp.Compare(p.Gateway, q.Gateway), cmp.Compare(p.Generation, q.Generation))
}

// Reports has the reports of one agent's gateways. Not safe for concurrent use; now is any time that does not run back.
type Reports struct {
	from map[Process]*reporter
}

// reporter is one filter process.
type reporter struct {
	covered time.Duration                               // by its reports
	taken   map[string]time.Duration                    // of covered: what the rates of a pool cover
	deltas  map[string]map[string]exchange.FlowReport   // by pool and tenant
	rates   map[string]map[string]*controlv1.FlowReport // the same
	at      time.Duration                               // of the last report
	flows   int                                         // in deltas
}

type flow struct{ tenant, pool string }

// New returns reports of nobody.
func New() *Reports { return &Reports{from: map[Process]*reporter{}} }

// Add takes a filter's report. A report that covers no time (a filter's first)
// has nothing to divide by and is left out. It returns how many flows found no room.
func (r *Reports) Add(now time.Duration, p Process, m *exchange.Report) (beyond int) {
	from := r.from[p]
	if from == nil {
		from = &reporter{taken: map[string]time.Duration{}, deltas: map[string]map[string]exchange.FlowReport{},
			rates: map[string]map[string]*controlv1.FlowReport{}}
		r.from[p] = from
	}
	from.at = now
	if m.Interval <= 0 || from.covered+m.Interval < 0 { // the sum may not fit
		return 0
	}
	before, others := from.covered, 0
	for _, other := range r.from {
		others += other.flows
	}
	others -= from.flows
	from.covered += m.Interval
	for _, f := range m.Flows {
		if _, known := from.deltas[f.Pool][f.Tenant]; !known {
			if from.flows >= maxFlows-others-from.flows {
				beyond++
				continue
			}
			from.flows++
		}
		if from.deltas[f.Pool] == nil {
			from.deltas[f.Pool] = map[string]exchange.FlowReport{}
		}
		if _, known := from.taken[f.Pool]; !known { // what it did not report it did not use
			from.taken[f.Pool] = before
		}
		from.deltas[f.Pool][f.Tenant] = merge(from.deltas[f.Pool][f.Tenant], f)
	}
	return beyond
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

// Rates returns the rates of all gateways with a recent report, by tenant, pool and gateway, of the pools that are
// wanted. What they cover is taken: each pool is for one caller. A parent and a child of a hot restart are one gateway.
func (r *Reports) Rates(now time.Duration, wanted func(pool string) bool) []*controlv1.FlowReport {
	sum := map[place]*controlv1.FlowReport{}
	for _, p := range slices.SortedFunc(maps.Keys(r.from), Process.compare) {
		from := r.from[p]
		if now-from.at > repeatFor {
			delete(r.from, p)
			continue
		}
		for pool := range from.taken {
			if !wanted(pool) {
				continue
			}
			from.updateRates(p.Gateway, pool)
			for tenant, f := range from.rates[pool] {
				at := place{flow{tenant, pool}, p.Gateway}
				if have := sum[at]; have != nil {
					f = add(have, f)
				}
				sum[at] = f
			}
		}
	}
	return slices.SortedFunc(maps.Values(sum), func(a, b *controlv1.FlowReport) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Gateway, b.Gateway))
	})
}

// updateRates turns the deltas of a pool into rates, if a report has come since. A pool without any is forgotten.
func (f *reporter) updateRates(gateway, pool string) {
	seconds := (f.covered - f.taken[pool]).Seconds()
	if seconds <= 0 {
		return
	}
	deltas := f.deltas[pool]
	f.flows -= len(deltas)
	delete(f.deltas, pool)
	delete(f.rates, pool)
	if len(deltas) == 0 {
		delete(f.taken, pool)
		return
	}
	f.taken[pool], f.rates[pool] = f.covered, make(map[string]*controlv1.FlowReport, len(deltas))
	for tenant, d := range deltas {
		f.rates[pool][tenant] = &controlv1.FlowReport{Tenant: tenant, Pool: pool, Gateway: gateway,
			Demand: d.Demand / seconds, Served: d.Served / seconds, Waiting: d.Waiting,
			Marked: d.Marked / seconds, Rejected: d.Rejected / seconds, Limited: d.Limited,
			ClientRejected: d.ClientRejected / seconds,
			Completed:      d.Completed / seconds, Residence: d.Residence / seconds, Shed: d.Shed / seconds,
			InFlight: d.InFlight}
	}
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
