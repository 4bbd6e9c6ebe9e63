package allocation

import (
	"slices"
	"time"
)

// Report is what one agent's gateways saw in an interval. It is complete: a flow
// that it leaves out had no arrivals.
type Report struct {
	Interval    time.Duration
	GossipDelay time.Duration // τ in force
	Replicas    []Replica
	Flows       []FlowReport
}

// Replica is one filter process.
type Replica struct {
	Name   string
	Weight float64
	Gossip string // host:port of its agent's gossip, "" if it does not say
}

// FlowReport is a flow's use at one gateway, in cost units and cost units/s.
type FlowReport struct {
	Flow
	Gateway        string
	Demand, Served float64 // per second
	Waiting        float64 // now
	Limited        bool    // the tenant stage queued beyond its target, marked or rejected
	// Of an adaptive pool, per second: what its upstream has finished, the
	// cost·seconds that it took, and what it turned away; and what is there now.
	Completed, Residence, Shed, InFlight float64
}

// Part is what one gateway contributes to a flow, units/s.
type Part struct {
	Gateway          string
	Demand, Admitted float64
}

const (
	minInterval = 10 * time.Millisecond
	maxInterval = time.Minute
	maxRate     = 1e12 // the largest weight before the others' are known
)

// agent is the latest that is known from one agent.
type agent struct {
	heard    time.Time
	delay    time.Duration
	replicas []Replica
	awaited  []Replica // that it had before its stream began, and has not named since
	until    time.Time // they are waited for
	flows    map[Flow]*entry
	order    []*entry      // of flows, as they came: sums are the same in each run
	seq      uint64        // reports taken
	span     time.Duration // of the reports since the last round

	bounded, unknown uint64 // see Suspect
}

// entry is one flow at one agent.
type entry struct {
	key          Flow
	seq          uint64  // report that last named it
	cost, served float64 // units since the last round
	limited      bool    // since the last round
	waiting      float64 // units, in the last report
	rate, out    float64 // demand and served of the last windows, units/s
	held         bool    // limited in the last windows
	parts        []Part
	// Of an adaptive pool: units, cost·seconds and units since the last round; the
	// same per second of the last windows; units now.
	done, stayed, turned        float64
	answered, residing, refused float64
	inFlight                    float64
}

// reconnectTime is how long an agent's gateways have to come back to it after its stream began:
// they dial it every second at least, and an agent that has just started names none yet.
const reconnectTime = 5 * time.Second

// connect begins a stream of the agent.
func (a *agent) connect(now time.Time, replicas []Replica) {
	a.awaited, a.until = append(a.replicas, a.awaited...), now.Add(reconnectTime)
	a.awaited = a.awaited[:min(len(a.awaited), maxReplicas)]
	a.heard = now
	a.name(replicas)
}

// name takes the replicas that the agent names: others that it named before have gone, but
// for those that are awaited.
func (a *agent) name(replicas []Replica) {
	a.replicas = replicas
	a.awaited = slices.DeleteFunc(a.awaited, func(w Replica) bool {
		return slices.ContainsFunc(replicas, func(r Replica) bool { return r.Name == w.Name })
	})
}

// wait gives up the replicas that have not come back in time.
func (a *agent) wait(now time.Time) {
	if now.After(a.until) {
		a.awaited = nil
	}
}

// addReport adds a report to what was heard since the last round. most has the capacity of
// each configured pool.
func (a *agent) addReport(now time.Time, r *Report, resolve func(Flow) Flow, most map[string]float64) {
	span := min(max(r.Interval, minInterval), maxInterval)
	a.heard, a.delay = now, min(max(r.GossipDelay, 0), maxDelay)
	a.name(a.usable(r.Replicas))
	a.seq++
	a.span += span
	for i := range r.Flows {
		f := &r.Flows[i]
		capacity, known := most[f.Pool]
		if !known {
			a.unknown++
			continue
		}
		key := resolve(f.Flow)
		e := a.flows[key]
		if e == nil {
			e = &entry{key: key}
			a.flows[key], a.order = e, append(a.order, e)
		}
		if e.seq != a.seq {
			e.seq, e.waiting, e.inFlight, e.parts = a.seq, 0, 0, e.parts[:0]
		}
		a.add(e, f, span.Seconds(), capacity)
	}
}

// add takes a flow's numbers over h seconds, in a pool of a capacity.
func (a *agent) add(e *entry, f *FlowReport, h, capacity float64) {
	demand, served := a.bound(f.Demand, maxDemand*capacity), a.bound(f.Served, maxServed*capacity)
	e.cost += demand * h
	e.served += served * h
	e.waiting += a.bound(f.Waiting, maxHeld*capacity)
	e.limited = e.limited || f.Limited
	e.done += a.bound(f.Completed, maxDemand*capacity) * h
	e.stayed += a.bound(f.Residence, maxHeld*maxDemand*capacity) * h
	e.turned += a.bound(f.Shed, maxDemand*capacity) * h
	e.inFlight += a.bound(f.InFlight, maxHeld*capacity)
	if len(e.parts) < maxReplicas {
		e.parts = append(e.parts, Part{f.Gateway, demand, served})
	}
}

// turn closes the windows of the reports since the last round.
func (a *agent) turn() {
	h := a.span.Seconds()
	a.order = slices.DeleteFunc(a.order, func(e *entry) bool {
		gone := e.seq+silentReports < a.seq
		if gone {
			delete(a.flows, e.key)
		}
		return gone
	})
	for _, e := range a.order {
		if e.seq != a.seq {
			e.waiting, e.inFlight, e.parts = 0, 0, e.parts[:0]
		}
		e.answered, e.residing, e.refused = e.done/h, e.stayed/h, e.turned/h
		e.done, e.stayed, e.turned = 0, 0, 0
		e.rate, e.out, e.held = e.cost/h, e.served/h, e.limited
		e.cost, e.served, e.limited = 0, 0, false
	}
	a.span = 0
}

// silentReports is after how many reports without it a flow is forgotten.
const silentReports = 64
