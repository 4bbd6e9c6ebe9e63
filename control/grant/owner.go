package grant

import "slices"

// Owner has the one bucket of a key and knows who uses it. See the package comment.
type Owner struct {
	w       Params // of the limit
	p       Params // of the bucket here: without the parts that gateways have
	life    uint64
	b       bucket
	users   []user
	listen  int64 // grants nothing before
	told    bool  // a gateway has brought D from an earlier owner
	wake    int64 // a waiting user's token is due then; 0: none
	asks    uint64
	turn    int64 // when the next turn of refusing gateways begins
	taken   int   // gateways that have been given this turn
	lowered int64 // when the limit was lowered, see forgive; 0: it was not, or all is reported
	faded   int64 // bucket.refilled up to which the refill is off user.claimed
	abroad  abroad
	parts   ownedParts
}

// Bounds of what an owner keeps of a gateway that has gone quiet.
const (
	turnSize = 4           // gateways that may ask again at the same time
	idleUser = 60 * second // a user with nothing out is forgotten after so long
)

// NewOwner returns the owner of an idle key with a full bucket. life must differ from
// that of every earlier owner of the key and is not 0.
func NewOwner(p Params, life uint64, now int64) *Owner {
	o := &Owner{w: p.withDefaults(), life: life, listen: now + p.Listen}
	o.p, o.parts.lease, o.parts.used = o.w, o.w.lease(), now
	o.b.at = now
	if p.Strict && p.Listen > 0 {
		o.b.spent = o.p.Burst
	}
	if p.Listen <= 0 {
		o.b.fill(0, memory) // no gateway has used the key recently
	}
	return o
}

// Configure puts another rate or burst in force, and carries over what is spent (bucket.carry). What
// gateways have spent of the larger bucket and report later is bounded by forgive. The times that they
// were given to come back count no more.
func (o *Owner) Configure(p Params, now int64) {
	o.advance(now)
	was := o.w
	if o.w = p.withDefaults(); o.w.allowsAs(was) {
		o.p.Strict = o.w.Strict
		return
	}
	from := o.p.Burst
	o.p = o.w
	o.resize()
	o.b.carry(from, o.p.Burst)
	o.beginPast()
	lower := o.w.Burst < was.Burst || o.w.Rate < was.Rate
	if lower {
		o.lowered = max(now, 1)
	}
	o.turn, o.taken = 0, 0
	for i := range o.users {
		u := &o.users[i]
		u.visits.early, u.visits.until, u.visits.fair = 0, 0, 0
		u.untold = u.untold || lower && (u.exclusive || u.out() > 0)
	}
}

// settling is the time after a limit was lowered in which gateways may spend by the earlier numbers:
// they do not all have the change at once.
const settling = 2 * second

// forgive limits the debt to an empty bucket, besides the tokens that gateways have, until all gateways
// have reported what they had spent when the limit was lowered.
func (o *Owner) forgive(now int64) {
	if o.lowered == 0 {
		return
	}
	o.b.spent = min(o.b.spent, o.b.out+o.w.Burst)
	untold := func(u user) bool { return u.untold }
	if now-o.lowered >= settling && !slices.ContainsFunc(o.users, untold) {
		o.lowered = 0
	}
}

// Request takes in a message from a gateway.
func (o *Owner) Request(now int64, from Peer, q Request, out Outbox) {
	o.advance(now)
	i, known := o.find(from, q.Session)
	if i < 0 {
		return // of an earlier life
	}
	u := &o.users[i]
	if q.Owner != o.life && q.Owner != 0 {
		o.introduce(u, out)
		return
	}
	if !known && q.Owner == o.life && !q.Register {
		out.Grant(u.peer, Grant{Owner: o.life, Session: u.session, Begin: true}) // the counts say nothing here
		o.users = append(o.users[:i], o.users[i+1:]...)
		return
	}
	if known && int32(q.Number-u.number) <= 0 {
		return // older than the known state
	}
	u.number, u.heard = q.Number, now
	o.doubt(now)
	if q.Register && !known {
		o.register(u, q)
	}
	if !q.Forgotten {
		o.count(now, u, q)
	}
	o.answered(u, q)
	if q.Released {
		o.release(u, q)
	}
	u.untold = u.untold && now-o.lowered < settling
	o.parts.used = now
	o.ask(u, q, out)
	o.serve(now, out)
}

func (o *Owner) granting() bool { return o.b.at >= o.listen }

