package aggregation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

const (
	// maxName bounds a replica's name, in bytes.
	maxName = 256
	// maxOfAgent bounds the replicas of one other agent: a link serves 128 processes,
	// see package linkserver, and some of them have just gone.
	maxOfAgent = 256
	// maxRemotes bounds the replicas of all others.
	maxRemotes = 1 << 14
)

// remote is a replica of another agent.
type remote struct {
	name    string
	agent   string // that speaks for it; "" until one does
	of      *replica
	weight  float64
	heard   time.Duration
	promise time.Duration // it speaks again within this
	drained bool
}

// Receive takes the state of another agent's replicas. count is the number of that agent's
// life; the agent will speak again within promise. The caller has authenticated the agent.
func (t *Aggregator) Receive(
	now time.Duration, agent string, count uint64, promise time.Duration, replicas []*gossipv1.Replica,
) {
	for _, r := range replicas {
		if r.GetName() == "" || len(r.GetName()) > maxName {
			t.refused++
			continue
		}
		if p := t.remoteFor(now, agent, r); p != nil {
			t.receive(now, p, agentLife{agent, count}, promise, r)
		}
	}
}

// remoteFor returns the replica that an agent reports, nil if the replica belongs to
// another agent: to this one if it is connected here, or to the one that reported it
// before, until that agent falls silent or reports that the replica has exited.
func (t *Aggregator) remoteFor(now time.Duration, agent string, r *gossipv1.Replica) *remote {
	p := t.remotes[r.GetName()]
	elsewhere := p != nil && p.agent != "" && p.agent != agent && !p.drained && t.isHeard(now, p.name)
	switch {
	case t.isLocal(r.GetName()) || elsewhere:
		if !r.GetDrained() { // a late packet of the agent that it was connected to before
			t.conflicts++
		}
		return nil
	case p != nil:
		return p
	case len(t.remotes) >= maxRemotes || t.countOf(agent) >= maxOfAgent:
		t.refused++
		return nil
	}
	p = &remote{name: r.GetName(), of: t.replica(r.GetName())}
	t.remotes[r.GetName()] = p
	return p
}

// countOf counts the replicas that an agent speaks for.
func (t *Aggregator) countOf(agent string) (n int) {
	for _, p := range t.remotes {
		if p.agent == agent {
			n++
		}
	}
	return n
}

// isLocal reports whether a replica of that name is connected here. What another agent
// reports of it is then out of date, or two gateways have one name.
func (t *Aggregator) isLocal(name string) bool {
	for id, o := range t.locals {
		if id.name == name && o.presence == connected {
			return true
		}
	}
	return false
}

func (t *Aggregator) receive(now time.Duration, p *remote, from agentLife, promise time.Duration, r *gossipv1.Replica) {
	newest := p.of.generation
	at, ok := p.of.find(from, cmp.Or(r.GetProcess(), r.GetGeneration()), r.GetGeneration())
	if !ok {
		return
	}
	if at.generation > newest {
		t.voidEarlier(now, p.of.id, at.generation)
		p.drained = false
	}
	if at.generation == p.of.generation {
		p.agent, p.heard, p.promise = from.agent, now, promise
		t.table.Heard(p.of.id, now.Seconds())
		t.setWeight(now, p, r.GetWeight())
		if r.GetDrained() {
			p.drained = true
			t.table.Drain(p.of.id, at.generation, now.Seconds())
		}
	}
	base := claims.Record{Generation: at.generation, Seq: at.sequence(from, r.GetSeq())}
	for _, f := range r.GetFlows() {
		t.applyRemote(p, now, true, record(base, f.GetKey(), f.GetClaim(), f.GetActive()))
	}
	for _, k := range r.GetKeys() {
		c := record(base, k.GetKey(), k.GetClaim(), k.GetActive())
		c.Admitted, c.Spent = k.GetAdmitted(), float64(k.GetSpent())
		t.applyRemote(p, now, false, c)
	}
}

// applyRemote merges a record of a remote replica. One replica may hold half of the keys
// at most.
func (t *Aggregator) applyRemote(p *remote, now time.Duration, flow bool, r claims.Record) {
	if t.table.Held(p.of.id) >= t.o.MaxKeys/2 && !t.table.Has(p.of.id, r.Key) {
		t.refused++
		return
	}
	t.apply(p.of.id, now, flow, r)
}

// setWeight sets the weight that an agent reports for its replica. While the coordinator's
// membership is fresh, the weight in the membership counts instead.
func (t *Aggregator) setWeight(now time.Duration, p *remote, w float64) {
	p.weight = weight(w)
	for _, m := range t.leases(now) {
		if m.Name == p.name {
			p.weight = m.Weight
			break
		}
	}
	t.table.SetWeight(p.of.id, p.weight, now.Seconds())
}

func record(c claims.Record, k uint64, claim, active float32) claims.Record {
	c.Key, c.Claim, c.Active = k, float64(claim), float64(active)
	c.Unsaturated = unsaturated(c.Claim, c.Active)
	return c
}

// weight makes a weight from outside usable.
func weight(w float64) float64 {
	if !(w > 0 && w <= exchange.MaxWeight) {
		return 1
	}
	return w
}

// dropRemotes removes replicas that are no longer members: exited in order, or
// silent for T2 while the rest is heard and the coordinator does not count them.
func (t *Aggregator) dropRemotes(now time.Duration) {
	leased := t.leases(now)
	for _, name := range slices.Sorted(maps.Keys(t.remotes)) {
		p := t.remotes[name]
		silent := now - t.lastHeard(p)
		switch {
		case p.drained && silent > forgetLocal:
		case !p.drained && silent > t.o.T2 && t.hasMajority && !contains(leased, name):
		default:
			continue
		}
		delete(t.remotes, name)
		t.release(now, name)
	}
}

func contains(members []Member, name string) bool {
	for _, m := range members {
		if m.Name == name {
			return true
		}
	}
	return false
}
