package tokens

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/proto/link"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"google.golang.org/protobuf/proto"
)

const (
	// MaxKeys is the most keys that an agent owns.
	MaxKeys = 1 << 18
	// DeadAfter is how long a gateway's link may be down before what it holds counts as spent.
	DeadAfter = link.DeadAfter // then the gateway forgets it
	// listen is how long the owner of a key that is new to it hears what gateways know before it
	// grants, and unsettled how long after a change of the agents a key counts as new.
	listen, unsettled = 10 * time.Millisecond, 3 * time.Second
	// sweepEvery is how often keys at rest are looked for, and sweepFull while a key finds no room.
	sweepEvery, sweepFull = 10 * time.Second, 2 * time.Second
	// lostTold is how often other agents are told that a gateway is gone, once a second.
	lostTold = 3
	// maxPacket bounds the tokens of a packet in bytes, so that it fits one datagram.
	maxPacket = 1200
)

// Options of a Desk.
type Options struct {
	Agent string
	Life  uint64                  // of this process; differs with each start
	Owner func(key uint64) string // the agent that owns a key
	// Linked reports whether a process of a gateway has a link to this agent.
	Linked func(process uint64) bool
	// Allowed returns the hash of a named key, and what the configuration in force here allows it;
	// not ok: it has no such EXACT limit. Revision tells one configuration from another.
	Allowed  func(*exchange.KeyName) (key uint64, p grant.Params, ok bool)
	Revision func() int64
}

// Process is a gateway's process, at an agent.
type Process struct {
	Agent  string
	Number uint64
}

// Desk is one agent's. Not safe for concurrent use.
type Desk struct {
	o      Options
	lives  uint64
	owned  map[uint64]*owned
	room   *budget.Room // of owned, for limits
	peers  map[Process]grant.Peer
	names  map[grant.Peer]Process
	latest grant.Peer // number given
	due    agenda
	locals map[uint64]bool // processes here that have asked
	lost   map[uint64]int  // processes here that are gone: how often that is still to be told
	change time.Duration   // of the agents, the last
	swept  time.Duration
	full   bool // a key has found no room since

	answers map[uint64]*exchange.TokenAnswers // to gateways here, by process
	packets map[string]*gossipv1.Tokens       // to other agents
	stats   Stats

	processes  map[string]map[uint64]time.Duration // that ask, by agent, and when they were heard
	complaints map[string]*Complaint               // by agent
}

// Stats are counters since the start, but for Keys.
type Stats struct {
	Keys                      int    // owned now
	Asked                     uint64 // questions of gateways here to owners of keys, wherever these are
	Requests, Grants, Recalls uint64
	Dropped                   [Drops]uint64 // requests, by reason
}

// owned is a key that this agent owns.
type owned struct {
	key    uint64
	life   uint64 // of o
	o      *grant.Owner
	name   exchange.KeyName // "": not told yet, and nothing is granted
	params grant.Params
	part   budget.ID // of the room
	at     int64     // in the agenda; 0: it is not there

	revision int64 // of the configuration that params are of
}

// New returns a desk that owns nothing.
func New(o Options) *Desk {
	return &Desk{o: o, owned: map[uint64]*owned{}, room: budget.NewRoom(MaxKeys), peers: map[Process]grant.Peer{}, names: map[grant.Peer]Process{},
		locals: map[uint64]bool{}, lost: map[uint64]int{}, answers: map[uint64]*exchange.TokenAnswers{},
		packets: map[string]*gossipv1.Tokens{}, processes: map[string]map[uint64]time.Duration{},
		complaints: map[string]*Complaint{}}
}

// Ask takes what a gateway here asks.
func (d *Desk) Ask(now time.Duration, process uint64, m *exchange.TokenRequests) {
	d.locals[process] = true
	delete(d.lost, process)
	for i := range m.List {
		q := &m.List[i]
		if q.Need > 0 { // else it gives back
			d.stats.Asked++
		}
		if owner := d.o.Owner(q.Key); owner == d.o.Agent {
			d.request(now, Process{owner, process}, q)
		} else {
			p := d.packet(owner)
			p.Requests = append(p.Requests, toRequest(process, q))
		}
	}
}

