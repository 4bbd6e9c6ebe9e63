package aggregation

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// presence is the state of a local replica's process and link.
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
	number          int32  // in items of the delivery
	site            string // that it stands for; "": it is a gateway
	weight          float64
	presence        presence
	linked          time.Duration // when its link came up
	knownUntil      time.Duration // what it claims until then was known to an earlier agent
	heard           time.Duration // when its link was up last
	silence         silence       // at the users of its keys, and
	silenceHere     silence       // at the other gateways here
	seq             uint64
	pruned          time.Duration // when room was made
	used            int           // of keys: not withdrawn
	keys            ordered[*announced]
}

// Connect adds a replica whose link is up now.
func (t *Aggregator) Connect(now time.Duration, name string, generation uint64, w float64) {
	id := process{name, generation}
	o := t.locals[id]
	if o == nil {
		o = t.newLocal(now, id)
		t.locals[id], t.localsByName = o, nil
	}
	again := o.presence != connected
	o.weight, o.presence, o.linked, o.heard, o.silence = weight(w), connected, now, now, silence{}
	t.removeRemote(name)
	t.table.Heard(o.of.id, now.Seconds())
	t.table.SetWeight(o.of.id, o.weight, now.Seconds())
	t.owned.Heard(o.of.id, now.Seconds())
	t.owned.Live(o.of.id, o.tableGeneration, now.Seconds())
	t.owned.SetGroup(o.of.id, t.self, now.Seconds())
	if again {
		t.awaitClaims(now, o)
	}
}

// HadAgent notes, right after Connect, that the process was linked to an agent before: the
// keys that it lists now are known to others.
func (t *Aggregator) HadAgent(now time.Duration, name string, generation uint64) {
	if o := t.locals[process{name, generation}]; o != nil {
		o.knownUntil = now + relist
	}
}

// awaitClaims makes each claim of a gateway that is back be sent as soon as the gateway lists it on its new link. What
// it listed before is old: it has admitted more meanwhile. An agent that receives the old count takes back what the
// gateway was assumed to admit, and is charged it again with the new count.
func (t *Aggregator) awaitClaims(now time.Duration, o *local) {
	for i, key := range o.keys.keys {
		if a := o.keys.values[i]; !a.withdrawn {
			a.told = claimTold{}
			t.noteKey(now, key)
		}
	}
}

// isListed reports whether the gateway has said on its present link what it claims of a key.
func (o *local) isListed(a *announced) bool {
	return o.presence == connected && (a == nil || a.withdrawn || a.at >= o.linked)
}

// gather is the time after the agent's start during which a process that connects counts as older than the agent: the
// processes' own generations say which one is older. Later a process that connects is newer than all others, whatever
// its clock says.
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
	t.numbers++
	o := &local{process: id, of: of, tableGeneration: at.generation, order: order, number: t.numbers,
		seq: max(t.o.Incarnation+uint64(now), at.top+1), keys: newOrdered[*announced]()}
	t.numbered[o.number] = o
	return o
}

// voidEarlier makes the claims of earlier generations void once a later one speaks.
func (t *Aggregator) voidEarlier(now time.Duration, id claims.Peer, generation uint64) {
	if generation == 0 {
		return
	}
	here, keys := t.table.KeysOf(id), t.owned.KeysOf(id)
	t.table.Drain(id, generation-1, now.Seconds())
	t.owned.Drain(id, generation-1, now.Seconds())
	t.changed(now, here, keys)
}

// changed has the gateways here, and the users, know what has changed of keys.
func (t *Aggregator) changed(now time.Duration, here, owned []uint64) {
	for _, key := range here {
		t.noteKey(now, key)
	}
	for _, key := range owned {
		t.tellUsers(now, key, claims.Group{}, false)
		t.tellSites(now, key)
	}
}

// drain withdraws the claims of a process that has exited.
func (t *Aggregator) drain(now time.Duration, id claims.Peer, generation uint64) {
	t.voidEarlier(now, id, generation+1)
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
	o.presence, t.recount, t.silent = p, 0, 0
	o.seq++
	o.of.noteSequence(o.generation, o.seq)
	if p == exited {
		t.drain(now, o.of.id, o.tableGeneration)
	}
}

// Announce takes the claims of a gateway. A key that a message leaves out stands until it
// is withdrawn, or is not listed again on a new link. It returns how many claims are refused because a number is
// out of its bounds, and how many because there is no room.
func (t *Aggregator) Announce(now time.Duration, name string, generation uint64, c *exchange.Claims) (bad, full int) {
	o := t.locals[process{name, generation}]
	if o == nil || o.presence == exited {
		return 0, 0
	}
	o.seq++
	take := func(a *announced) {
		switch {
		case a.record(o).Validate() != nil:
			bad++
			t.refused++
		case !t.announceAs(now, o, *a, now < o.knownUntil && !t.table.Has(o.of.id, a.Key)):
			full++
		}
	}
	for _, f := range c.Flows {
		take(&announced{flow: true, KeyClaim: exchange.KeyClaim{Key: f.Key, Claim: f.Claim, Active: f.Active}})
	}
	for _, k := range c.Keys {
		take(&announced{KeyClaim: k})
	}
	for _, k := range c.Withdrawn {
		t.withdraw(now, o, k)
	}
	t.table.Heard(o.of.id, now.Seconds())
	return bad, full
}

