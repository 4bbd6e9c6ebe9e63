package aggregation

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// presence is where a local replica is in its life.
type presence uint8

const (
	connected    presence = iota // its link is up
	disconnected                 // its link is down, its process may live on
	exited                       // its process is gone
)

// local is a replica of this agent.
type local struct {
	process
	of              *replica
	tableGeneration uint64 // its number in the table, see processes.go
	order           uint64 // generation as it is gossiped
	weight          float64
	presence        presence
	linked          time.Duration // when its link came up
	seq             uint64
	turn            int           // of the gossip
	pruned          time.Duration // when room was made
	keys            ordered[*announced]
}

// announced is what a replica announced last for a key.
type announced struct {
	exchange.KeyClaim // as the filter sent it
	flow              bool
	withdrawn         bool
	at                time.Duration // last listed, or when withdrawn
	changed           time.Duration // it claimed or admitted something last
	before            float64       // counts that the filter finished within this generation
}

// Connect adds a replica whose link is up now.
func (t *Aggregator) Connect(now time.Duration, name string, generation uint64, w float64) {
	id := process{name, generation}
	o := t.locals[id]
	if o == nil {
		o = t.newLocal(now, id)
		t.locals[id] = o
	}
	o.weight, o.presence, o.linked = weight(w), connected, now
	delete(t.remotes, name)
	t.table.Heard(o.of.id, now.Seconds())
	t.table.SetWeight(o.of.id, o.weight, now.Seconds())
}

// gather is how long after the agent's start the processes that connect count as
// processes from before its start: their own generations say which one is older.
// Later a process that connects is newer than all others, whatever its clock says.
const gather = 5 * time.Second

func (t *Aggregator) newLocal(now time.Duration, id process) *local {
	of := t.replica(id.name)
	order := id.generation
	if now > gather {
		order = max(order, of.order+1)
	}
	at, ok := of.find(agentLife{}, id.generation, order)
	if !ok { // the third of a name at the agent's start
		at, _ = of.find(agentLife{}, id.generation, of.order+1)
	}
	t.voidEarlier(now, of.id, at.generation)
	return &local{process: id, of: of, tableGeneration: at.generation, order: order,
		seq: max(t.o.Incarnation+uint64(now), at.top+1), keys: newOrdered[*announced]()}
}

// voidEarlier makes the claims of earlier generations void once a later one speaks.
func (t *Aggregator) voidEarlier(now time.Duration, id claims.Peer, generation uint64) {
	if generation > 0 {
		t.table.Drain(id, generation-1, now.Seconds())
	}
}

// Disconnect notes that the link is down while the process may live on.
func (t *Aggregator) Disconnect(now time.Duration, name string, generation uint64) {
	t.setPresence(now, name, generation, disconnected)
}

// Exit notes that the process is gone, and withdraws its claims.
func (t *Aggregator) Exit(now time.Duration, name string, generation uint64) {
	t.setPresence(now, name, generation, exited)
}

func (t *Aggregator) setPresence(now time.Duration, name string, generation uint64, p presence) {
	o := t.locals[process{name, generation}]
	if o == nil || o.presence == p {
		return
	}
	o.presence = p
	o.seq++
	o.of.noteSequence(o.generation, o.seq)
	if p == exited {
		t.table.Drain(o.of.id, o.tableGeneration, now.Seconds())
	}
}

// Announce takes the claims of a gateway. A key that a message leaves out stands until it
// is withdrawn, or is not listed again on a new link.
func (t *Aggregator) Announce(now time.Duration, name string, generation uint64, c *exchange.Claims) {
	o := t.locals[process{name, generation}]
	if o == nil || o.presence == exited {
		return
	}
	o.seq++
	for _, f := range c.Flows {
		t.announce(now, o, announced{flow: true,
			KeyClaim: exchange.KeyClaim{Key: f.Key, Claim: f.Claim, Active: f.Active}})
	}
	for _, k := range c.Keys {
		t.announce(now, o, announced{KeyClaim: k})
	}
	for _, k := range c.Withdrawn {
		t.withdraw(now, o, k)
	}
	t.table.Heard(o.of.id, now.Seconds())
}