// Receive takes what another agent says.
func (d *Desk) Receive(now time.Duration, agent string, m *gossipv1.Tokens) {
	for _, p := range m.GetLost() {
		d.gone(now, Process{agent, p}) // its own, whatever the number
	}
	for _, r := range m.GetRequests() {
		q := fromRequest(r)
		if d.o.Owner(q.Key) != d.o.Agent {
			d.drop(now, agent, Astray)
			continue
		}
		d.request(now, Process{agent, r.GetProcess()}, &q)
	}
	for _, g := range m.GetGrants() {
		if d.locals[g.GetProcess()] {
			a := d.answer(g.GetProcess())
			a.Grants = append(a.Grants, fromGrant(g))
		}
	}
	for _, r := range m.GetRecalls() {
		switch p := r.GetProcess(); {
		case d.locals[p] || d.o.Linked(p):
			a := d.answer(p)
			a.Recalls = append(a.Recalls, fromRecall(r))
		case now >= DeadAfter: // since the start of this agent: who lives has a link by now
			to := d.packet(agent)
			to.Lost = append(to.Lost, p)
		}
	}
}

// request gives a request to the owner of its key, which is this agent.
func (d *Desk) request(now time.Duration, from Process, q *exchange.TokenRequest) {
	k := d.owned[q.Key]
	if q.Forgotten && k == nil {
		return
	}
	name, p, why := d.judge(now, k, from, q)
	if why != accepted {
		d.drop(now, from.Agent, why)
		if why == Crowded {
			d.grant(from, exchange.TokenGrant{Key: q.Key,
				Grant: grant.Grant{Session: q.Session, Seq: q.Seq, NoRoom: true}})
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
		k = d.name(now, k, *name, p)
	}
	d.renew(now, k)
	k.o.Request(int64(now), d.peer(from), q.Request, outbox{d, q.Key})
	d.schedule(k)
}

// peer returns the number of a process for owners.
func (d *Desk) peer(p Process) grant.Peer {
	n, ok := d.peers[p]
	if !ok {
		d.latest++
		n = d.latest
		d.peers[p], d.names[n] = n, p
	}
	return n
}

// outbox is where the owner of a key sends.
type outbox struct {
	d   *Desk
	key uint64
}

// Grant sends a grant.
func (o outbox) Grant(to grant.Peer, g grant.Grant) {
	o.d.stats.Grants++
	o.d.grant(o.d.names[to], exchange.TokenGrant{Key: o.key, Grant: g})
}

func (d *Desk) grant(to Process, m exchange.TokenGrant) {
	if to.Agent == d.o.Agent {
		a := d.answer(to.Number)
		a.Grants = append(a.Grants, m)
		return
	}
	out := d.packet(to.Agent)
	out.Grants = append(out.Grants, toGrant(to.Number, &m))
}

// Recall sends a recall.
func (o outbox) Recall(to grant.Peer, r grant.Recall) {
	o.d.stats.Recalls++
	p, m := o.d.names[to], exchange.TokenRecall{Key: o.key, Recall: r}
	if p.Agent == o.d.o.Agent {
		a := o.d.answer(p.Number)
		a.Recalls = append(a.Recalls, m)
		return
	}
	out := o.d.packet(p.Agent)
	out.Recalls = append(out.Recalls, toRecall(p.Number, &m))
}

func (d *Desk) answer(process uint64) *exchange.TokenAnswers {
	a := d.answers[process]
	if a == nil {
		a = &exchange.TokenAnswers{}
		d.answers[process] = a
	}
	return a
}

func (d *Desk) packet(agent string) *gossipv1.Tokens {
	p := d.packets[agent]
	if p == nil {
		p = &gossipv1.Tokens{}
		d.packets[agent] = p
	}
	return p
}

// Changed notes that the agents have changed, or that one of them has begun a new life: alive
// says which of the others are alive. The gateways here tell the owners of now what they know.
func (d *Desk) Changed(now time.Duration, alive []string) {
	d.change = now
	for _, key := range d.keys() {
		if d.o.Owner(key) != d.o.Agent {
			d.forget(key)
		}
	}
	is := map[string]bool{d.o.Agent: true}
	for _, name := range alive {
		is[name] = true
	}
	for _, n := range slices.Sorted(maps.Keys(d.names)) {
		if p := d.names[n]; !is[p.Agent] {
			d.gone(now, p)
		}
	}
	maps.DeleteFunc(d.processes, func(agent string, _ map[uint64]time.Duration) bool { return !is[agent] })
	for p := range d.locals {
		d.answer(p).Moved = true
	}
}

// Lost notes that a gateway here is gone, or has no link for long: what it held is spent.
func (d *Desk) Lost(now time.Duration, process uint64) {
	if !d.locals[process] {
		return
	}
	delete(d.locals, process)
	d.lost[process] = lostTold
	d.gone(now, Process{d.o.Agent, process})
}

// gone has the owners here count what a process held as spent.
func (d *Desk) gone(now time.Duration, p Process) {
	if delete(d.processes[p.Agent], p.Number); len(d.processes[p.Agent]) == 0 {
		delete(d.processes, p.Agent)
	}
	n, ok := d.peers[p]
	if !ok {
		return
	}
	delete(d.peers, p) // if it lives on, it is another one to the owners
	for _, key := range d.keys() {
		k := d.owned[key]
		k.o.Lost(int64(now), n, outbox{d, key})
		d.schedule(k)
	}
	delete(d.names, n) // no owner speaks to it any more
}

// keys are those owned, in the same order in each run.
func (d *Desk) keys() []uint64 { return slices.Sorted(maps.Keys(d.owned)) }

// Second does what is to be done each second: others are told of gateways that are gone, and
// keys at rest are forgotten.
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
	every, idle := sweepEvery, (*grant.Owner).Idle
	if d.full { // a whole bucket that is forgotten loses nothing
		every, idle = sweepFull, (*grant.Owner).Whole
	}
	if now-d.swept < every {
		return
	}
	d.swept, d.full = now, false
	for key, k := range d.owned {
		if idle(k.o, int64(now)) {
			d.forget(key)
		}
	}
}

