package allocation

import (
	"slices"
	"time"
)

// Report has the counts of one agent's gateways in an interval. A flow that it leaves out had no arrivals, unless an
// earlier report with Changes named it without Once: then it goes on as there, until a report without Changes. A flow
// is named with all the agent's gateways that use it.
type Report struct {
	Changes     bool
	Interval    time.Duration
	GossipDelay time.Duration // τ in force
	Replicas    []Replica
	Flows       []FlowReport
}

// Replica is one filter process.
type Replica struct {
	Name   string
	Weight float64
	Gossip string // host:port of its agent's gossip, "" if unknown
}

// FlowReport is a flow's use at one gateway, in cost units and cost units/s.
type FlowReport struct {
	Flow
	Gateway        string
	Demand, Served float64 // per second
	Waiting        float64 // now
	Once           bool    // in this interval only
	Limited        bool    // the tenant stage queued beyond its target, marked or rejected
	// Requests per second that were marked, and refused by limits or the share: for History alone.
	Marked, Refused float64
	// Of an adaptive pool, per second: what its upstream has completed, the cost·seconds
	// that this took, and what the upstream refused; and what is there now.
	Completed, Residence, Shed, InFlight float64
}

// Part is the contribution of one gateway to a flow, units/s.
type Part struct {
	Gateway          string
	Demand, Admitted float64
}

const (
	minInterval = 10 * time.Millisecond
	maxInterval = time.Minute
	// reconnectTime is the time that the gateways of a restarted agent may take to connect to it. They try every second
	// at least; a new agent names none at first.
	reconnectTime = 5 * time.Second
	// silentReports is the number of reports without use of a flow after which the flow is forgotten.
	silentReports = 64
	// maxFlows bounds the flows of one agent. Each costs some 300 bytes.
	maxFlows = 1 << 18
	// maxRequests bounds the requests per second of a flow at a gateway that are marked or refused; more do not count.
	maxRequests = 1e9
)

// agent is the latest that is known from one agent.
type agent struct {
	heard    time.Time
	delay    time.Duration
	replicas []Replica
	awaited  []Replica // it had them before it reconnected and has not named them since
	until    time.Time // end of the wait for them
	resumed  bool      // a report since it connected has named a flow
	flows    map[Flow]*entry
	order    []*entry      // of flows, as they came: sums are the same in each run
	seq      uint64        // reports so far
	complete uint64        // the last one of them without Changes
	span     time.Duration // of the reports since the last round

	bounded, unknown uint64 // see Suspect
}

// entry is one flow at one agent.
type entry struct {
	key  Flow
	flow *flow  // that it counts for; nil or gone: none yet
	seq  uint64 // last report that named the flow
	last usage  // units/s, in that report
	once bool   // they do not go on after it
	// waiting and inFlight are of that report too: units that wait, and that are at the upstream of an adaptive pool.
	waiting, inFlight float64
	span              time.Duration // of the reports since the last round that named the flow
	sum               usage         // units in these
	rate              usage         // units/s in the windows of the last round; in one without a report: mean
	mean              usage         // units/s over Params.Smoothing
	windows           int           // that the mean has
	parts             []Part
}

// usage is the traffic of a flow in some windows. completed, residence and shed are of an adaptive pool.
type usage struct {
	demand, served             float64
	limited                    bool
	completed, residence, shed float64
	marked, refused            float64
}

// per is the usage per second of windows that lasted h seconds.
func (u usage) per(h float64) usage {
	return usage{u.demand / h, u.served / h, u.limited, u.completed / h, u.residence / h, u.shed / h,
		u.marked / h, u.refused / h}
}

// towards moves a mean over past windows by the part g to the usage of the latest.
func (u usage) towards(latest usage, g float64) usage {
	step := func(mean, sample float64) float64 { return mean + g*(sample-mean) }
	return usage{step(u.demand, latest.demand), step(u.served, latest.served), latest.limited,
		step(u.completed, latest.completed), step(u.residence, latest.residence), step(u.shed, latest.shed),
		step(u.marked, latest.marked), step(u.refused, latest.refused)}
}

// plus is the usage of both.
func (u usage) plus(v usage, times float64) usage {
	return usage{u.demand + v.demand*times, u.served + v.served*times, u.limited || v.limited && times > 0,
		u.completed + v.completed*times, u.residence + v.residence*times, u.shed + v.shed*times,
		u.marked + v.marked*times, u.refused + v.refused*times}
}

// forget makes the entry one of a flow that is not used.
func (e *entry) forget() {
	e.last, e.waiting, e.inFlight, e.parts = usage{}, 0, 0, e.parts[:0]
}

// idle reports that nothing of the flow was reported last.
func (e *entry) idle() bool { return e.last == usage{} && e.waiting == 0 && e.inFlight == 0 }

// connect begins a stream of the agent.
func (a *agent) connect(now time.Time, replicas []Replica) {
	a.awaited, a.until = append(a.replicas, a.awaited...), now.Add(reconnectTime)
	a.awaited = a.awaited[:min(len(a.awaited), maxReplicas)]
	a.heard, a.resumed = now, false
	a.setReplicas(replicas)
}

