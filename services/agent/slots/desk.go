package slots

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
	"github.com/titrate/titrate/services/agent/owners"
)

const (
	// MaxKeys is the most keys that an agent owns. A limit and a tenant have a part of them, see package budget.
	MaxKeys = 1 << 16
	// mostSlots bounds the counts of a message.
	mostSlots = int64(1) << 40
)

// Options of a Desk.
type Options struct {
	Agent string
	Life  uint64                  // of this process; differs with each start
	Owner func(key uint64) string // the agent that owns a key
	// Limit returns the hash of a named key and its number of slots by the configuration in force here; not ok: it has
	// no such limit. Revision distinguishes one configuration from another.
	Limit    func(*exchange.KeyName) (key uint64, limit int64, ok bool)
	Revision func() int64
}

// Packet has the messages of one agent to another.
type Packet struct {
	Agents  uint64 // digest of the list of agents that the sender has
	Asks    []Asks
	Replies []Replies
	Ended   []uint64 // processes of the sender's gateways that have ended
}

// Asks are the messages of one gateway of the sender.
type Asks struct {
	Process uint64
	Sent    int64
	List    []exchange.SlotAsk
}

// Replies are the messages of the sender's owners to one gateway of the addressee.
type Replies struct {
	Process uint64
	Echo    int64
	List    []exchange.SlotReply
}

// Desk is one agent's. Not safe for concurrent use.
type Desk struct {
	o       Options
	now     time.Duration
	keys    map[uint64]*key
	room    *budget.Room // of keys
	due     slots.Agenda
	clients map[owners.Process]*client
	numbers map[slots.Peer]*client
	latest  slots.Peer
	peers   slots.Peers

	lives   map[uint64]string // agents by the lives that gateways here know
	names   map[string]uint64
	digest  uint64
	owners  exchange.Owners   // the agents of now
	earlier []exchange.Owners // the agents before, since owners were settled
	// After the agents have changed, the owner of a key that is new here grants nothing until then, or until all
	// gateways have registered. But gateways of an agent that has gone do not register, and start requests for a while.
	listen  time.Duration
	gone    time.Duration // that while is over
	came    bool          // an agent has come: what gateways have of keys that it owned is not known
	settled bool          // the time has passed

	reached, all int64 // agents that are reached of all, see SetPart

	answers owners.Answers[exchange.SlotReplies]
	packets map[string]*Packet
	stats   Stats
}

// key is a key that this agent owns.
type key struct {
	hash     uint64
	o        *slots.Owner
	name     exchange.KeyName
	part     budget.ID // of the room
	revision int64
	away     bool // another agent owns the key now
}

// Stats are counters since the start, but for Keys and Out, which are of now.
type Stats struct {
	Keys, Out     int
	Asks, Replies uint64
	Expired       uint64 // gateways whose leases have run out
	Dropped       [owners.Drops]uint64
}

// New returns a desk that owns nothing.
func New(o Options) *Desk {
	return &Desk{o: o, reached: 1, all: 1, keys: map[uint64]*key{}, room: budget.NewRoom(MaxKeys),
		clients: map[owners.Process]*client{}, numbers: map[slots.Peer]*client{}, lives: map[uint64]string{},
		names: map[string]uint64{}, answers: owners.Answers[exchange.SlotReplies]{},
		packets: map[string]*Packet{}}
}

// Ask takes what a gateway here says.
func (d *Desk) Ask(now time.Duration, process uint64, m *exchange.SlotAsks) {
	d.now = now
	owner, known := d.lives[m.Owner]
	switch {
	case !known:
		d.stats.Dropped[owners.Astray]++
	case owner == d.o.Agent:
		d.take(owners.Process{Agent: owner, Number: process}, d.digest, &Asks{process, m.Sent, m.List})
	default:
		p := d.packet(owner)
		p.Asks = append(p.Asks, Asks{process, m.Sent, m.List})
	}
}

