package aggregation

import (
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// Version 2 of the gossip: all claims of the gateways here go to each agent that speaks it,
// and those of its gateways come as records of their replicas, not as sums of owners.

// State returns what the local replicas claim, to be gossiped now. Disconnected
// replicas are left out, so that the other agents notice.
func (t *Aggregator) State(now time.Duration) []*gossipv1.Replica {
	out := make([]*gossipv1.Replica, 0, len(t.locals))
	for _, o := range t.sortedLocals() {
		if o.presence == disconnected {
			continue
		}
		r := &gossipv1.Replica{Name: o.name, Generation: o.order, Process: o.generation, Seq: o.seq, Weight: o.weight,
			Drained: o.presence == exited}
		out = append(out, r)
		t.table.Heard(o.of.id, now.Seconds())
		if !r.Drained {
			o.gossip(now, r)
		}
	}
	return out
}

// gossip lists the keys that are claimed or have changed lately, and a part of the other
// keys, so that 64 calls list all of them. The messages of a list lie in one array: one
// allocation, and a sequential walk.
func (o *local) gossip(now time.Duration, r *gossipv1.Replica) {
	o.turn++
	flows, keys := 0, 0
	for i, a := range o.keys.values {
		switch {
		case !o.listed(now, i, a):
		case a.flow:
			flows++
		default:
			keys++
		}
	}
	flowSlab, keySlab := make([]gossipv1.FlowClaim, flows), make([]gossipv1.KeyClaim, keys)
	r.Flows, r.Keys = make([]*gossipv1.FlowClaim, 0, flows), make([]*gossipv1.KeyClaim, 0, keys)
	for i, k := range o.keys.keys {
		a := o.keys.values[i]
		switch {
		case !o.listed(now, i, a):
		case a.flow:
			f := &flowSlab[len(r.Flows)]
			f.Key, f.Claim, f.Active = k, float32(a.Claim), float32(a.Active)
			r.Flows = append(r.Flows, f)
		default:
			c := &keySlab[len(r.Keys)]
			c.Key, c.Claim, c.Active = k, float32(a.Claim), float32(a.Active)
			c.Admitted, c.Spent, c.Own = a.before+a.Admitted, float32(a.Spent), float32(a.Own)
			r.Keys = append(r.Keys, c)
		}
	}
}

// listed reports whether the i-th key is gossiped now.
func (o *local) listed(now time.Duration, i int, a *announced) bool {
	if a.withdrawn {
		return now-a.at <= Linger
	}
	return a.Claim > 0 || a.Active > 0 || now-a.changed <= Linger || (i+o.turn)%refresh == 0
}
