package tokens

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// After a change of the agents keys have other owners. Gateways send these what they hold, as fast as the owners
// answer; an owner that is new to a key grants nothing before.
//
//	change ── 0.1 s of quiet ──► gateways are sent the owners ──► they register their keys
//	   each agent: my gateways have registered under this list of agents ──► all others
//	   all say so, of the list that this agent has ──► its owners grant
//
// Each list of agents has a digest, so that an agent that does not know of the change yet does not
// count. While its owners wait, an agent asks the agents that have not said so, each 0.1 s.
//
// The digest has names only. It need not distinguish a new life of an agent from the one before. The new life changes
// the owners of that agent's keys alone. Other agents know of the new life before they can send it anything, as
// packets are sealed for one process.

const (
	// quiet is the pause after a change until gateways are sent the owners. A further change begins the
	// pause again, until quietMost after the first change: agents mostly come and go together.
	quiet, quietMost = 100 * time.Millisecond, 500 * time.Millisecond
	// askEvery is the time between two questions whether gateways have registered.
	askEvery = 100 * time.Millisecond
	// unsettled bounds the time after a change for which an owner waits until gateways have registered.
	unsettled = 3 * time.Second
	// longer is the time between two looks whether owners may grant that have waited for unsettled.
	longer = 500 * time.Millisecond
	// noticed is the least time that agents need to notice a failed agent. It is part of DeadAfter.
	noticed = 2 * time.Second
	// relink is the time for which a restarted agent waits for the links of its gateways: gateways look
	// for the agent once a second.
	relink = 1100 * time.Millisecond
)

// Agent is another agent that may own keys.
type Agent struct {
	Name string
	Life uint64 // differs with each start, as far as this agent knows
}

// view has the owners of keys, and says which gateways have registered their keys with the owners.
type view struct {
	agents    []Agent // the others
	owners    exchange.Owners
	digest    uint64 // of the names of all
	change    time.Duration
	first     time.Duration // of the changes that gateways do not know
	tellAt    time.Duration // gateways are sent the owners then; 0: they know them
	restarted bool          // gateways may still look for this agent

	earlier   []exchange.Owners // since all gateways had registered last
	settled   bool              // all gateways of all agents have registered
	told      bool              // the others know that the gateways here have
	heard     map[string]bool   // agents whose gateways have
	askers    []Agent           // to inform when the gateways here have
	askAt     time.Duration     // the others are asked then
	listening []uint64          // keys whose owners wait for that
	longer    time.Duration     // they wait for longer then
}

// Restarted notes that this agent has run before: gateways may still look for it.
func (d *Desk) Restarted() { d.view.restarted = true }

// Changed notes that the other agents that are alive are these now, or that one of them has begun a new
// life. failed reports whether an agent that is not alive has failed, and has not left in order.
func (d *Desk) Changed(now time.Duration, others []Agent, failed func(agent string) bool) {
	d.now = now
	before := d.view.agents
	d.setView(now, others)
	d.agentsChanged(now, before)
	d.suspend(now)
	alive := map[string]bool{d.o.Agent: true}
	for _, a := range others {
		alive[a.Name] = true
	}
	for _, c := range d.clients {
		if alive[c.Agent] {
			delete(d.absent, c.Agent)
		} else if _, known := d.absent[c.Agent]; !known && failed(c.Agent) {
			d.absent[c.Agent] = now + DeadAfter - noticed
		} else if !known {
			d.absent[c.Agent] = now + DeadAfter
		}
	}
	maps.DeleteFunc(d.processes, func(agent string, _ map[uint64]time.Duration) bool {
		return !alive[agent] && d.absent[agent] == 0 // else loseAgent does
	})
	d.stepParts(now)
	d.settle(now)
}

