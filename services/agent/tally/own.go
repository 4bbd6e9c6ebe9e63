package tally

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

type presence uint8

const (
	connected presence = iota
	lost
	drained
)

// own is a replica of this agent.
type own struct {
	process
	of       *replica
	local    uint64 // generation
	order    uint64 // generation as it is gossiped
	weight   float64
	presence presence
	since    time.Duration // of the presence
	seq      uint64
	turn     int           // of the gossip
	pruned   time.Duration // when room was made
	keys     book[*announced]
}

// announced is the latest that a replica said of a key.
type announced struct {
	exchange.KeyClaim // as the filter said it
	flow              bool
	withdrawn         bool
	at                time.Duration // last listed, or when withdrawn
	changed           time.Duration // it claimed or admitted something last
	before            float64       // counts that the filter finished within this generation
}

// Join tells that a gateway's link is up.
func (t *Tally) Join(now time.Duration, name string, generation uint64, weight float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := process{name, generation}
	o := t.own[id]
	if o == nil {
		o = t.newOwn(now, id)
		t.own[id] = o
	}
	o.weight, o.presence, o.since = weight, connected, now
	delete(t.peers, name)
	t.table.Heard(o.of.id, now.Seconds())
	t.table.SetWeight(o.of.id, weight, now.Seconds())
}

// gather is how long after its start an agent takes processes that come as those that
// were there before: the number that they chose tells which is the older one. Later
// whoever comes is new, whatever its clock says.
const gather = 5 * time.Second

func (t *Tally) newOwn(now time.Duration, id process) *own {
	of := t.replica(id.name)
	order := id.generation
	if now > gather {
		order = max(order, of.order+1)
	}
	at, ok := of.find(life{}, id.generation, order)
	if !ok { // the third of a name at the agent's start
		at, _ = of.find(life{}, id.generation, of.order+1)
	}
	t.renew(now, of.id, at.generation)
	return &own{process: id, of: of, local: at.generation, order: order, seq: max(t.o.Incarnation+uint64(now), at.top+1),
		keys: newBook[*announced]()}
}

// renew makes the claims of earlier generations void once a later one speaks.
func (t *Tally) renew(now time.Duration, id claims.Peer, generation uint64) {
	if generation > 0 {
		t.table.Drain(id, generation-1, now.Seconds())
	}
}

// Lose tells that the link is down while the process may live on.
func (t *Tally) Lose(now time.Duration, name string, generation uint64) {
	t.leave(now, name, generation, lost)
}

// Drain tells that the process is gone for good.
func (t *Tally) Drain(now time.Duration, name string, generation uint64) {
	t.leave(now, name, generation, drained)
}

func (t *Tally) leave(now time.Duration, name string, generation uint64, p presence) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.own[process{name, generation}]
	if o == nil || o.presence == p {
		return
	}
	o.presence, o.since = p, now
	o.seq++
	o.of.reached(o.generation, o.seq)
	if p == drained {
		t.table.Drain(o.of.id, o.local, now.Seconds())
	}
}

// Announce takes in what a gateway claims. A key that a message leaves out
// stands until it is withdrawn, or not listed for long.
func (t *Tally) Announce(now time.Duration, name string, generation uint64, c *exchange.Claims) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.own[process{name, generation}]
	if o == nil || o.presence == drained {
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

func (t *Tally) announce(now time.Duration, o *own, a announced) {
	was := o.keys.get(a.Key)
	switch {
	case was == nil && o.keys.len() >= t.o.MaxKeys && !o.room(now):
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

// room forgets what was withdrawn and told, at most once a second; false if that made
// none.
func (o *own) room(now time.Duration) bool {
	before := o.keys.len()
	if now-o.pruned >= time.Second {
		o.pruned = now
		o.keys.prune(func(_ uint64, a *announced) bool { return a.withdrawn && now-a.at > Linger })
	}
	return o.keys.len() < before
}

func (t *Tally) withdraw(now time.Duration, o *own, k uint64) {
	a := o.keys.get(k)
	if a == nil || a.withdrawn {
		return
	}
	a.withdrawn, a.at, a.Claim, a.Active, a.Spent = true, now, 0, 0, 0
	t.apply(o.of.id, now, a.flow, a.record(o))
}

func (a *announced) record(o *own) claims.Record {
	r := claims.Record{KeyClaim: a.KeyClaim, Generation: o.local, Seq: o.seq}
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

// gone tells that nobody needs to hear of the replica any more.
func (o *own) gone(now, t2 time.Duration) bool {
	switch o.presence {
	case drained:
		return now-o.since > Linger
	case lost:
		return now-o.since > t2
	}
	return false
}

// sweep withdraws what a living filter lists no more, and forgets what was
// withdrawn long ago.
func (t *Tally) sweep(now time.Duration, o *own) {
	o.seq++
	o.of.reached(o.generation, o.seq)
	o.keys.prune(func(k uint64, a *announced) bool {
		if !a.withdrawn && o.presence == connected && now-a.at > unlisted {
			t.withdraw(now, o, k)
		}
		return a.withdrawn && now-a.at > forgetOwn
	})
}

// forget drops a replica that nobody needs to hear of any more.
func (t *Tally) forget(now time.Duration, o *own) {
	delete(t.own, o.process)
	t.release(now, o.name)
}

// release drops what is known of a name that is neither here nor elsewhere.
func (t *Tally) release(now time.Duration, name string) {
	r := t.replicas[name]
	if r == nil || t.peers[name] != nil {
		return
	}
	for id := range t.own {
		if id.name == name {
			return
		}
	}
	t.table.Remove(r.id, now.Seconds())
	delete(t.replicas, name)
}

// locals are the local replicas by name and generation.
func (t *Tally) locals() []*own {
	out := make([]*own, 0, len(t.own))
	for _, o := range t.own {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b *own) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.generation, b.generation))
	})
	return out
}

// Outgoing is the state of the local replicas as it is to be gossiped now. Lost
// ones are left out: others must notice.
func (t *Tally) Outgoing(now time.Duration) []*gossipv1.Replica {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*gossipv1.Replica, 0, len(t.own))
	for _, o := range t.locals() {
		if o.presence == lost || o.gone(now, t.o.T2) {
			continue
		}
		r := &gossipv1.Replica{Name: o.name, Generation: o.order, Process: o.generation, Seq: o.seq, Weight: o.weight,
			Drained: o.presence == drained}
		out = append(out, r)
		t.table.Heard(o.of.id, now.Seconds())
		if !r.Drained {
			o.gossip(now, r)
		}
	}
	return out
}

// gossip lists what is claimed or has changed lately, and a part of the rest: all within
// 64 calls. The messages of a list lie side by side: one
// allocation, and a walk that does not jump about.
func (o *own) gossip(now time.Duration, r *gossipv1.Replica) {
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

// listed tells whether the i-th key is gossiped now.
func (o *own) listed(now time.Duration, i int, a *announced) bool {
	if a.withdrawn {
		return now-a.at <= Linger
	}
	return a.Claim > 0 || a.Active > 0 || now-a.changed <= Linger || (i+o.turn)%refresh == 0
}