// forget owns a key no more.
func (d *Desk) forget(key uint64) {
	if k := d.owned[key]; k != nil {
		d.room.Free(k.part)
		delete(d.owned, key)
	}
}

// Due is when Tick has something to do; 0: nothing.
func (d *Desk) Due() time.Duration {
	for len(d.due) > 0 {
		if e := d.due[0]; d.owned[e.key] != nil && d.owned[e.key].at == e.at {
			return time.Duration(e.at)
		}
		heap.Pop(&d.due)
	}
	return 0
}

// Tick does what is due: owners repeat recalls, and grant what was refilled.
func (d *Desk) Tick(now time.Duration) {
	for at := d.Due(); at != 0 && at <= now; at = d.Due() {
		k := d.owned[d.due[0].key]
		heap.Pop(&d.due)
		k.at = 0
		d.renew(now, k)
		k.o.Tick(int64(now), outbox{d, k.key})
		d.schedule(k)
		if k.at != 0 && k.at <= int64(now) { // it is due again at once: the next time
			return
		}
	}
}

// schedule puts a key into the agenda.
func (d *Desk) schedule(k *owned) {
	at := k.o.Due()
	if at == k.at {
		return
	}
	if k.at = at; at != 0 {
		heap.Push(&d.due, appointment{at, k.key})
	}
}

// Take returns what is to be sent, and forgets it: answers to gateways here by process, and
// packets to other agents.
func (d *Desk) Take() (answers map[uint64]*exchange.TokenAnswers, packets map[string][]*gossipv1.Tokens) {
	if len(d.answers) > 0 {
		answers, d.answers = d.answers, map[uint64]*exchange.TokenAnswers{}
	}
	if len(d.packets) > 0 {
		packets = map[string][]*gossipv1.Tokens{}
		for to, m := range d.packets {
			packets[to] = split(m)
		}
		d.packets = map[string]*gossipv1.Tokens{}
	}
	return answers, packets
}

// Stats returns the counters.
func (d *Desk) Stats() Stats {
	s := d.stats
	s.Keys = len(d.owned)
	return s
}

// split cuts what one agent is sent into packets.
func split(m *gossipv1.Tokens) (out []*gossipv1.Tokens) {
	room := 0
	part := func(n int) *gossipv1.Tokens {
		if room -= n + 3; room < 0 {
			out = append(out, &gossipv1.Tokens{})
			room = maxPacket - n - 3
		}
		return out[len(out)-1]
	}
	for _, x := range m.Requests {
		p := part(proto.Size(x))
		p.Requests = append(p.Requests, x)
	}
	for _, x := range m.Grants {
		p := part(proto.Size(x))
		p.Grants = append(p.Grants, x)
	}
	for _, x := range m.Recalls {
		p := part(proto.Size(x))
		p.Recalls = append(p.Recalls, x)
	}
	for _, x := range m.Lost {
		p := part(8)
		p.Lost = append(p.Lost, x)
	}
	return out
}

// agenda is when owners have something to do, the earliest first.
type agenda []appointment

type appointment struct {
	at  int64
	key uint64
}

// Len, Less, Swap, Push and Pop are of heap.Interface.
func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(appointment)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
