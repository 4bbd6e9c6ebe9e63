package tally

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// maxName bounds a replica's name, in bytes.
const maxName = 256

// peer is a replica of another agent.
type peer struct {
	name       string
	agent      string
	id         claims.Peer
	generation uint64
	weight     float64
	heard      time.Duration
	promise    time.Duration // it speaks again within this
	drained    bool
}

// Hear takes in the state of replicas at another agent, which promises to speak
// again within promise.
func (t *Tally) Hear(now time.Duration, agent string, promise time.Duration, replicas []*gossipv1.Replica) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range replicas {
		if r.GetName() == "" || len(r.GetName()) > maxName {
			t.refused++
			continue
		}
		if t.isLocal(r.GetName()) {
			t.conflicts++
			continue
		}
		t.hear(now, agent, promise, r)
	}
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

func (t *Tally) hear(now time.Duration, agent string, promise time.Duration, r *gossipv1.Replica) {
	p := t.peers[r.GetName()]
	if p == nil {
		p = &peer{name: r.GetName(), id: t.id(r.GetName())}
		t.peers[r.GetName()] = p
	}
	if r.GetGeneration() > p.generation {
		t.renew(now, p.id, r.GetGeneration())
		p.generation, p.drained = r.GetGeneration(), false
	}
	if r.GetGeneration() == p.generation {
		p.agent, p.weight, p.heard, p.promise = agent, weight(r.GetWeight()), now, promise
		t.table.Heard(p.id, now.Seconds())
		t.table.SetWeight(p.id, p.weight, now.Seconds())
		if r.GetDrained() {
			p.drained = true
			t.table.Drain(p.id, p.generation, now.Seconds())
		}
	}
	for _, f := range r.GetFlows() {
		t.apply(p.id, now, true, record(r, f.GetKey(), f.GetClaim(), f.GetActive()))
	}
	for _, k := range r.GetKeys() {
		c := record(r, k.GetKey(), k.GetClaim(), k.GetActive())
		c.Admitted, c.Spent = k.GetAdmitted(), float64(k.GetSpent())
		t.apply(p.id, now, false, c)
	}
}

func record(r *gossipv1.Replica, k uint64, claim, active float32) claims.Record {
	c := claims.Record{Key: k, Generation: r.GetGeneration(), Seq: r.GetSeq(), Claim: float64(claim), Active: float64(active)}
	if active == 0 {
		c.Unsaturated = float64(claim)
	}
	return c
}

// weight makes a weight from outside usable.
func weight(w float64) float64 {
	if !(w > 0) || math.IsInf(w, 1) {
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
		t.table.Remove(p.id, now.Seconds())
		delete(t.ids, name)
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