// mayUse reports whether a gateway may use one more key. It may use at most half of the room, which is what other
// agents take of one gateway, and at most as much as is left. So one gateway leaves half for the others, and two a
// third.
func (t *Aggregator) mayUse(o *local) bool {
	all := 0
	for _, l := range t.sortedLocals() {
		all += l.used
	}
	return o.used < t.o.MaxKeys/2 && o.used < t.o.MaxKeys-all
}

// hasRoom reports whether one more key of a gateway may be remembered, with the keys that gateways have withdrawn.
func (t *Aggregator) hasRoom(o *local) bool {
	all := 0
	for _, l := range t.sortedLocals() {
		all += l.keys.len()
	}
	return o.keys.len() < t.o.MaxKeys && all < 2*t.o.MaxKeys
}

// announceAs takes one claim; again: others know an earlier state. It returns false if there is no room for it.
func (t *Aggregator) announceAs(now time.Duration, o *local, a announced, again bool) bool {
	was := o.keys.get(a.Key)
	begins := was == nil || was.withdrawn
	if begins && !t.mayUse(o) || was == nil && !t.hasRoom(o) && !o.makeRoom(now) {
		t.refused++
		return false
	}
	if was == nil {
		was = &announced{}
		o.keys.put(a.Key, was)
	}
	was.replace(now, &a)
	if begins {
		o.used++
	}
	k := t.apply(o.of.id, now, a.flow, was.record(o))
	if k == nil {
		return false
	}
	if again {
		t.table.Renew(a.Key)
		k.again = true
	}
	t.report(now, o, k, was, again)
	return true
}

// report queues what the gateways here and other agents are to learn of a claim.
func (t *Aggregator) report(now time.Duration, o *local, k *key, a *announced, again bool) {
	fresh := k.owner == ""
	if fresh {
		t.begins(a.Key, k, a.Exact)
	}
	untold := a.told.at == 0
	if untold || len(t.locals) > 1 { // else its only gateway's own sum stands
		t.note(now, a.Key, k)
	} else {
		t.count(now, a.Key, k)
	}
	switch {
	case !untold && (k.alone || !a.moved()):
	case !untold && a.onlyFalls() && now-a.sent < fallEvery:
		a.owed = true
		t.tellFall(now, o, a.Key, k)
	default:
		t.tellClaim(now, o, a.Key, k, soon(fresh || untold), again)
	}
}

// soon is the urgency of what is urgent or not.
func soon(urgent bool) delivery.Urgency {
	if urgent {
		return delivery.Urgent
	}
	return delivery.Normal
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
	o.used--
	a.withdrawn, a.at, a.Claim, a.Active, a.Spent, a.Own = true, now, 0, 0, 0, 0
	a.Unsaturated = 0
	info := t.apply(o.of.id, now, a.flow, a.record(o))
	if info == nil {
		return
	}
	t.tellClaim(now, o, k, info, delivery.Urgent, false)
	t.endUse(now, k, info)
	t.note(now, k, info)
}

// sweep withdraws keys that a filter has not listed again since its link came up, and
// forgets keys that were withdrawn long ago. The other keys of a connected filter stand.
func (t *Aggregator) sweep(now time.Duration, o *local) {
	o.seq++
	o.of.noteSequence(o.generation, o.seq)
	o.keys.pruneSome(max(1024, o.keys.len()/4), func(k uint64, a *announced) bool {
		switch {
		case a.withdrawn || o.presence != connected:
		case a.at < o.linked && now-o.linked > unlisted:
			t.withdraw(now, o, k)
		case a.owed && now-a.sent >= fallEvery:
			if info := t.keys.get(k); info != nil {
				t.tellClaim(now, o, k, info, delivery.Normal, false)
			}
		}
		return a.withdrawn && now-a.at > forgetLocal
	})
}

// Forget drops a replica that no other agent needs to know any more: T2 after it was disconnected, Linger after it has
// exited.
func (t *Aggregator) Forget(now time.Duration, name string, generation uint64) {
	o := t.locals[process{name, generation}]
	delete(t.locals, process{name, generation})
	t.localsByName, t.recount, t.given = nil, 0, false
	if o != nil {
		delete(t.numbered, o.number)
		for _, key := range o.keys.keys {
			if k := t.keys.get(key); k != nil {
				t.endUse(now, key, k)
			}
		}
	}
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
	here, keys := t.table.KeysOf(r.id), t.owned.KeysOf(r.id)
	t.table.Remove(r.id, now.Seconds())
	t.owned.Remove(r.id, now.Seconds())
	delete(t.replicas, name)
	t.changed(now, here, keys)
}

// sortedLocals are the local replicas by name and generation.
func (t *Aggregator) sortedLocals() []*local {
	if t.localsByName == nil {
		t.localsByName = slices.SortedFunc(maps.Values(t.locals), func(a, b *local) int {
			return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.generation, b.generation))
		})
	}
	return t.localsByName
}

// localsOf yields the local replicas that have announced a key.
func (t *Aggregator) localsOf(at uint64) iter.Seq[*local] {
	return func(yield func(*local) bool) {
		for _, o := range t.sortedLocals() {
			if o.keys.get(at) != nil && !yield(o) {
				return
			}
		}
	}
}