// suspend keeps the owners of keys that are another agent's now, without granting, until all gateways have registered
// with the other agent. The key of an agent that goes before that comes back. Then a gateway that has never known the
// other agent has sent it nothing, and may still have the bucket from here.
func (d *Desk) suspend(now time.Duration) {
	var back []*owned
	d.away = false
	for _, k := range d.owned {
		was := k.away
		k.away = d.o.Owner(k.key) != d.o.Agent
		switch {
		case k.away:
			d.away = true
			k.o.Suspend()
			d.schedule(k)
		case was:
			back = append(back, k)
		}
	}
	slices.SortFunc(back, func(a, b *owned) int { return cmp.Compare(a.key, b.key) }) // the same order in each run
	for _, k := range back {
		d.beginParts(now, k)
		k.o.Resume(int64(now), int64(d.listenFor(now, k.key)), outbox{d, k.key})
		d.schedule(k)
	}
}

// disownAway forgets the keys that are another agent's.
func (d *Desk) disownAway() {
	d.away = false
	for _, k := range d.owned {
		if k.away {
			d.disown(k)
		}
	}
}

// setView begins to send gateways the owners of keys.
func (d *Desk) setView(now time.Duration, others []Agent) {
	v := &d.view
	first := v.first
	if v.tellAt == 0 {
		first = now
	}
	owners := exchange.Owners{View: v.owners.View + 1, List: []exchange.Owner{{Hash: exchange.OwnerHash(d.o.Agent),
		Life: d.o.Life}}}
	for _, a := range others {
		owners.List = append(owners.List, exchange.Owner{Hash: exchange.OwnerHash(a.Name), Life: a.Life})
	}
	earlier := append(v.earlier, v.owners)
	if v.settled {
		earlier = []exchange.Owners{v.owners}
	}
	digest := uint64(0)
	for _, o := range owners.List {
		digest += exchange.OwnerScore(o.Hash, 1) // in any order
	}
	*v = view{agents: others, owners: owners, digest: digest, change: now, first: first,
		tellAt: max(1, min(now+quiet, first+quietMost)), restarted: v.restarted, heard: map[string]bool{},
		earlier: earlier, listening: v.listening}
}

// Agents returns the agents among which keys have owners, by the lives that gateways here know, and the digest of their
// names.
func (d *Desk) Agents() (lives map[uint64]string, digest uint64) {
	lives = map[uint64]string{d.o.Life: d.o.Agent}
	for _, a := range d.view.agents {
		lives[a.Life] = a.Name
	}
	return lives, d.view.digest
}

// sendOwners sends a gateway here the owners, unless all will be sent them.
func (d *Desk) sendOwners(process uint64) {
	if d.view.tellAt == 0 {
		d.answer(process).Owners = d.view.owners
	}
}

// settle does what is due after a change of the agents.
func (d *Desk) settle(now time.Duration) {
	v := &d.view
	for _, agent := range slices.Sorted(maps.Keys(d.absent)) {
		if now >= d.absent[agent] {
			delete(d.absent, agent)
			d.loseAgent(now, agent)
		}
	}
	if v.tellAt != 0 && now >= v.tellAt {
		v.tellAt = 0
		for p := range d.locals {
			d.sendOwners(p)
		}
	}
	if v.settled {
		return
	}
	own := d.registered(now)
	if own && !v.told {
		v.told = true
		d.sayView(v.askers, &gossipv1.TokenView{Agents: v.digest, Registered: true})
	}
	missing := d.missing()
	all := own && len(missing) == 0
	if all && d.away {
		d.disownAway()
	}
	if all && d.o.Registered != nil {
		d.o.Registered(now)
	}
	d.listenOn(now, all, &gossipv1.TokenView{Agents: v.digest, Registered: own, Ask: true}, missing)
}

// listenOn has the owners that listen grant, go on, or ask the agents that are missing.
func (d *Desk) listenOn(now time.Duration, all bool, ask *gossipv1.TokenView, missing []Agent) {
	v := &d.view
	switch {
	case (all || now-v.change >= unsettled) && d.divided(now):
		v.settled = true
		d.endListening(now)
	case now-v.change >= unsettled && now >= v.longer:
		v.longer = now + longer
		d.listenLonger(now)
	case now >= v.askAt && d.asks():
		v.askAt = now + askEvery
		d.sayView(missing, ask)
	}
}

