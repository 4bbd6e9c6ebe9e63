package slots

import "slices"

// Owner has the free slots of a key and knows how many slots each gateway has. See the package comment.
type Owner struct {
	limit  int64
	life   uint64
	users  []user
	out    int64 // slots that gateways have
	listen int64 // grants nothing before
	orders uint64
	stay   int64 // nanoseconds for which a request is in flight, as last reported
}

// user is one process of a gateway.
type user struct {
	peer    Peer
	session uint64

	brought, granted, returned int64

	number uint32 // of the latest Ask
	at     int64  // when it came
	told   uint32 // of the latest Reply
	heard  uint32 // of the latest Reply that it has received
	seen   int64  // Received, of the latest Ask
	sentAt int64  // when it was last sent a Reply

	want  int64 // requests that wait
	until int64 // end of the question
	order uint64
	fresh bool  // the question is not answered yet
	dry   int64 // since when it waits and has no slot; 0: it does not

	short    int64  // the gateway returns idle slots until then
	recall   uint32 // Reply that asked for idle slots
	recallAt int64
	awaited  bool  // the owner says no to others only when this gateway has answered, or recallFor has passed
	full     int64 // the gateway refuses until then
	keep     int64 // see Reply
	keepTill int64

	rate    int64
	confirm int64 // an Ask is to be confirmed by then; 0: none is
}

// NewOwner returns the owner of a key with so many slots. life must differ from that of every earlier owner of the
// key. It grants nothing before listen, unless Listened comes first.
func NewOwner(limit int64, life uint64, listen int64) *Owner {
	return &Owner{limit: limit, life: life, listen: listen}
}

// SetLimit changes the number of slots. No request ends early.
func (o *Owner) SetLimit(now, limit int64, out Outbox) {
	o.limit = limit
	o.serve(now, out)
}

// held returns how many slots a gateway has, as far as is known: never less than it has.
func (u *user) held() int64 { return u.brought + u.granted - u.returned }

// Out returns how many slots gateways have, as far as is known.
func (o *Owner) Out() int64 { return o.out }

// Free returns how many slots can be granted.
func (o *Owner) Free() int64 { return max(0, o.limit-o.out) }

// Holders returns how many gateways have slots.
func (o *Owner) Holders() (n int) {
	for i := range o.users {
		if o.users[i].held() > 0 {
			n++
		}
	}
	return n
}

// Ask takes in a message of a gateway.
func (o *Owner) Ask(now int64, from Peer, a Ask, out Outbox) {
	if a.Owner != o.life && (a.Owner != 0 || !a.Register) {
		if !a.Released {
			out.Reply(from, Reply{Owner: a.Owner, Session: a.Session, Begin: true})
		}
		return
	}
	u := o.find(from, a, out)
	if u == nil || a.Number <= u.number {
		return
	}
	u.number, u.at = a.Number, now
	o.takeBack(u, a.Returned)
	u.heard, u.seen = max(u.heard, a.Heard), max(u.seen, a.Received)
	u.rate = max(0, a.Rate)
	if a.Stay > 0 {
		o.stay = a.Stay
	}
	if a.Released && u.held() == 0 {
		o.remove(from)
		o.serve(now, out)
		return
	}
	o.note(now, u, a)
	if u.confirm == 0 && a.Confirm {
		u.confirm = now + confirmWithin
		if a.Register {
			u.confirm = now
		}
	}
	o.serve(now, out)
}

// note takes in the question of a message. Requests for which slots are on their way wait no more.
func (o *Owner) note(now int64, u *user, a Ask) {
	was := u.want
	u.want = max(0, min(a.Want, o.limit)-(u.granted-u.seen))
	u.until = now + min(max(0, a.Patience), patienceMost)
	if u.want == 0 || u.held() > 0 {
		u.dry = 0
	} else if u.dry == 0 {
		u.dry = now
	}
	if u.want > 0 {
		u.fresh = true
		if was == 0 {
			o.orders++
			u.order = o.orders
		}
	}
}

// starves reports whether a gateway has waited for long and has had no slot meanwhile.
func (u *user) starves(now int64) bool {
	return u.want > 0 && now < u.until && u.dry != 0 && now-u.dry >= starveFor
}

// find returns the user of a message, made new if the message registers a session; nil: the message is not for the
// user's present session.
func (o *Owner) find(from Peer, a Ask, out Outbox) *user {
	i := slices.IndexFunc(o.users, func(u user) bool { return u.peer == from })
	if i >= 0 && o.users[i].session == a.Session {
		return &o.users[i]
	}
	if i >= 0 && o.users[i].session > a.Session {
		return nil
	}
	if a.Released {
		return nil
	}
	if !a.Register {
		out.Reply(from, Reply{Owner: o.life, Session: a.Session, Begin: true})
		return nil
	}
	if i < 0 {
		o.users = append(o.users, user{})
		i = len(o.users) - 1
	}
	u := &o.users[i]
	o.out -= u.held() // of the process's earlier session: what it still has, it brings
	*u = user{peer: from, session: a.Session, brought: max(0, a.Brought), keep: -1, order: u.order}
	o.out += u.brought
	return u
}

// takeBack notes how many slots a gateway has returned in its session.
func (o *Owner) takeBack(u *user, returned int64) {
	n := min(max(0, returned-u.returned), u.held())
	u.returned += n
	o.out -= n
}

// End ends the session of a gateway: its process has ended, or its lease has run out.
func (o *Owner) End(now int64, p Peer, out Outbox) {
	if o.remove(p) {
		o.serve(now, out)
	}
}

func (o *Owner) remove(p Peer) bool {
	i := slices.IndexFunc(o.users, func(u user) bool { return u.peer == p })
	if i < 0 {
		return false
	}
	o.out -= o.users[i].held()
	o.users = slices.Delete(o.users, i, i+1)
	return true
}

// restsAt returns when a gateway that has no slot and does not wait is forgotten; 0: not at all. Its last message said
// that it has forgotten the key, and was lost. A gateway that has not must begin another session.
func (u *user) restsAt() int64 {
	if u.held() != 0 {
		return 0
	}
	return max(u.at+ExpireAfter, u.until)
}

// Listened notes that all gateways have registered what they have, or are unreachable for ExpireAfter.
func (o *Owner) Listened(now int64, out Outbox) {
	o.listen = min(o.listen, now)
	o.serve(now, out)
}

// Suspend makes the owner grant nothing: another agent owns the key.
func (o *Owner) Suspend() { o.listen = 1<<63 - 1 }

// Resume ends Suspend: the owner grants nothing before listen, unless Listened comes first.
func (o *Owner) Resume(listen int64) { o.listen = listen }

// Peers calls f with each gateway that the owner knows.
func (o *Owner) Peers(f func(Peer)) {
	for i := range o.users {
		f(o.users[i].peer)
	}
}

// Idle reports whether no gateway is known.
func (o *Owner) Idle() bool { return len(o.users) == 0 }
