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
	site    string // that it stands for; "": it is a gateway
	silence silence
}

// Sender is another agent that has sent a packet. The caller has authenticated it.
type Sender struct {
	Agent   string
	Life    uint64        // counts the agent's processes
	Promise time.Duration // it speaks again within this
}

// Receive takes the state of another agent's replicas: all of it, or their claims of keys
// that this agent owns.
func (t *Aggregator) Receive(now time.Duration, from Sender, replicas []*gossipv1.Replica) {
	abroad := t.siteOf[from.Agent] != nil
	for _, r := range replicas {
		if abroad && r.GetSite() != "" {
			continue // what it knows of third sites
		}
		if r.GetName() == "" || len(r.GetName()) > maxName {
			t.refused++
			continue
		}
		if p := t.remoteFor(now, from.Agent, r); p != nil {
			t.receive(now, p, from, r)
		}
	}
}

// remoteFor returns the replica that an agent reports, nil if the replica belongs to another agent. It belongs to
// this agent if connected here, or to the agent that reported it before, until that agent is unreachable or reports
// that the replica has exited.
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
	case len(t.remotes) >= maxRemotes || t.speaksFor[agent] >= maxOfAgent:
		t.refused++
		return nil
	}
	p = &remote{name: r.GetName(), of: t.replica(r.GetName())}
	t.remotes[p.name], t.remotesByName, t.recount, t.silent = p, nil, 0, 0
	return p
}

// removeRemote forgets a replica of another agent.
func (t *Aggregator) removeRemote(name string) {
	if p := t.remotes[name]; p != nil {
		t.setAgent(p, "")
		delete(t.remotes, name)
	}
	t.remotesByName, t.recount, t.given = nil, 0, false
}

// setAgent sets the agent that speaks for a replica.
func (t *Aggregator) setAgent(p *remote, agent string) {
	if p.agent == agent {
		return
	}
	if t.speaksFor[p.agent]--; t.speaksFor[p.agent] <= 0 {
		delete(t.speaksFor, p.agent)
	}
	if p.agent, t.recount = agent, 0; agent != "" {
		t.speaksFor[agent]++
	}
}

// isLocal reports whether a replica of that name is connected here. What another agent
// reports of it is then out of date, or two gateways have one name.
func (t *Aggregator) isLocal(name string) bool {
	for _, o := range t.sortedLocals() {
		if o.name == name && o.presence == connected {
			return true
		}
	}
	return false
}

func (t *Aggregator) receive(now time.Duration, p *remote, from Sender, r *gossipv1.Replica) {
	newest, life := p.of.generation, agentLife{from.Agent, from.Life}
	at, ok := p.of.find(life, cmp.Or(r.GetProcess(), r.GetGeneration()), r.GetGeneration())
	if !ok {
		return
	}
	if at.generation > newest {
		t.voidEarlier(now, p.of.id, at.generation)
		p.drained, t.recount, t.silent = false, 0, 0
	}
	if at.generation == p.of.generation {
		t.hear(now, p, from, r)
		t.table.Live(p.of.id, at.generation, now.Seconds())
		t.owned.Live(p.of.id, at.generation, now.Seconds())
		if r.GetDrained() && !p.drained {
			p.drained, t.recount = true, 0
			t.drain(now, p.of.id, at.generation)
		}
	}
	if t.siteOf[from.Agent] != nil {
		return // the owners there send sums
	}
	base := claims.Record{Generation: at.generation, Seq: at.sequence(life, r.GetSeq())}
	for _, f := range r.GetFlows() {
		c := record(base, f.GetKey(), f.GetClaim(), f.GetActive())
		if p.site != "" {
			c.Unsaturated = float64(f.GetUnsaturated())
		}
		t.applyRemote(p, now, told{flow: true, left: f.GetLeft(), ask: f.GetAsk(), takes: f.GetSum(),
			abroad: p.site != "", Record: c})
	}
	for _, k := range r.GetKeys() {
		c := record(base, k.GetKey(), k.GetClaim(), k.GetActive())
		c.Admitted, c.Spent, c.Own = k.GetAdmitted(), float64(k.GetSpent()), float64(k.GetOwn())
		if p.site != "" {
			c.Unsaturated = float64(k.GetUnsaturated())
		}
		t.applyRemote(p, now, told{left: k.GetLeft(), ask: k.GetAsk(), takes: k.GetSum(), abroad: p.site != "",
			known: k.GetKnown(), Record: c})
	}
}

// hear notes that the newest process of a replica lives.
func (t *Aggregator) hear(now time.Duration, p *remote, from Sender, r *gossipv1.Replica) {
	if !t.hears(now, p) {
		t.recount = 0
	}
	t.setAgent(p, from.Agent)
	if p.site = r.GetSite(); p.site != "" {
		t.setAbroad(now, p.of.id)
	}
	p.heard, p.promise = now, from.Promise
	t.recount = min(t.recount, p.speaksBy(t.o.Period))
	t.silent = min(t.silent, silentFrom(t.o.Period, now, from.Promise))
	t.table.Heard(p.of.id, now.Seconds())
	t.setWeight(now, p, r.GetWeight())
	t.owned.Heard(p.of.id, now.Seconds()) // by what it promised before
	t.owned.SetStale(p.of.id, mayStaySilent(from.Promise).Seconds(), now.Seconds())
	t.owned.SetGroup(p.of.id, t.group(from.Agent), now.Seconds())
	if p.silence.on || t.owned.Back(p.of.id) > p.silence.back {
		t.silent = now
	}
}

// applyRemote merges a record of a remote replica. One replica may hold half of the keys
// at most.
func (t *Aggregator) applyRemote(p *remote, now time.Duration, r told) {
	if t.owned.Held(p.of.id) >= t.o.MaxKeys/2 && !t.owned.Has(p.of.id, r.Key) {
		t.refused++
		return
	}
	t.takeClaim(now, p.of.id, t.group(p.agent), r)
}

// setWeight sets the weight that an agent reports for its replica. While the coordinator's
// membership is fresh, the weight in the membership counts instead.
func (t *Aggregator) setWeight(now time.Duration, p *remote, w float64) {
	if p.site != "" || t.siteOf[p.agent] != nil { // what it claims comes by the proxy of its site
		if w = weight(w); p.weight != w {
			p.weight, t.recount = w, 0
		}
		t.table.SetOwner(p.of.id, now.Seconds())
		return
	}
	was := p.weight
	p.weight = weight(w)
	if leased := t.leases(now); len(leased) > 0 {
		if i, ok := find(leased, p.name); ok {
			p.weight = leased[i].Weight
		}
	}
	if p.weight != was {
		t.recount = 0
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

// dropRemotes removes replicas that are no longer members: exited in order, or unreachable for T2 while the rest is
// reachable and the coordinator does not count them.
func (t *Aggregator) dropRemotes(now time.Duration) {
	leased := t.leases(now)
	for _, p := range t.sortedRemotes() {
		name, silent := p.name, now-t.lastHeard(p)
		switch {
		case p.drained && silent > forgetLocal:
		case !p.drained && silent > t.o.T2 && t.hasMajority && !contains(leased, name):
		default:
			continue
		}
		t.removeRemote(name)
		t.release(now, name)
	}
}

// sortedRemotes are the replicas of other agents by name.
func (t *Aggregator) sortedRemotes() []*remote {
	if t.remotesByName == nil {
		for _, name := range slices.Sorted(maps.Keys(t.remotes)) {
			t.remotesByName = append(t.remotesByName, t.remotes[name])
		}
	}
	return t.remotesByName
}