// Receive takes what another agent says.
func (d *Desk) Receive(now time.Duration, agent string, m *Packet) {
	d.now = now
	for _, p := range m.Ended {
		d.ended(owners.Process{Agent: agent, Number: p})
	}
	for i := range m.Asks {
		d.take(owners.Process{Agent: agent, Number: m.Asks[i].Process}, m.Agents, &m.Asks[i])
	}
	life, known := d.names[agent]
	for i := range m.Replies {
		t := &m.Replies[i]
		if !known || m.Agents != d.digest { // its list of agents is another one: the lease is not renewed
			d.stats.Dropped[owners.Astray]++
			continue
		}
		a := d.answer(t.Process, life)
		a.Echo = max(a.Echo, t.Echo)
		for j := range t.List {
			if one := &t.List[j]; one.Granted < 0 || one.Granted > mostSlots || one.Short < 0 || one.Keep < -1 {
				d.stats.Dropped[owners.Unusable]++
			} else {
				a.List = append(a.List, *one)
			}
		}
	}
}

func (d *Desk) packet(to string) *Packet {
	p := d.packets[to]
	if p == nil {
		p = &Packet{Agents: d.digest}
		d.packets[to] = p
	}
	return p
}

func (d *Desk) answer(process, life uint64) *exchange.SlotReplies {
	return d.answers.At(process, life, func() *exchange.SlotReplies { return &exchange.SlotReplies{Owner: life} })
}

// take takes the messages of a process to the owners here.
func (d *Desk) take(from owners.Process, agents uint64, m *Asks) {
	d.expire()
	c := d.client(from)
	if c == nil {
		d.stats.Dropped[owners.Processes]++
		return
	}
	d.peers.Heard(int64(d.now), c.number)
	if agents == d.digest {
		c.echo, c.owed = max(c.echo, m.Sent), true
	}
	for i := range m.List {
		if why := d.ask(c, &m.List[i]); why != owners.Accepted {
			d.stats.Dropped[why]++
		}
	}
}

func (d *Desk) ask(c *client, a *exchange.SlotAsk) owners.Drop {
	if d.o.Owner(a.Key) != d.o.Agent {
		return owners.Astray
	}
	if !inRange(&a.Ask) {
		return owners.Unusable
	}
	k, why := d.keyOf(a)
	if k == nil {
		if a.Brought == 0 && a.Received == a.Returned && !a.Released {
			d.refuse(c, a)
		}
		return why
	}
	d.stats.Asks++
	d.renew(k)
	k.o.Ask(int64(d.now), c.number, a.Ask, outbox{d, k})
	if d.keys[k.hash] == k {
		d.schedule(k)
	}
	return owners.Accepted
}

// refuse says no to a gateway that has no slot of a key that is unknown here. A gateway with slots is not answered: it
// registers until there is an owner to count them.
func (d *Desk) refuse(c *client, a *exchange.SlotAsk) {
	c.owed = true
	c.replies = append(c.replies, exchange.SlotReply{Key: a.Key, Reply: slots.Reply{Owner: d.o.Life, Session: a.Session,
		Number: a.Heard + 1, Seen: a.Number, Short: int64(time.Second), Keep: -1, Full: true}})
}

// schedule notes when there is something to do for a key. A key that no gateway uses is forgotten then.
func (d *Desk) schedule(k *key) {
	at := k.o.Due()
	if k.o.Idle() {
		at = int64(d.now)
	}
	switch {
	case k.away:
		at = 0
	case at != 0:
		at = max(at, int64(d.now)+1)
	}
	d.due.Set(k.hash, at)
}

// inRange reports whether the numbers of a message can be those of a correct gateway.
func inRange(a *slots.Ask) bool {
	for _, n := range []int64{a.Brought, a.Received, a.Want} {
		if n < 0 || n > mostSlots {
			return false
		}
	}
	return a.Returned >= 0 && a.Patience >= 0 && a.Rate >= 0 && a.Stay >= 0
}

