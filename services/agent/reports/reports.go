// Package reports turns what gateways report into what their agent tells the
// coordinator. A filter sends deltas of cost at its own pace; the stream sends
// rates per second at another. The deltas of a filter are added up until they are
// taken, and divided by the time that they cover.
//
// # Invariants
//
//   - No cost is counted twice, none is lost while its filter lives.
//   - A filter that has not spoken since the last time repeats its rates for a
//     second, then it counts no more; one whose process is gone, at once.
//   - A parent and a child of a hot restart are one gateway.
package reports

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// fresh is how long a gateway's rates are repeated when it has not reported
// anew: its reports and the stream's have no common beat, and a flow left out
// would count as idle.
const fresh = time.Second

// Process is one life of a gateway.
type Process struct {
	Gateway    string
	Generation uint64
}

func (p Process) compare(q Process) int {
	return cmp.Or(cmp.Compare(p.Gateway, q.Gateway), cmp.Compare(p.Generation, q.Generation))
}

// Reports are those of one agent's gateways. Safe for concurrent use; now is any
// time that does not run back.
type Reports struct {
	mu   sync.Mutex
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

// Add takes in a filter's report. One that covers no time (a filter's first)
// has nothing to divide by and is left out.
func (r *Reports) Add(now time.Duration, p Process, m *exchange.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// Drop forgets a process that is gone for good: nobody asks there any more.
func (r *Reports) Drop(p Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// Take returns the rates of all gateways that reported lately, by tenant, pool
// and gateway. A parent and a child of a hot restart are one gateway.
func (r *Reports) Take(now time.Duration) []*controlv1.FlowReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	type place struct {
		flow
		gateway string
	}
	sum := map[place]*controlv1.FlowReport{}
	for _, p := range slices.SortedFunc(maps.Keys(r.from), Process.compare) {
		from := r.from[p]
		if now-from.at > fresh {
			delete(r.from, p)
			continue
		}
		from.settle(p.Gateway)
		for id, f := range from.rates {
			at := place{id, p.Gateway}
			if have := sum[at]; have != nil {
				f = together(have, f)
			}
			sum[at] = f
		}
	}
	return slices.SortedFunc(maps.Values(sum), func(a, b *controlv1.FlowReport) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Gateway, b.Gateway))
	})
}

// settle turns the deltas into rates, if there are any.
func (f *reporter) settle(gateway string) {
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

// together is the sum of two processes of one gateway.
func together(a, b *controlv1.FlowReport) *controlv1.FlowReport {
	return &controlv1.FlowReport{Tenant: a.Tenant, Pool: a.Pool, Gateway: a.Gateway,
		Demand: a.Demand + b.Demand, Served: a.Served + b.Served, Waiting: a.Waiting + b.Waiting,
		Marked: a.Marked + b.Marked, Rejected: a.Rejected + b.Rejected, Limited: a.Limited || b.Limited,
		ClientRejected: a.ClientRejected + b.ClientRejected,
		Completed:      a.Completed + b.Completed, Residence: a.Residence + b.Residence, Shed: a.Shed + b.Shed,
		InFlight: a.InFlight + b.InFlight}
}