func (t *Aggregator) announce(now time.Duration, o *local, a announced) {
	was := o.keys.get(a.Key)
	switch {
	case was == nil && o.keys.len() >= t.o.MaxKeys && !o.makeRoom(now):
		t.refused++
		return
	case was == nil:
		was = &announced{}
		o.keys.put(a.Key, was)
	case was.withdrawn && a.Admitted < was.Admitted:
		a.before = was.before + was.Admitted
	default:
		a.before = was.before
	}
	a.at, a.changed = now, was.changed
	if a.Claim > 0 || a.Active > 0 || a.Admitted != was.Admitted || was.at == 0 || now-was.at < often {
		a.changed = now
	}
	*was = a
	t.apply(o.of.id, now, a.flow, was.record(o))
}

// makeRoom forgets keys whose withdrawal was gossiped, at most once a second. It
// returns false if it found none.
func (o *local) makeRoom(now time.Duration) bool {
	before := o.keys.len()
	if now-o.pruned >= time.Second {
		o.pruned = now
		o.keys.prune(func(_ uint64, a *announced) bool { return a.withdrawn && now-a.at > Linger })
	}
	return o.keys.len() < before
}

func (t *Aggregator) withdraw(now time.Duration, o *local, k uint64) {
	a := o.keys.get(k)
	if a == nil || a.withdrawn {
		return
	}
	a.withdrawn, a.at, a.Claim, a.Active, a.Spent = true, now, 0, 0, 0
	t.apply(o.of.id, now, a.flow, a.record(o))
}

func (a *announced) record(o *local) claims.Record {
	r := claims.Record{KeyClaim: a.KeyClaim, Generation: o.tableGeneration, Seq: o.seq}
	r.Admitted += a.before
	r.Unsaturated = unsaturated(r.Claim, r.Active)
	return r
}

// unsaturated is the claim of a replica that does not want more than it has.
func unsaturated(claim, active float64) float64 {
	if active == 0 {
		return claim
	}
	return 0
}

// sweep withdraws keys that a filter has not listed again since its link came up, and
// forgets keys that were withdrawn long ago. The other keys of a connected filter stand.
func (t *Aggregator) sweep(now time.Duration, o *local) {
	o.seq++
	o.of.noteSequence(o.generation, o.seq)
	o.keys.prune(func(k uint64, a *announced) bool {
		switch {
		case a.withdrawn || o.presence != connected:
		case a.at >= o.linked:
			t.stands(now, k, a)
		case now-o.linked > unlisted:
			t.withdraw(now, o, k)
		}
		return a.withdrawn && now-a.at > forgetLocal
	})
}

// stands notes that a claim is in force that its filter has not changed.
func (t *Aggregator) stands(now time.Duration, key uint64, a *announced) {
	k := t.keys.get(key)
	if k == nil {
		return
	}
	k.touched = now
	if a.Claim > 0 || a.Active > 0 {
		k.until = max(k.until, now+t.o.T2+Linger)
	}
}

// Forget drops a replica that no other agent needs to hear of any more: T2 after it was
// disconnected, Linger after it has exited.
func (t *Aggregator) Forget(now time.Duration, name string, generation uint64) {
	delete(t.locals, process{name, generation})
	t.release(now, name)
}

// release drops what is known of a name that is neither here nor elsewhere.
func (t *Aggregator) release(now time.Duration, name string) {
	r := t.replicas[name]
	if r == nil || t.remotes[name] != nil {
		return
	}
	for id := range t.locals {
		if id.name == name {
			return
		}
	}
	t.table.Remove(r.id, now.Seconds())
	delete(t.replicas, name)
}

// sortedLocals are the local replicas by name and generation.
func (t *Aggregator) sortedLocals() []*local {
	out := make([]*local, 0, len(t.locals))
	for _, o := range t.locals {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b *local) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.generation, b.generation))
	})
	return out
}

// Outgoing returns the state of the local replicas to be gossiped now. Disconnected
// replicas are left out, so that the other agents notice.
func (t *Aggregator) Outgoing(now time.Duration) []*gossipv1.Replica {
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
			c.Admitted, c.Spent = a.before+a.Admitted, float32(a.Spent)
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
