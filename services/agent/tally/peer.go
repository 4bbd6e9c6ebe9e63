package tally

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

const (
	// maxName bounds a replica's name, in bytes.
	maxName = 256
	// maxOfAgent bounds the replicas of one other agent: a link serves 128 processes,
	// see package gateways, and some of them have just gone.
	maxOfAgent = 256
	// maxPeers bounds the replicas of all others.
	maxPeers = 1 << 14
	// maxWeight bounds a weight from outside.
	maxWeight = 1e6
)

// peer is a replica of another agent.
type peer struct {
	name    string
	agent   string // that speaks for it; "" until one does
	of      *replica
	weight  float64
	heard   time.Duration
	promise time.Duration // it speaks again within this
	drained bool
}

// Hear takes in the state of replicas at another agent, in one of its lives, which
// promises to speak again within promise. The caller has made sure of who it is.
func (t *Tally) Hear(now time.Duration, agent string, count uint64, promise time.Duration, replicas []*gossipv1.Replica) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range replicas {
		if r.GetName() == "" || len(r.GetName()) > maxName {
			t.refused++
			continue
		}
		if p := t.peerFor(now, agent, r); p != nil {
			t.hear(now, p, life{agent, count}, promise, r)
		}
	}
}

// peerFor returns the peer that an agent speaks of, nil if it is not its to speak of:
// a replica belongs to the agent that it is linked to here, or to the one that speaks
// for it, until that one falls silent or says that it is gone.
func (t *Tally) peerFor(now time.Duration, agent string, r *gossipv1.Replica) *peer {
	p := t.peers[r.GetName()]
	elsewhere := p != nil && p.agent != "" && p.agent != agent && !p.drained && t.hears(now, p.name)
	switch {
	case t.isLocal(r.GetName()) || elsewhere:
		if !r.GetDrained() { // a late word of an earlier place
			t.conflicts++
		}
		return nil
	case p != nil:
		return p
	case len(t.peers) >= maxPeers || t.of(agent) >= maxOfAgent:
		t.refused++
		return nil
	}
	p = &peer{name: r.GetName(), of: t.replica(r.GetName())}
	t.peers[r.GetName()] = p
	return p
}

// of counts the replicas that an agent speaks for.
func (t *Tally) of(agent string) (n int) {
	for _, p := range t.peers {
		if p.agent == agent {
			n++
		}
	}
	return n
}

// isLocal tells that a replica of that name is connected here: what others say
// of it is an echo of an earlier place, or a name given twice.
func (t *Tally) isLocal(name string) bool {
	for id, o := range t.own {
		if id.name == name && o.presence == connected {
			return true
		}
	}
	return false
}

func (t *Tally) hear(now time.Duration, p *peer, from life, promise time.Duration, r *gossipv1.Replica) {
	newest := p.of.generation
	at, ok := p.of.find(from, cmp.Or(r.GetProcess(), r.GetGeneration()), r.GetGeneration())
	if !ok {
		return
	}
	if at.generation > newest {
		t.renew(now, p.of.id, at.generation)
		p.drained = false
	}
	if at.generation == p.of.generation {
		p.agent, p.heard, p.promise = from.agent, now, promise
		t.table.Heard(p.of.id, now.Seconds())
		t.weigh(now, p, r.GetWeight())
		if r.GetDrained() {
			p.drained = true
			t.table.Drain(p.of.id, at.generation, now.Seconds())
		}
	}
	base := claims.Record{Generation: at.generation, Seq: at.sequence(from, r.GetSeq())}
	for _, f := range r.GetFlows() {
		t.applyOf(p, now, true, record(base, f.GetKey(), f.GetClaim(), f.GetActive()))
	}
	for _, k := range r.GetKeys() {
		c := record(base, k.GetKey(), k.GetClaim(), k.GetActive())
		c.Admitted, c.Spent = k.GetAdmitted(), float64(k.GetSpent())
		t.applyOf(p, now, false, c)
	}
}

// applyOf merges a record of a peer. One peer may hold half of the keys at most: the
// rest is for the others.
func (t *Tally) applyOf(p *peer, now time.Duration, flow bool, r claims.Record) {
	if t.table.Held(p.of.id) >= t.o.MaxKeys/2 && !t.table.Has(p.of.id, r.Key) {
		t.refused++
		return
	}
	t.apply(p.of.id, now, flow, r)
}

// weigh takes in what an agent says of the weight of its replica. While the
// coordinator's membership is fresh, the weight in it counts.
func (t *Tally) weigh(now time.Duration, p *peer, w float64) {
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
	if !(w > 0 && w <= maxWeight) {
		return 1
	}
	return w
}

// dropPeers removes replicas that are no longer members: drained and told, or
// silent for T2 while the rest is heard and the coordinator does not count them.
func (t *Tally) dropPeers(now time.Duration) {
	leased := t.leases(now)
	for _, name := range slices.Sorted(maps.Keys(t.peers)) {
		p := t.peers[name]
		silent := now - t.lastSign(p)
		switch {
		case p.drained && silent > forgetOwn:
		case !p.drained && silent > t.o.T2 && t.isReached && !contains(leased, name):
		default:
			continue
		}
		delete(t.peers, name)
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
