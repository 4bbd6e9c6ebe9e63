package quotas

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
	"github.com/titrate/titrate/services/agent/owners"
)

const (
	// MaxKeys is the most keys that an agent owns. A limit and a tenant have a part of them, see package budget.
	MaxKeys = 1 << 17
	// keepIdle is the time for which an owner without gateways is kept.
	keepIdle = time.Minute
	// awayFor is the time for which gateways may say what they have used to an owner that another agent has replaced.
	awayFor = 3 * time.Second
)

// Options of a Desk.
type Options struct {
	Agent string
	Life  uint64                  // of this process; differs with each start
	Owner func(key uint64) string // the agent that owns a key
	// Limit returns the hash of a named key, and what the configuration in force here gives it; not ok: it has no such
	// limit. Revision distinguishes one configuration from another.
	Limit    func(*exchange.KeyName) (key uint64, t calendar.Terms, periods config.Calendar, ok bool)
	Reset    func(*exchange.KeyName) config.Instant // when that configuration has reset a key; nil: never
	Revision func() int64
}

// Desk is one agent's. Not safe for concurrent use.
type Desk struct {
	o       Options
	now     time.Duration
	keys    map[uint64]*key
	room    *budget.Room // of keys
	due     slots.Agenda
	clients map[owners.Process]*client
	numbers map[calendar.Peer]*client
	latest  calendar.Peer

	lives   map[uint64]string // agents by the lives that gateways here know
	names   map[string]uint64
	session uint64
	alone   bool
	periods map[config.Calendar]*period
	closing closings

	answers  owners.Answers[exchange.QuotaReplies]
	packets  map[string]*Packet
	bookings []Booking
	stats    Stats
}

// key is a key that this agent owns.
type key struct {
	hash     uint64
	o        *calendar.Owner
	name     exchange.KeyName
	part     budget.ID // of the room
	calendar config.Calendar
	reset    config.Instant // a key that is reset later is another one
	revision int64
	used     time.Duration // the latest message
	away     time.Duration // another agent owns the key: until then gateways say what they used; 0: none does
}

// Stats are counters since the start, but for Keys and Out, which are of now.
type Stats struct {
	Keys                            int
	Out                             float64 // cost that gateways have been granted in the periods of now
	Asks, Replies, Bookings, Booked uint64
	Dropped                         [owners.Drops]uint64
}

// New returns a desk that owns nothing.
func New(o Options) *Desk {
	return &Desk{o: o, keys: map[uint64]*key{}, room: budget.NewRoom(MaxKeys),
		session: exchange.OwnerScore(exchange.OwnerHash(o.Agent), o.Life),
		clients: map[owners.Process]*client{}, numbers: map[calendar.Peer]*client{}, lives: map[uint64]string{},
		names: map[string]uint64{}, periods: map[config.Calendar]*period{},
		closing: newClosings(), answers: owners.Answers[exchange.QuotaReplies]{}, packets: map[string]*Packet{}}
}

// nextSession returns a number that no session and no life of an owner has had.
func (d *Desk) nextSession() uint64 {
	d.session++
	return d.session
}

// Ask takes what a gateway here says.
func (d *Desk) Ask(now time.Duration, process uint64, m *exchange.QuotaAsks) {
	d.now = now
	owner, known := d.lives[m.Owner]
	switch {
	case !known:
		d.stats.Dropped[owners.Astray]++
	case owner == d.o.Agent:
		d.take(owners.Process{Agent: owner, Number: process}, m.List)
	default:
		p := d.packet(owner)
		p.Asks = append(p.Asks, Asks{process, m.List})
	}
}

// Receive takes what another agent says.
func (d *Desk) Receive(now time.Duration, agent string, m *Packet) {
	d.now = now
	for i := range m.Asks {
		d.take(owners.Process{Agent: agent, Number: m.Asks[i].Process}, m.Asks[i].List)
	}
	life, known := d.names[agent]
	for i := range m.Replies {
		t := &m.Replies[i]
		if !known {
			d.stats.Dropped[owners.Astray]++
			continue
		}
		a := d.answer(t.Process, life)
		for j := range t.List {
			if one := &t.List[j]; usable(&one.Reply) {
				a.List = append(a.List, *one)
			} else {
				d.stats.Dropped[owners.Unusable]++
			}
		}
	}
}

// take takes the messages of a process to the owners here.
func (d *Desk) take(from owners.Process, list []exchange.QuotaAsk) {
	peer, ok := d.client(from)
	if !ok {
		d.stats.Dropped[owners.Processes]++
		return
	}
	for i := range list {
		if why := d.ask(peer, &list[i]); why != owners.Accepted {
			d.stats.Dropped[why]++
		}
	}
}

func (d *Desk) ask(from calendar.Peer, a *exchange.QuotaAsk) owners.Drop {
	k := d.keys[a.Key]
	if k != nil && k.away != 0 && !a.Ended || k == nil && d.o.Owner(a.Key) != d.o.Agent {
		return owners.Astray
	}
	if !inRange(&a.Ask) {
		return owners.Unusable
	}
	if k == nil {
		var why owners.Drop
		if k, why = d.keyOf(from, a); k == nil {
			return why
		}
	}
	d.stats.Asks++
	d.renew(k)
	k.used = d.now
	k.o.Ask(int64(d.now), from, a.Ask, outbox{d, k})
	d.schedule(k)
	return owners.Accepted
}

