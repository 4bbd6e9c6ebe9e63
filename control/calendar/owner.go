package calendar

// Outbox takes what an owner sends. It may not call the owner.
type Outbox interface {
	Reply(to Peer, m Reply)
	Book(w Want)
}

// Terms come from the configuration of a key.
type Terms struct {
	Amount Units
	Open   bool // see rule 6
}

// Owner has the units of a key that are not granted, and knows what each gateway has. See the package comment.
type Owner struct {
	life  uint64
	since uint64 // owners of this key with lives from it up to life had another calendar; life: none had
	terms Terms
	alone bool // another agent may own the key, too: it does not reach all agents
	now   account
	past  account // of the period before, until its gateways have said what they used
	ends  int64   // when the period ends; 0: not known
	left  bool    // see Leave

	rate  meter
	burst burst

	order uint64
}

// NewOwner returns the owner of a key. life must differ from that of every earlier owner of the key, and session from
// that of every other account of any owner.
func NewOwner(t Terms, life, session uint64) *Owner {
	return &Owner{life: life, since: life, terms: t, now: account{ask: question{session: session}}}
}

// Replaces notes that an owner was of the same key with another calendar: what gateways know of it does not count here.
// The life of the owner before must be the lower one.
func (o *Owner) Replaces(before *Owner) { o.since = before.since }

// SetTerms changes the amount. What gateways have beyond a lower one is asked for.
func (o *Owner) SetTerms(now int64, t Terms, out Outbox) {
	if o.terms == t {
		return
	}
	lower := t.Amount < o.terms.Amount
	o.terms = t
	if lower {
		o.recall(now, out)
	}
	o.now.ask.usedUp, o.now.ask.unknown, o.now.ask.againAt = 0, 0, now
	for i := range o.now.users {
		o.now.users[i].fresh = o.now.users[i].fresh || now < o.now.users[i].no
	}
	o.serve(now, out)
}

// SetAlone notes whether all other agents are reached: see rule 6.
func (o *Owner) SetAlone(alone bool) { o.alone = alone }

// SetPeriod notes which period it is, and until when as far as is known. session is for a new account.
func (o *Owner) SetPeriod(now, number, ends int64, session uint64, out Outbox) {
	switch {
	case number < o.now.period:
		return
	case number == o.now.period:
		o.ends = ends
		return
	case o.now.period == 0:
		o.now.period, o.ends = number, ends
		o.serve(now, out)
		return
	}
	if o.past.period != 0 || o.past.hasUse() {
		o.finish(&o.past, out)
	}
	o.past, o.now = o.now, account{period: number,
		ask: question{session: session, known: number == o.now.period+1}}
	o.ends = ends
	for i := range o.past.users { // they learn of it, and ask for what waits
		u := &o.past.users[i]
		u.replied++
		out.Reply(u.peer, Reply{Owner: o.life, Session: u.session, Number: u.replied, Seen: u.number, Period: number,
			Left: o.leftOf(now), Amount: o.terms.Amount, Remaining: o.terms.Amount})
	}
}

// leftOf returns the time that is left of the period, 0 if it is not known.
func (o *Owner) leftOf(now int64) int64 {
	if o.ends == 0 {
		return 0
	}
	return max(1, o.ends-now)
}

// byOwnCount reports whether the owner may grant beyond its intervals.
func (o *Owner) byOwnCount(now int64) bool {
	a := &o.now
	return o.terms.Open && !o.alone && !o.left && !a.ask.hasNone(now) &&
		(a.ask.away || a.ask.wanted > 0 && (now < a.ask.slow || now-a.ask.firstAt >= a.slowAfter()))
}

// free returns the units of intervals that can be granted.
func (o *Owner) free() Units {
	a := &o.now
	return a.bookings.length - a.out - max(0, a.high-o.terms.Amount)
}

// spare returns what can be granted.
func (o *Owner) spare(now int64) Units {
	n := o.free()
	if o.byOwnCount(now) {
		n += max(0, o.terms.Amount-o.now.end())
	}
	return n
}

// remaining returns what may still be used in the period, by all gateways.
func (o *Owner) remaining() Units {
	a := &o.now
	n := o.terms.Amount - a.end() + a.bookings.length - a.out
	for i := range a.users {
		n += a.users[i].hasNow()
	}
	return max(0, min(n, o.terms.Amount))
}

// Ask takes in a message of a gateway.
func (o *Owner) Ask(now int64, from Peer, m Ask, out Outbox) {
	a := o.accountOf(m)
	begin := Reply{Owner: m.Owner, Session: m.Session, Seen: m.Number, Begin: true}
	replaced := o.since <= m.Owner && m.Owner < o.life
	switch {
	case !replaced && o.isAhead(m.Period):
		return // this agent learns the period soon, and the gateway repeats
	case a == nil || replaced:
		begin.Recall = true
		fallthrough
	case m.Owner != o.life && m.Owner != 0:
		out.Reply(from, begin)
		return
	}
	u := a.find(from, m.Session)
	if u == nil {
		if m.Heard != 0 {
			out.Reply(from, begin)
			return
		}
		u = a.add(from, m.Session)
		u.brought = min(max(0, m.Brought), o.terms.Amount)
	}
	if m.Number <= u.number {
		if u.ended { // the confirmation may be lost
			out.Reply(from, begin)
		}
		return
	}
	o.note(now, a, u, m)
	if a != &o.now {
		out.Reply(from, o.replyBefore(now, u, m))
		return
	}
	if m.Period != 0 {
		o.learn(m)
	}
	o.serve(now, out)
}