// setReplicas replaces the agent's replicas. Awaited replicas that it names have arrived.
func (a *agent) setReplicas(replicas []Replica) {
	a.replicas = replicas
	a.awaited = slices.DeleteFunc(a.awaited, func(w Replica) bool {
		return slices.ContainsFunc(replicas, func(r Replica) bool { return r.Name == w.Name })
	})
}

// withoutGateways reports whether the agent has no gateway, and none that may come back to it.
func (a *agent) withoutGateways() bool { return len(a.replicas)+len(a.awaited) == 0 }

// expireAwaited forgets the replicas that have not come back in time.
func (a *agent) expireAwaited(now time.Time) {
	if now.After(a.until) {
		a.awaited = nil
	}
}

// addReport adds a report to the sum since the last round. It returns whether the report names a flow that the agent's
// last reports did not name. capacities has the highest capacity of each configured pool, elsewhere the pools that
// other coordinators lead.
func (a *agent) addReport(now time.Time, r *Report, capacities map[string]float64, elsewhere map[string]bool,
) (news bool) {
	span := min(max(r.Interval, minInterval), maxInterval)
	a.heard, a.delay = now, min(max(r.GossipDelay, 0), maxDelay)
	a.setReplicas(a.usable(r.Replicas))
	a.seq++
	a.span += span
	a.resumed = a.resumed || len(r.Flows) > 0
	if !r.Changes {
		a.complete = a.seq
	}
	for i := range r.Flows {
		f := &r.Flows[i]
		if elsewhere[f.Pool] {
			continue
		}
		capacity, known := capacities[f.Pool]
		before := len(a.order)
		var e *entry
		if known {
			e = a.entry(f.Flow)
		}
		if e == nil {
			a.unknown++
			continue
		}
		news = news || len(a.order) > before
		if e.seq != a.seq {
			e.seq = a.seq
			e.span += span
			e.once = !r.Changes
			e.forget()
		}
		e.once = e.once || f.Once
		a.addFlow(e, f, span.Seconds(), capacity)
	}
	return news
}

// entry returns the agent's entry of a flow, made if missing; nil if the agent has too many.
func (a *agent) entry(key Flow) *entry {
	e := a.flows[key]
	if e == nil && len(a.flows) < maxFlows {
		e = &entry{key: key, once: true}
		a.flows[key], a.order = e, append(a.order, e)
	}
	return e
}

// addFlow adds a flow's numbers over h seconds, in a pool of the given capacity.
func (a *agent) addFlow(e *entry, f *FlowReport, h, capacity float64) {
	most := maxDemand * capacity
	u := usage{
		demand: a.bound(f.Demand, most), served: a.bound(f.Served, maxServed*capacity), limited: f.Limited,
		completed: a.bound(f.Completed, most), residence: a.bound(f.Residence, maxQueue*most),
		shed: a.bound(f.Shed, most), marked: counted(f.Marked), refused: counted(f.Refused),
	}
	e.last, e.sum = e.last.plus(u, 1), e.sum.plus(u, h)
	e.waiting += a.bound(f.Waiting, maxQueue*capacity)
	e.inFlight += a.bound(f.InFlight, maxQueue*capacity)
	if len(e.parts) < maxReplicas {
		e.parts = append(e.parts, Part{f.Gateway, u.demand, u.served})
	}
}

// counted bounds a rate of requests, which may be any: a flood is no fault of its agent.
func counted(v float64) float64 {
	if v >= 0 && v <= maxRequests {
		return v
	}
	return 0
}

// closeWindows turns the reports since the last round into rates. What an agent does not name
// while its gateways come back to it goes on at its mean.
func (a *agent) closeWindows(now time.Time) {
	span := a.span.Seconds()
	for _, e := range a.order {
		silent := e.seq < a.complete || e.once && e.seq < a.seq
		if silent && !a.resumed && now.Before(a.until) {
			e.rate, e.sum, e.span = e.mean, usage{}, 0
			continue
		}
		if silent {
			e.forget()
		}
		if !e.once {
			e.sum = e.sum.plus(e.last, (a.span - e.span).Seconds())
		}
		e.rate = e.sum.per(span)
		e.sum, e.span = usage{}, 0
	}
	a.span = 0
	a.order = slices.DeleteFunc(a.order, func(e *entry) bool {
		gone := e.idle() && e.seq+silentReports < a.seq
		if gone {
			delete(a.flows, e.key)
		}
		return gone
	})
}

// followMeans moves the means to the rates of windows of length span, with the time
// constant smoothing. Gateways that have left leave nothing behind.
func (a *agent) followMeans(span, smoothing time.Duration) {
	left, g := a.withoutGateways(), gain(span, smoothing)
	for _, e := range a.order {
		if left {
			e.mean = e.rate
			continue
		}
		e.windows++
		e.mean = e.mean.towards(e.rate, max(1/float64(e.windows), g))
	}
}

// useMeans puts the means in the place of the last window's rates, for a round without a report. One window of some
// requests says little, and would stand for as long as the agent is unreachable.
func (a *agent) useMeans() {
	for _, e := range a.order {
		e.rate = e.mean
	}
}