// missing returns the agents that have not said that their gateways have registered.
func (d *Desk) missing() []Agent {
	return slices.DeleteFunc(slices.Clone(d.view.agents), func(a Agent) bool { return d.view.heard[a.Name] })
}

// asks reports whether something here depends on what the other agents' gateways have registered.
func (d *Desk) asks() bool {
	return len(d.view.listening) > 0 || d.away || d.o.Listens != nil && d.o.Listens()
}

func (d *Desk) sayView(to []Agent, v *gossipv1.TokenView) {
	for _, a := range to {
		d.packet(a.Name).View = v
	}
}

// settleDue returns the time at which settle has something to do; 0: never.
func (d *Desk) settleDue() time.Duration {
	due := d.view.tellAt
	if !d.view.settled {
		due = sooner(due, max(d.view.change+unsettled, d.view.longer))
		if d.asks() {
			due = sooner(due, max(1, d.view.askAt))
		}
	}
	for _, at := range d.absent {
		due = sooner(due, at)
	}
	return due
}

// registered reports whether all gateways here have sent the owners of now what they hold.
func (d *Desk) registered(now time.Duration) bool {
	v := &d.view
	if v.tellAt != 0 && len(d.locals) > 0 || v.restarted && now < relink {
		return false
	}
	for _, l := range d.locals {
		if l.registered != v.owners.View {
			return false
		}
	}
	return true
}

// hear takes another agent's report of its gateways.
func (d *Desk) hear(now time.Duration, agent string, m *gossipv1.TokenView) {
	if m.GetRegistered() && m.GetAgents() == d.view.digest {
		d.view.heard[agent] = true
	}
	if m.GetAsk() {
		if !slices.ContainsFunc(d.view.askers, func(a Agent) bool { return a.Name == agent }) {
			d.view.askers = append(d.view.askers, Agent{Name: agent})
		}
		d.packet(agent).View = &gossipv1.TokenView{Agents: d.view.digest, Registered: d.registered(now)}
	}
}

// listenFor returns the longest time that the owner of a key that is new here waits for what gateways know. Of a
// key that this agent has owned all the time it would know.
func (d *Desk) listenFor(now time.Duration, key uint64) time.Duration {
	isMine := func(o exchange.Owners) bool { return o.Of(key) == d.o.Life }
	if d.view.settled || !slices.ContainsFunc(d.view.earlier, func(o exchange.Owners) bool { return !isMine(o) }) {
		return 0
	}
	left := unsettled - (now - d.view.change)
	if left <= 0 && d.divided(now) {
		return 0
	}
	d.view.listening = append(d.view.listening, key)
	return max(left, 2*longer)
}

// listenLonger has owners that listen go on: there may be gateways with parts that this agent does not know of.
func (d *Desk) listenLonger(now time.Duration) {
	for _, key := range d.view.listening {
		if k := d.owned[key]; k != nil && !k.away {
			k.o.ListenUntil(int64(now + 2*longer))
			d.schedule(k)
		}
	}
}

// endListening has the owners that have waited grant.
func (d *Desk) endListening(now time.Duration) {
	keys := d.view.listening
	d.view.listening = nil
	for _, key := range keys {
		if k := d.owned[key]; k != nil && !k.away {
			k.o.Listened(int64(now), outbox{d, key})
			d.schedule(k)
		}
	}
}

// Heard notes that a packet of another agent has come. After a cut agents receive each other before they are members
// again, and gateways ask and are granted tokens. An owner that forgot such a gateway would grant the bucket twice.
func (d *Desk) Heard(now time.Duration, agent string) {
	if at, is := d.absent[agent]; is {
		d.absent[agent] = max(at, now+DeadAfter)
	}
}

// loseAgent has the owners here count what the gateways of an agent held as spent.
func (d *Desk) loseAgent(now time.Duration, agent string) {
	delete(d.processes, agent)
	for _, n := range slices.Sorted(maps.Keys(d.numbers)) {
		if p := d.numbers[n].Process; p.Agent == agent {
			d.gone(now, p)
		}
	}
}