// keyOf begins the key of a message that says whose key it is.
func (d *Desk) keyOf(from calendar.Peer, a *exchange.QuotaAsk) (*key, owners.Drop) {
	if !a.Named() { // the gateway begins another session, whose message names it
		d.reply(from, a.Key, calendar.Reply{Owner: a.Owner, Session: a.Session, Seen: a.Number, Begin: true})
		return nil, owners.Accepted
	}
	hash, terms, periods, ok := d.o.Limit(&a.KeyName)
	part := budget.Of(a.Tenant, a.Limit)
	switch {
	case !ok || hash != a.Key || a.Len() > exchange.MaxKeyName:
		d.reply(from, a.Key, calendar.Reply{Owner: d.o.Life, Session: a.Session, Number: a.Heard + 1, Seen: a.Number,
			Period: a.Period, Refuse: int64(time.Second)})
		return nil, owners.Unknown
	case !d.room.Fits(part):
		return nil, owners.Crowded
	}
	d.room.Take(part)
	k := &key{hash: a.Key, name: a.KeyName, part: part, revision: d.o.Revision(), calendar: periods,
		o: d.newOwner(terms)}
	if d.o.Reset != nil {
		k.reset = d.o.Reset(&a.KeyName)
	}
	d.keys[a.Key] = k
	d.setPeriod(k)
	return k, owners.Accepted
}

// newOwner returns an owner with a life of its own.
func (d *Desk) newOwner(t calendar.Terms) *calendar.Owner {
	o := calendar.NewOwner(t, d.nextSession(), d.nextSession())
	o.SetAlone(d.alone)
	return o
}

// renew gives a key the numbers of the configuration in force.
func (d *Desk) renew(k *key) {
	if k.revision == d.o.Revision() {
		return
	}
	k.revision = d.o.Revision()
	hash, terms, periods, ok := d.o.Limit(&k.name)
	switch {
	case !ok || hash != k.hash: // the client has been reset, and has another key
		terms = calendar.Terms{}
	case periods != k.calendar: // its periods have other numbers
		d.end(k)
		before := k.o
		k.calendar, k.o = periods, d.newOwner(terms)
		k.o.Replaces(before)
		d.setPeriod(k)
	}
	k.o.SetTerms(int64(d.now), terms, outbox{d, k})
}

// Configured notes that another configuration is in force.
func (d *Desk) Configured(now time.Duration) {
	d.now = now
	for _, k := range d.inOrder() {
		d.renew(k)
		d.schedule(k)
	}
}

func (d *Desk) inOrder() (all []*key) {
	for _, hash := range slices.Sorted(maps.Keys(d.keys)) {
		all = append(all, d.keys[hash])
	}
	return all
}

// Changed notes the agents among which keys have owners, by the lives that gateways here know. Owners of keys that
// another agent owns now end.
func (d *Desk) Changed(now time.Duration, lives map[uint64]string) {
	d.now = now
	d.lives, d.names = lives, map[string]uint64{}
	for life, name := range lives {
		d.names[name] = life
	}
	for p, c := range d.clients {
		if _, here := d.names[p.Agent]; !here {
			d.forgetClient(c)
		}
	}
	for _, k := range d.inOrder() {
		switch mine := d.o.Owner(k.hash) == d.o.Agent; {
		case !mine && k.away == 0:
			k.o.Leave(outbox{d, k})
			k.away = now + awayFor
			d.schedule(k)
		case mine && k.away != 0: // the key came back
			d.end(k)
			d.forget(k)
		}
	}
}

// SetAlone notes whether agents are not reached, which may own the same keys.
func (d *Desk) SetAlone(alone bool) {
	if alone == d.alone {
		return
	}
	d.alone = alone
	for _, k := range d.keys {
		k.o.SetAlone(alone)
	}
}

// end has an owner give back what it has.
func (d *Desk) end(k *key) { k.o.Close(outbox{d, k}) }

// Close ends all owners, because this agent ends.
func (d *Desk) Close(now time.Duration) {
	d.now = now
	for _, k := range d.inOrder() {
		d.end(k)
		d.forget(k)
	}
	d.sayEnds(maxClosing)
}

func (d *Desk) forget(k *key) {
	d.room.Free(k.part)
	d.due.Set(k.hash, 0)
	delete(d.keys, k.hash)
}

// schedule notes when there is something to do for a key.
func (d *Desk) schedule(k *key) {
	at := k.o.Due(int64(d.now))
	switch {
	case k.away != 0:
		at = int64(k.away)
	case at == 0:
		at = int64(k.used + keepIdle)
	}
	d.due.Set(k.hash, max(at, int64(d.now)+1))
}

// Due returns the time for the next Tick; 0: none.
func (d *Desk) Due() (due time.Duration) {
	at := d.due.Next()
	if next := d.closing.due.Next(); next != 0 {
		at = slots.Sooner(at, max(next, int64(d.now)))
	}
	if len(d.keys) > 0 {
		for _, p := range d.periods {
			at = slots.Sooner(at, int64(p.ends))
		}
	}
	return time.Duration(at)
}

// Tick does what is due.
func (d *Desk) Tick(now time.Duration) {
	d.now = now
	d.turn()
	for hash, ok := d.due.Take(int64(now)); ok; hash, ok = d.due.Take(int64(now)) {
		k := d.keys[hash]
		if k == nil {
			continue
		}
		k.o.Tick(int64(now), outbox{d, k})
		if k.away != 0 && now >= k.away || k.o.Idle() && now-k.used >= keepIdle {
			d.end(k)
			d.forget(k)
			continue
		}
		d.schedule(k)
	}
	d.sayEnds(maxBookings)
}

// Keys is the number of keys that this agent owns.
func (d *Desk) Keys() int { return len(d.keys) }

// Stats returns the counters.
func (d *Desk) Stats() Stats {
	s := d.stats
	s.Keys = len(d.keys)
	for _, k := range d.keys {
		s.Out += k.o.Out().Cost()
	}
	return s
}
