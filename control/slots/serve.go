package slots

import "slices"

// serve grants free slots to the gateways whose requests wait, and answers their questions.
func (o *Owner) serve(now int64, out Outbox) {
	if now < o.listen {
		o.answer(now, out, false)
		return
	}
	for o.grant(now) {
	}
	needed := o.next(now) != nil || o.out > o.limit
	open := false
	if needed {
		open = o.recall(now, out)
		if !open {
			o.rebalance(now, out)
		}
	} else if o.out < o.limit {
		o.notice(now, out)
	}
	o.answer(now, out, needed && !open)
}

// grant grants some of the free slots to one gateway. It is one while there are few, so that each gets its part. It is
// a part of many, so that the work does not grow with the limit. It reports whether there may be more to grant.
func (o *Owner) grant(now int64) bool {
	u := o.next(now)
	if u == nil || o.out >= o.limit {
		return false
	}
	n := min(u.want, max(1, (o.limit-o.out)/grantParts))
	u.granted += n
	u.want -= n
	u.fresh, u.keepTill, u.dry = true, 0, 0 // it has less than its part now
	o.orders++
	u.order = o.orders // others are first if they have as little
	o.out += n
	return true
}

// next returns the gateway that gets the next slot: it waits and has the smallest part of its fair part.
func (o *Owner) next(now int64) (first *user) {
	least := 0.0
	for i := range o.users {
		u := &o.users[i]
		if u.want <= 0 || now >= u.until {
			continue
		}
		has := float64(u.held()) / float64(max(u.rate, 1))
		if first == nil || has < least || has == least && u.order < first.order {
			first, least = u, has
		}
	}
	return first
}

// shortFor returns for how long the owner is short: some ends of requests.
func (o *Owner) shortFor() int64 {
	return min(max(shortLeast, shortTurns*o.stay/max(1, o.limit)), shortMost)
}

// recall asks the gateways that may have idle slots for them, once while it is short. open: not all have answered.
func (o *Owner) recall(now int64, out Outbox) (open bool) {
	for i := range o.users {
		u := &o.users[i]
		if u.held() == 0 || u.fresh {
			continue
		}
		if now >= u.short {
			o.reply(now, u, out, Reply{Short: o.shortFor(), Answer: true, Full: now < u.full})
			u.recall, u.recallAt, u.awaited = u.told, now, true
		}
		open = open || u.isAwaited(now)
	}
	return open
}

// isAwaited reports whether a gateway was asked for idle slots and may still answer in time.
func (u *user) isAwaited(now int64) bool {
	u.awaited = u.awaited && u.heard < u.recall && now-u.recallAt < recallFor
	return u.awaited
}

// rebalance makes gateways with more than their fair parts return slots, if a gateway that waits has far less than
// its own. If it has had none for long, or if more slots are out than there are, each keeps the whole slots of its
// part only. So few slots go round, and a lowered limit holds while requests wait.
func (o *Owner) rebalance(now int64, out Outbox) {
	all := 0.0
	for i := range o.users {
		all += float64(max(o.users[i].rate, 1))
	}
	part := func(u *user) float64 { return float64(o.limit) * float64(max(u.rate, 1)) / all }
	poor, rest := false, .999 // what is left of a part is a whole slot
	if o.out > o.limit {
		poor, rest = true, 0
	}
	for i := range o.users {
		u := &o.users[i]
		poor = poor || u.want > 0 && now < u.until && float64(u.held())+1 <= far*part(u)
		if u.starves(now) {
			poor, rest = true, 0
		}
	}
	if !poor {
		return
	}
	for i := range o.users {
		u := &o.users[i]
		if keep := int64(part(u) + rest); u.held() > keep && now >= u.keepTill {
			u.keep, u.keepTill = keep, now+o.shortFor()
			o.reply(now, u, out, Reply{Short: o.shortFor(), Full: now < u.full})
		}
	}
}

// notice ends the refusals of gateways, since slots are free.
func (o *Owner) notice(now int64, out Outbox) {
	for i := range o.users {
		if u := &o.users[i]; now < u.full {
			u.full, u.short = 0, 0
			o.reply(now, u, out, Reply{})
		}
	}
}

// answer answers the gateways that have asked, and the gateways that were granted slots. full: no gateway has idle
// slots.
func (o *Owner) answer(now int64, out Outbox, full bool) {
	for i := range o.users {
		u := &o.users[i]
		waits := u.want > 0 && now < u.until
		switch {
		case u.fresh && !waits:
			m := Reply{}
			if now < u.short {
				m.Short = u.short - now
			}
			o.reply(now, u, out, m)
		case u.fresh && full, waits && full && now >= u.full:
			u.full = now + o.shortFor()
			o.reply(now, u, out, Reply{Short: o.shortFor(), Full: true})
		case u.fresh:
			o.reply(now, u, out, Reply{Short: o.shortFor(), Full: now < u.full})
		}
	}
}

// reply sends a message.
func (o *Owner) reply(now int64, u *user, out Outbox, m Reply) {
	u.told++
	u.fresh, u.sentAt, u.confirm = false, now, 0
	if m.Short > 0 {
		u.short = max(u.short, now+m.Short)
	}
	m.Owner, m.Session, m.Number, m.Seen, m.Granted = o.life, u.session, u.told, u.number, u.granted
	m.Keep = -1
	if now < u.keepTill {
		m.Keep = u.keep
	}
	out.Reply(u.peer, m)
}

// Due returns when Tick has something to do; 0: never.
func (o *Owner) Due() (due int64) {
	for i := range o.users {
		u := &o.users[i]
		due = Sooner(Sooner(due, u.confirm), u.restsAt())
		if u.granted > u.seen || u.recall > u.heard {
			due = Sooner(due, u.sentAt+2*confirmWithin)
		}
		if u.awaited {
			due = Sooner(due, u.recallAt+recallFor)
		}
	}
	return due
}

// Tick confirms and repeats messages, forgets gateways at rest, and answers questions that waited for idle slots.
func (o *Owner) Tick(now int64, out Outbox) {
	o.users = slices.DeleteFunc(o.users, func(u user) bool { return u.restsAt() != 0 && now >= u.restsAt() })
	for i := range o.users {
		u := &o.users[i]
		u.isAwaited(now)
		confirm := u.confirm != 0 && now >= u.confirm
		repeat := (u.granted > u.seen || u.recall > u.heard) && now-u.sentAt >= 2*confirmWithin
		if confirm || repeat {
			o.reply(now, u, out, Reply{Short: max(0, u.short-now), Full: now < u.full && now < u.short, Answer: repeat})
		}
	}
	o.serve(now, out)
}