// Lost ends a gateway's session: what was out counts as spent. A bucket that it had alone
// counts as empty in STRICT, else as full as when it was granted, and refilled since.
func (o *Owner) Lost(now int64, p Peer, out Outbox) {
	o.advance(now)
	for i := range o.users {
		if o.users[i].peer == p {
			o.lose(&o.users[i])
			o.users = append(o.users[:i], o.users[i+1:]...)
			break
		}
	}
	o.serve(now, out)
}

func (o *Owner) lose(u *user) {
	o.b.out -= u.out()
	if u.exclusive && o.p.Strict {
		o.b.spent = max(o.b.spent, o.p.Burst)
	}
}

// Due returns when Tick has something to do; 0: nothing.
func (o *Owner) Due() int64 {
	due := o.wake
	if at := o.partsDue(); at != 0 && (due == 0 || at < due) {
		due = at
	}
	for i := range o.users {
		if at := o.patience(&o.users[i]); at != 0 && (due == 0 || at < due) {
			due = at
		}
		if o.users[i].ask.waiting && !o.granting() && (due == 0 || o.listen < due) {
			due = o.listen
		}
	}
	return due
}

// Tick grants what has been refilled.
func (o *Owner) Tick(now int64, out Outbox) {
	o.advance(now)
	o.doubt(now)
	o.serve(now, out)
}

// Listened notes that all gateways have registered what they know: the owner need not listen longer.
func (o *Owner) Listened(now int64, out Outbox) {
	o.listen = min(o.listen, now)
	o.Tick(now, out)
}

// ListenUntil has an owner that listens do so for longer.
func (o *Owner) ListenUntil(at int64) { o.listen = max(o.listen, at) }

// Suspend makes the owner grant nothing until Resume: another agent owns the key.
func (o *Owner) Suspend() { o.listen = forever }

// Resume ends Suspend: no other agent owns the key any more. The owner first listens for so long to what
// gateways know of that time. Time without an owner does not count against gateways with an open recall.
func (o *Owner) Resume(now, listen int64, out Outbox) {
	o.advance(now)
	o.listen, o.told = now+listen, false
	if o.p.Strict && listen > 0 {
		o.b.spent = max(o.b.spent, o.p.Burst)
	}
	for i := range o.users {
		if u := &o.users[i]; u.recall.awaited() {
			u.recall.at = now
			out.Recall(u.peer, o.recallOf(u))
		}
	}
}

// Stood notes that the process of the owner stood still for d until now: it has not read yet what gateways
// have sent meanwhile. What would end in that time ends so much later.
func (o *Owner) Stood(now, d int64) {
	later := func(at int64) int64 {
		if at > now-d {
			return at + d
		}
		return at
	}
	o.listen = later(o.listen)
	for i := range o.users {
		u := &o.users[i]
		if at := o.patience(u); at != 0 {
			u.recall.at += later(at) - at
		}
	}
}

// Recalling returns the recall that a gateway has not answered, as it is to be sent now; not ok:
// there is none.
func (o *Owner) Recalling(p Peer) (r Recall, ok bool) {
	for i := range o.users {
		if u := &o.users[i]; u.peer == p && u.recall.open() {
			return o.recallOf(u), true
		}
	}
	return Recall{}, false
}

// Peers calls f with each gateway that the owner knows, or has called the part of.
func (o *Owner) Peers(f func(Peer)) {
	for i := range o.parts.list {
		f(o.parts.list[i].peer)
	}
	for i := range o.users {
		f(o.users[i].peer)
	}
}

// Idle reports whether the owner knows nothing that a new one would not, and nobody has used the key for
// long: it may go.
func (o *Owner) Idle(now int64) bool {
	return o.Whole(now) && !slices.ContainsFunc(o.users, func(u user) bool { return now-u.heard < idleUser })
}

// Whole reports whether nobody has any of the bucket, which is full. If it goes, a gateway that uses the
// key now has to register with the next owner.
func (o *Owner) Whole(now int64) bool {
	o.advance(now)
	called := func(v part) bool { return v.until != 0 }
	return o.b.spent == 0 && !o.inUse() && !slices.ContainsFunc(o.parts.list, called)
}

// Level returns D, with what is granted and not spent.
func (o *Owner) Level(now int64) int64 {
	o.advance(now)
	return o.b.spent
}

// Out returns what is granted and not spent, as far as was reported.
func (o *Owner) Out() int64 { return o.b.out }