// learn takes in what a gateway knows of other owners' grants.
func (o *Owner) learn(m Ask) {
	a := &o.now
	if m.Unbooked > 0 && m.Granter != o.life {
		a.out += a.bookings.exclude(interval{max(0, m.Known-m.Unbooked), m.Known})
	}
	if m.Known > a.said {
		a.others = max(a.others, min(m.Known, o.terms.Amount))
		a.high = max(a.high, a.others)
	}
}

// isAhead reports whether a period is the next for this agent.
func (o *Owner) isAhead(period int64) bool {
	return period != 0 && (o.now.period == 0 || period == o.now.period+1)
}

// replyBefore answers a gateway that speaks of the period before: the present one has begun.
func (o *Owner) replyBefore(now int64, u *user, m Ask) Reply {
	u.replied++
	r := Reply{Owner: o.life, Session: m.Session, Number: u.replied, Seen: m.Number, Period: o.now.period,
		Left: o.leftOf(now), Amount: o.terms.Amount, Remaining: o.remaining()}
	if m.Ended { // it only asks whether this came
		r.Period = m.Period
	}
	return r
}

// accountOf returns the account of a message; nil: there is none.
func (o *Owner) accountOf(m Ask) *account {
	switch m.Period {
	case 0, o.now.period:
		return &o.now
	case o.past.period:
		return &o.past
	}
	return nil
}

// note takes in the counts and the question of a message.
func (o *Owner) note(now int64, a *account, u *user, m Ask) {
	if m.Returned == MaxUnits { // see Unknown: only what had not come to it
		m.Returned = u.returned + max(0, u.granted-u.received)
	}
	u.number, u.at, u.has, u.received = m.Number, now, min(m.Has, o.terms.Amount), m.Received
	if n := min(m.Returned-u.returned, u.brought+u.granted-u.returned); n > 0 {
		u.returned += n
		a.out -= n
	}
	if m.Use != (Use{}) || !m.Ended {
		used := m.Admitted - u.use.Admitted
		if m.Use != u.use && a.reportAt == 0 {
			a.reportAt = now + reportEvery
		}
		u.use = m.Use
		if a == &o.now && used > 0 {
			o.rate.add(now, used)
		}
	}
	if u.asked != 0 && m.Heard >= u.asked {
		u.asked = 0
	}
	u.ended = m.Ended
	// What is on its way to the gateway, it asks for no more.
	way := max(0, u.granted-m.Received)
	u.want, u.ahead = max(0, m.Want-way), max(0, m.Ahead-max(0, way-m.Want))
	u.until = now + MaxWait
	o.order++
	if u.order = o.order; u.ended {
		u.want, u.ahead = 0, 0
	}
	u.fresh = true
}

// Report has the coordinators be sent the use, since they may not know it.
func (o *Owner) Report(now int64) {
	for _, a := range []*account{&o.now, &o.past} {
		if a.period != 0 && a.hasUse() {
			a.reportAt = now
		}
	}
}

// Use returns what the gateways have said of the period.
func (o *Owner) Use() Use { return o.now.use() }

// Period returns the number of the period, 0 if it is not known.
func (o *Owner) Period() int64 { return o.now.period }

// Out returns the units that gateways have been granted in the period.
func (o *Owner) Out() Units { return o.now.out }

// Idle reports whether nothing is lost if the owner is forgotten after Close.
func (o *Owner) Idle() bool {
	return len(o.now.users) == 0 && o.now.ask.wanted == 0 && o.now.debt() == 0 && len(o.past.users) == 0
}

// Booked takes in an answer of the coordinators.
func (o *Owner) Booked(now int64, b Booked, out Outbox) {
	a := &o.now
	if b.Session != a.ask.session || b.Period != a.period || b.Number != a.ask.number || a.ask.wanted == 0 {
		return
	}
	if b.Reason == NotStored {
		a.ask.known, a.high = true, max(a.high, b.From)
	}
	if a.ask.away = b.Reason == StoreAway || b.Reason == NotStored; a.ask.away {
		a.ask.againAt = now + bookAgain
		o.serve(now, out)
		return
	}
	a.ask.known = true
	if length := b.To - b.From; length > 0 {
		a.out += a.bookings.take(interval{b.From, b.To})
		a.high, a.full = max(a.high, b.To), 0
	}
	if now-a.ask.firstAt >= SlowAfter {
		a.ask.slow = now + slowFor
	}
	a.ask.wanted, a.ask.againAt = 0, now
	switch b.Reason {
	case UsedUp:
		a.ask.usedUp, a.ask.againAt = now+usedUpFor, now+usedUpFor
		a.full = o.terms.Amount // not in high: that would end the period if the coordinators had another amount
	case OtherPeriod:
		a.ask.againAt = now + bookAgain
	case NotConfigured:
		a.ask.unknown, a.ask.againAt = now+bookAgain, now+bookAgain
	}
	o.serve(now, out)
}
