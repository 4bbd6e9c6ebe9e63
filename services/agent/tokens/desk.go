package tokens

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/sites"
	"github.com/titrate/titrate/control/slots"
	"github.com/titrate/titrate/proto/link"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
)

const (
	// MaxKeys is the most keys that an agent owns.
	MaxKeys = 1 << 18
	// DeadAfter is the time for which a gateway's link may be down before what it holds counts as spent.
	DeadAfter = link.DeadAfter // then the gateway forgets it
	// sweepEvery is the time between two searches for keys at rest, sweepFull while a key finds no room.
	sweepEvery, sweepFull = 10 * time.Second, 2 * time.Second
	// A search goes through sweepParts of all keys, of leastSwept keys or more.
	sweepParts, leastSwept = 64, 256
	// lostTold is the number of reports to other agents that a gateway is gone, one a second.
	lostTold = 3
)

// Options of a Desk.
type Options struct {
	Agent string
	Life  uint64                  // of this process; differs with each start
	Owner func(key uint64) string // the agent that owns a key; "": none may, and ledgers decide
	// Undivided has no gateway have standing parts.
	Undivided bool
	// Linked reports whether a process of a gateway has a link to this agent.
	Linked func(process uint64) bool
	// Allowed returns the hash of a named key, and its parameters by the configuration in force here; not ok: it has no
	// such EXACT limit. Revision distinguishes one configuration from another.
	Allowed  func(*exchange.KeyName) (key uint64, p grant.Params, ok bool)
	Revision func() int64
	// Registered, if set, is called when all gateways of all agents have registered with the owners of now.
	Registered func(now time.Duration)
	// Listens, if set, reports whether something beside the owners here waits for Registered.
	Listens func() bool
	// Owned, if set, is called when this agent begins to own a key.
	Owned func(key uint64)
}

// Desk is one agent's. Not safe for concurrent use.
type Desk struct {
	o         Options
	now       time.Duration // of the latest call
	lives     uint64
	owned     map[uint64]*owned
	order     []*owned     // those of owned that sweep has not taken, and some that have gone
	room      *budget.Room // of owned, for limits
	clients   map[owners.Process]*client
	numbers   map[grant.Peer]*client
	latest    grant.Peer        // number given
	recalling lines             // of recalls
	due       slots.Agenda      // of owned
	locals    map[uint64]*local // processes here that may ask
	lost      map[uint64]int    // processes here that are gone: reports of it still to be sent
	view      view
	parts     parts
	absent    map[string]time.Duration // agents that are not alive: their gateways forget what they hold by then
	sweep     sweep
	full      bool // a key has found no room since
	away      bool // some of owned are away

	answers map[uint64]*exchange.TokenAnswers // to gateways here, by process
	packets map[string]*gossipv1.Tokens       // to other agents
	stats   Stats

	processes  map[string]map[uint64]time.Duration // that ask, by agent, and when they were last received
	complaints map[string]*Complaint               // by agent
}

// Stats are counters since the start, but for Keys and Divided.
type Stats struct {
	Keys                      int    // owned now
	Asked                     uint64 // questions of gateways here to owners of keys, wherever these are
	Requests, Grants, Recalls uint64
	Calls                     uint64               // of standing parts
	Divided                   int                  // gateways by which owners here divide, at least; 0: no parts
	Dropped                   [owners.Drops]uint64 // requests and answers, by reason
}

// owned is a key that this agent owns.
type owned struct {
	key    uint64
	life   uint64 // of o
	o      *grant.Owner
	name   exchange.KeyName // "": not known yet, and nothing is granted
	params grant.Params
	part   budget.ID   // of the room
	away   bool        // another agent owns the key now, see suspend
	book   *sites.Book // of other sites' use; nil: there was none

	revision int64         // of the configuration that params are of
	roster   *grant.Roster // that o counts
}

// New returns a desk that owns nothing.
func New(o Options) *Desk {
	d := &Desk{o: o, owned: map[uint64]*owned{}, room: budget.NewRoom(MaxKeys), clients: map[owners.Process]*client{},
		numbers: map[grant.Peer]*client{}, locals: map[uint64]*local{}, lost: map[uint64]int{},
		absent: map[string]time.Duration{}, answers: map[uint64]*exchange.TokenAnswers{},
		packets: map[string]*gossipv1.Tokens{}, processes: map[string]map[uint64]time.Duration{},
		complaints: map[string]*Complaint{}}
	d.setView(0, nil)
	d.initParts()
	return d
}