// keyOf returns the key of a message, which begins it if it says whose key it is.
func (d *Desk) keyOf(a *exchange.SlotAsk) (*key, owners.Drop) {
	if k := d.keys[a.Key]; k != nil {
		return k, owners.Accepted
	}
	if !a.Named() { // a gateway that has something registers it when it has received this
		begin := &key{hash: a.Key, o: slots.NewOwner(0, d.o.Life, 0)}
		return begin, owners.Accepted
	}
	hash, limit, ok := d.o.Limit(&a.KeyName)
	part := budget.Of(a.Tenant, a.Limit)
	switch {
	case !ok || hash != a.Key || a.Len() > exchange.MaxKeyName:
		return nil, owners.Unknown
	case !d.room.Fits(part):
		return nil, owners.Crowded
	}
	d.room.Take(part)
	k := &key{hash: a.Key, name: a.KeyName, part: part, revision: d.o.Revision(),
		o: slots.NewOwner(d.part(limit), d.o.Life, d.listenUntil(a.Key))}
	d.keys[a.Key] = k
	return k, owners.Accepted
}

func (d *Desk) forget(k *key) {
	d.room.Free(k.part)
	delete(d.keys, k.hash)
}

// renew gives a key the number of slots of the configuration in force.
func (d *Desk) renew(k *key) {
	if k.name.Limit == "" || k.revision == d.o.Revision() {
		return
	}
	k.revision = d.o.Revision()
	_, limit, ok := d.o.Limit(&k.name)
	if !ok {
		limit = 0
	}
	k.o.SetLimit(int64(d.now), d.part(limit), outbox{d, k})
}

// Configured notes that another configuration is in force: slots above a lowered limit are asked for.
func (d *Desk) Configured(now time.Duration) {
	d.now = now
	for _, hash := range slices.Sorted(maps.Keys(d.keys)) {
		k := d.keys[hash]
		d.renew(k)
		d.schedule(k)
	}
}

// outbox sends the messages of a key's owner.
type outbox struct {
	d *Desk
	k *key
}

// Reply sends one of them.
func (o outbox) Reply(to slots.Peer, m slots.Reply) {
	if c := o.d.numbers[to]; c != nil {
		o.d.stats.Replies++
		c.owed = true
		c.replies = append(c.replies, exchange.SlotReply{Key: o.k.hash, Reply: m})
	}
}

// Due returns the time for the next Tick; 0: none.
func (d *Desk) Due() (due time.Duration) {
	due = time.Duration(d.due.Next())
	if len(d.clients) > 0 && (due == 0 || due > d.now+margin) {
		due = d.now + margin
	}
	return due
}

// Tick does what is due.
func (d *Desk) Tick(now time.Duration) {
	d.now = now
	d.expire()
	if !d.settled && now >= d.listen { // who has not registered has been unreachable for long enough
		d.Settled(now)
	}
	for hash, ok := d.due.Take(int64(now)); ok; hash, ok = d.due.Take(int64(now)) {
		k := d.keys[hash]
		switch {
		case k == nil:
		case k.o.Idle():
			d.forget(k)
		default:
			k.o.Tick(int64(now), outbox{d, k})
			d.schedule(k)
		}
	}
}

// Take returns what is to be sent, and forgets it: to gateways here by process, and to other agents.
func (d *Desk) Take() (answers map[uint64][]*exchange.SlotReplies, packets map[string]*Packet) {
	for _, n := range slices.Sorted(maps.Keys(d.numbers)) {
		c := d.numbers[n]
		if !c.owed {
			continue
		}
		if c.Agent == d.o.Agent {
			a := d.answer(c.Number, d.names[d.o.Agent])
			a.Echo = c.echo
			a.List = append(a.List, c.replies...)
		} else {
			p := d.packet(c.Agent)
			p.Replies = append(p.Replies, Replies{c.Number, c.echo, c.replies})
		}
		c.owed, c.replies = false, nil
	}
	answers, packets, d.packets = d.answers.Take(), d.packets, map[string]*Packet{}
	return answers, packets
}

// Keys is the number of keys that this agent owns.
func (d *Desk) Keys() int { return len(d.keys) }

// Stats returns the counters.
func (d *Desk) Stats() Stats {
	s := d.stats
	s.Keys = len(d.keys)
	for _, k := range d.keys {
		s.Out += int(k.o.Out())
	}
	return s
}