// Stood notes that this agent stood still for so long until now: what came meanwhile is not read yet, so owners
// wait longer for gateways.
func (d *Desk) Stood(now, by time.Duration) {
	d.view.change += by
	if by >= time.Duration(exchange.DivisionFor) { // the gateways here have no parts, and the others may count none
		d.beginDivision(now)
	}
	for _, k := range d.owned {
		k.o.Stood(int64(now), int64(by))
		d.schedule(k)
	}
}

// begin begins a call.
func (d *Desk) begin(now time.Duration) {
	d.now = now
	d.stepParts(now)
	d.settle(now)
}

// Ask takes what a gateway here asks.
func (d *Desk) Ask(now time.Duration, process uint64, m *exchange.TokenRequests) {
	if d.locals[process] == nil {
		d.locals[process] = &local{}
		d.sendOwners(process)
	}
	delete(d.lost, process)
	for i := range m.List {
		q := &m.List[i]
		if q.Need > 0 { // else it gives back
			d.stats.Asked++
		}
		if !isUsable(q) {
			d.drop(now, owners.Process{Agent: d.o.Agent, Number: process}, owners.Unusable)
			continue
		}
		switch owner := d.o.Owner(q.Key); owner {
		case d.o.Agent:
			d.request(now, owners.Process{Agent: owner, Number: process}, q)
		case "":
			d.refuse(owners.Process{Agent: d.o.Agent, Number: process}, q)
		default:
			p := d.packet(owner)
			p.Requests = append(p.Requests, toRequest(process, q))
		}
	}
	for i := range m.Answers {
		d.answered(now, process, &m.Answers[i])
	}
	if m.Registered != 0 {
		d.locals[process].registered = m.Registered
	}
	if m.Divides != nil {
		d.parts.division.Confirm(process, int(m.Divides.Gateways))
		d.parts.changed = true
	}
	d.begin(now)
}

// Receive takes what another agent says.
func (d *Desk) Receive(now time.Duration, agent string, m *gossipv1.Tokens) {
	for _, p := range m.GetLost() {
		d.gone(now, owners.Process{Agent: agent, Number: p}) // its own, whatever the number
	}
	for _, r := range m.GetRequests() {
		q := fromRequest(r)
		if d.o.Owner(q.Key) != d.o.Agent {
			d.drop(now, owners.Process{Agent: agent}, owners.Astray)
			continue
		}
		d.request(now, owners.Process{Agent: agent, Number: r.GetProcess()}, &q)
	}
	for _, g := range m.GetGrants() {
		switch {
		case d.o.Owner(g.GetKey()) != agent:
			d.drop(now, owners.Process{Agent: agent}, owners.Astray)
		case d.locals[g.GetProcess()] != nil:
			a := d.answer(g.GetProcess())
			a.Grants = append(a.Grants, fromGrant(g))
		}
	}
	for _, r := range m.GetRecalls() {
		switch p := r.GetProcess(); {
		case d.o.Owner(r.GetKey()) != agent: // the answer would go to another agent, too
			d.drop(now, owners.Process{Agent: agent}, owners.Astray)
		case d.locals[p] != nil || d.o.Linked(p):
			a := d.answer(p)
			a.Recalls = append(a.Recalls, fromRecall(r))
		case now >= DeadAfter: // since the start of this agent: who lives has a link by now
			to := d.packet(agent)
			to.Lost = append(to.Lost, p)
		}
	}
	if v := m.GetView(); v != nil {
		d.hear(now, agent, v)
	}
	d.receiveParts(now, agent, m)
	d.begin(now)
}

// request gives a request to the owner of its key, which is this agent.
func (d *Desk) request(now time.Duration, from owners.Process, q *exchange.TokenRequest) {
	k := d.owned[q.Key]
	if q.Forgotten && k == nil {
		return
	}
	name, p, why := d.judge(now, k, from, q)
	if why != owners.Accepted {
		d.drop(now, from, why)
		if why == owners.Crowded {
			d.full = true
			d.refuse(from, q)
		}
		return
	}
	d.stats.Requests++
	if q.Forgotten { // nothing else in it counts
		q = &exchange.TokenRequest{Key: q.Key, Request: grant.Request{Session: q.Session, Owner: q.Owner,
			Number: q.Number, Recalled: q.Recalled, Forgotten: true, Released: q.Released, Exclusive: q.Exclusive}}
	}
	if k == nil {
		d.lives++
		k = d.own(now, q.Key, d.o.Life+d.lives, p)
	}
	if name != nil {
		if d.name(now, k, *name, p); d.o.Owned != nil {
			d.o.Owned(q.Key)
		}
	}
	d.renew(now, k)
	c := d.client(from)
	c.keys[q.Key] = struct{}{}
	before, asked := k.o.Recalling(c.number)
	k.o.Request(int64(now), c.number, q.Request, outbox{d, q.Key})
	after, open := k.o.Recalling(c.number)
	if next := open && asked && after.Number != before.Number; !open || next {
		c.waits.Done(int64(now), q.Key, true)
		if next { // what it has been granted since the answer is wanted back: not lost, but asked for now
			outbox{d, q.Key}.Recall(c.number, after)
		}
	}
	d.schedule(k)
}

// refuse has a gateway go by its ledger for a key.
func (d *Desk) refuse(to owners.Process, q *exchange.TokenRequest) {
	d.grant(to, exchange.TokenGrant{Key: q.Key, Grant: grant.Grant{Session: q.Session, Seq: q.Seq, NoRoom: true}})
}

// disown forgets a key.
func (d *Desk) disown(k *owned) {
	d.room.Free(k.part)
	d.due.Set(k.key, 0)
	delete(d.owned, k.key)
	if k.roster != nil {
		d.parts.dropped.add(k.key, time.Duration(k.o.UnusedSince(int64(d.now))))
	}
	k.o.Peers(func(p grant.Peer) {
		if c := d.numbers[p]; c != nil {
			delete(c.keys, k.key)
			c.waits.Done(int64(d.now), k.key, false)
		}
		if m := d.parts.members[p]; m != nil {
			m.waits.Done(int64(d.now), k.key, false)
		}
	})
}

// Second runs once a second: it reports gateways that are gone to other agents, and forgets keys at rest.
func (d *Desk) Second(now time.Duration, alive []string) {
	for _, p := range slices.Sorted(maps.Keys(d.lost)) {
		times := d.lost[p]
		for _, agent := range alive {
			to := d.packet(agent)
			to.Lost = append(to.Lost, p)
		}
		if d.lost[p]--; times <= 1 {
			delete(d.lost, p)
		}
	}
	d.partsSecond(now)
	if d.away && (d.full || d.registered(now) && len(d.missing()) == 0) {
		d.disownAway()
	}
	every, idle := sweepEvery, (*grant.Owner).Idle
	if d.full { // a whole bucket that is forgotten loses nothing
		every, idle = sweepFull, (*grant.Owner).Whole
	}
	if len(d.sweep.keys) > 0 || now-d.sweep.began < every {
		return
	}
	d.sweep = sweep{now, idle, d.order, len(d.order)/sweepParts + leastSwept}
	d.order, d.full = nil, false
	d.Sweep(now)
	for _, c := range d.clients {
		if len(c.keys) > len(d.owned) { // owners have forgotten it
			maps.DeleteFunc(c.keys, func(key uint64, _ struct{}) bool { return d.owned[key] == nil })
		}
	}
}

// Sweep forgets keys at rest in the next part of all keys, while questions wait. Call it forty times a second.
func (d *Desk) Sweep(now time.Duration) {
	s := &d.sweep
	n := min(len(s.keys), s.part)
	for _, k := range s.keys[:n] {
		switch {
		case d.owned[k.key] != k: // it has gone
		case s.idle(k.o, int64(now)):
			d.disown(k)
		default:
			d.order = append(d.order, k)
		}
	}
	s.keys = s.keys[n:]
}

// sweep is a search for keys at rest.
type sweep struct {
	began time.Duration
	idle  func(*grant.Owner, int64) bool
	keys  []*owned // still to be looked at: out of Desk.order
	part  int      // so many at a time
}

// Due returns the time for the next Tick; 0: none.
func (d *Desk) Due() time.Duration {
	due := sooner(sooner(time.Duration(d.due.Next()), d.settleDue()), d.partsDue())
	return sooner(due, sooner(d.parts.calling.due(d.now), d.recalling.due(d.now)))
}

// sooner is the earlier of two times; 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Tick does what is due: owners grant what was refilled; Take has the recalls that are repeated.
func (d *Desk) Tick(now time.Duration) {
	d.begin(now)
	for key, ok := d.due.Take(int64(now)); ok; key, ok = d.due.Take(int64(now)) {
		k := d.owned[key]
		d.renew(now, k)
		k.o.Tick(int64(now), outbox{d, key})
		if at := d.schedule(k); at != 0 && at <= int64(now) { // it is due again at once: the next time
			return
		}
	}
}

// schedule notes when there is something to do for a key; 0: never.
func (d *Desk) schedule(k *owned) (at int64) {
	if !k.away {
		at = k.o.Due()
	}
	d.due.Set(k.key, at)
	return at
}

// Owns reports whether this agent has the bucket of a key.
func (d *Desk) Owns(key uint64) bool { return d.owned[key] != nil }

// Keys is the number of keys that this agent owns.
func (d *Desk) Keys() int { return len(d.owned) }
