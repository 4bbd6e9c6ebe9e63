package grant

// serve answers questions in their order, as far as the bucket allows.
func (o *Owner) serve(now int64, out Outbox) {
	o.wake = 0
	o.forgive(now)
	if now < o.listen {
		return
	}
	o.minds(now, out)
	reserved := int64(0) // for those before that wait for a token that is due
	for after := uint64(0); ; {
		i := o.next(after)
		if i < 0 {
			return
		}
		after = o.users[i].ask.order + 1
		if !o.answer(now, i, &reserved, out) {
			return
		}
	}
}

// next returns the gateway that has waited longest, of those from the given place on;
// −1 if there is none.
func (o *Owner) next(from uint64) int {
	best := -1
	for i := range o.users {
		u := &o.users[i]
		if u.ask.waiting && u.ask.order >= from && (best < 0 || u.ask.order < o.users[best].ask.order) {
			best = i
		}
	}
	return best
}

// answer answers one gateway or lets it wait for a token that is due. It reports false
// if nobody can be answered before a recall is.
func (o *Owner) answer(now int64, i int, reserved *int64, out Outbox) bool {
	u := &o.users[i]
	if u.recall.open() {
		return u.recall.deaf // its answer may hold the bucket or tokens
	}
	if u.ask.need > 0 && now < u.visits.early {
		u.visits.hurried = now
		o.answerWith(now, u, 0, u.visits.until-now, false, out)
		return true
	}
	if o.recallWhere(out, func(v *user) bool { return v.exclusive && v.peer != u.peer }) {
		return false
	}
	free := o.b.free(o.p) - *reserved - o.promised(now, u)
	alone := o.alone(now, i, out)
	wanted := alone > longAlone*o.p.Alone || alone > 0 && o.handsOver(u, free)
	if wanted && o.mayHandOver(now, out) {
		o.give(now, o.forget(now, u.peer), 0, true, out)
		return true
	}
	u.exclusive = false // it asks, so it has not received it
	// A gateway that asks ahead, with no request that waits, never gets a time to refuse until: its
	// next request may be within the limit.
	if free >= u.ask.need || u.ask.need == 0 {
		o.give(now, u, u.ask.need+o.prefetch(u, free-u.ask.need), false, out)
		return true
	}
	if o.recallWhere(out, func(v *user) bool { return v.peer != u.peer && v.out() > 0 }) || o.callParts(now, out) {
		return false
	}
	o.divide(now, u, free, reserved, out)
	return true
}

// longAlone is the number of times Alone for which a gateway must have been alone to get a bucket
// that is not full.
const longAlone = 10

// handsOver reports whether a gateway that is alone gets the bucket now. What the bucket would
// refill on the way there is lost, unless it is full anyway. To a client that asks for exactly
// the limit that would be a refusal each time. So it goes when it is full, with time to spare
// for the way, or to a gateway that asks for more than there is.
func (o *Owner) handsOver(u *user, free int64) bool {
	return o.b.full() >= o.p.Due || free < u.ask.need && o.p.time(u.ask.need-free) > o.p.Due
}

// alone returns for how long nobody else has used the key, 0 if that is not long enough. What
// others still hold is recalled for the next time.
func (o *Owner) alone(now int64, i int, out Outbox) int64 {
	me, alone := o.users[i].peer, forever
	for j := range o.users {
		v := &o.users[j]
		if j == i {
			continue
		}
		quiet := now-v.heard > o.p.Alone && !v.ask.waiting
		if quiet && v.out() == 0 && !v.recall.awaited() {
			alone = min(alone, now-v.heard)
		} else {
			alone = 0
		}
	}
	if alone > 0 && o.p.Rate > 0 && !o.abroad.used {
		return alone
	}
	o.recallWhere(out, func(v *user) bool {
		return v.peer != me && v.out() > 0 && now-v.heard > o.p.Alone && !v.ask.waiting
	})
	return 0
}

// forget drops the others that have been quiet for long and hold nothing, and returns the
// gateway that stays, whose place may be another one now.
func (o *Owner) forget(now int64, me Peer) *user {
	kept, at := o.users[:0], 0
	for _, v := range o.users {
		if v.peer != me && !v.ask.waiting && v.out() <= 0 && !v.recall.awaited() && now-v.heard > idleUser {
			continue
		}
		if v.peer == me {
			at = len(kept)
		}
		kept = append(kept, v)
	}
	o.users = kept
	return &o.users[at]
}

// recallWhere sees to it that the gateways for which f holds are asked to give back
// what they have, and reports whether an answer is missing.
func (o *Owner) recallWhere(out Outbox, f func(*user) bool) bool {
	missing := false
	for i := range o.users {
		u := &o.users[i]
		if !f(u) {
			continue
		}
		missing = true
		if !u.recall.open() {
			u.recall.number++
			u.recall.at = o.b.at
			out.Recall(u.peer, o.recallOf(u))
		}
	}
	return missing
}

func (o *Owner) recallOf(u *user) Recall {
	return Recall{Owner: o.life, Session: u.session, Number: u.recall.number, Seq: u.last.Seq, Seen: u.number,
		Granted: u.granted}
}

// prefetch returns what is granted beyond the need: at most half of what is left, in proportion
// to use, so that the next one finds some without a recall. It is a multiple of what the
// cheapest request costs that waits, of a token if none waits. A smaller lump does not help
// there, and would have to be recalled for the next request.
func (o *Owner) prefetch(u *user, left int64) int64 {
	all := int64(0)
	for i := range o.users {
		v := &o.users[i]
		if all += v.use; v.visits.until > o.b.at && v.peer != u.peer {
			return 0 // v was called back for what there is
		}
	}
	if all <= 0 || left <= 0 {
		return 0
	}
	part := int64(float64(left) / 2 * float64(u.use) / float64(all))
	n, unit := min(part, u.ask.ahead), u.ask.least
	if u.ask.need == 0 {
		unit = Token
	}
	return n - n%unit
}

// divide grants what there is when that is less than the need. If the first token, or the
// last missing one, is due soon, the owner waits for it. Otherwise it answers with the time
// in which asking again is of no use.
func (o *Owner) divide(now int64, u *user, free int64, reserved *int64, out Outbox) {
	give := max(0, min(free-free%u.ask.least, u.ask.need))
	if give == 0 && o.starves(now, u) {
		fair := u.visits.fair
		o.answerWith(now, u, u.ask.least, o.wait(now, u, free-u.ask.least), false, out)
		u.visits.fair = fair + int64(len(o.users))*o.p.time(u.ask.least)
		return
	}
	aim := u.ask.need
	if give == 0 {
		aim = u.ask.least
	}
	if aim-give <= u.ask.least && o.soon(now, aim, free, reserved) {
		return
	}
	o.answerWith(now, u, give, o.wait(now, u, free-give), false, out)
}

// soon reports whether so many tokens are there soon enough to be waited for, and reserves them.
func (o *Owner) soon(now, aim, free int64, reserved *int64) bool {
	t := o.p.time(aim - free)
	if t > o.p.Due || aim > o.p.Burst {
		return false
	}
	*reserved += aim
	if o.wake == 0 {
		o.wake = now + t
	}
	return true
}

// give answers the open question of u with so many more tokens, as many as it needs.
func (o *Owner) give(now int64, u *user, tokens int64, exclusive bool, out Outbox) {
	o.answerWith(now, u, tokens, 0, exclusive, out)
}

// answerWith answers the open question of u with so many more tokens, and says for how long
// asking again is of no use.
func (o *Owner) answerWith(now int64, u *user, tokens, wait int64, exclusive bool, out Outbox) {
	u.ask.waiting = false
	u.exclusive, u.sole = exclusive, exclusive
	before := u.out()
	u.granted += tokens
	admit := min(tokens, u.ask.need)
	u.visits.early, u.visits.until = 0, 0
	if wait > 0 {
		u.visits.early, u.visits.until = u.ask.at+wait/2, u.ask.at+wait
	}
	o.noteFair(now, u, tokens)
	u.presumed += admit
	o.b.spent += tokens
	u.charged += tokens
	o.b.out += u.out() - before
	o.b.waited(o.p, u.ask.since, admit)
	full := int64(0)
	if exclusive { // it has got all
		full, u.visits.fair = o.b.full(), 0
	}
	u.last = Grant{
		Owner: o.life, Session: u.session, Seq: u.ask.seq, Granted: u.granted, Admit: admit, Seen: u.number,
		Wait: wait, Others: o.others(u), Level: o.b.spent, Exclusive: exclusive, Full: full,
		Valid: o.valid(now, u),
	}
	out.Grant(u.peer, u.last)
}

// others returns the use of all gateways but u, cost per second.
func (o *Owner) others(u *user) int64 {
	sum := int64(0)
	for i := range o.users {
		if v := &o.users[i]; v.peer != u.peer && o.b.at-v.heard <= 2*o.p.Alone {
			sum += v.use
		}
	}
	return sum
}

// wait returns for how long u need not ask. That is until a lump of tokens is there, of which
// there are left now, those less that are reserved for others: they may be less than none. With
// more than turnSize gateways refusing they come in turns, a lump later for each turn, so that
// not all of them ask for the same tokens.
func (o *Owner) wait(now int64, u *user, left int64) int64 {
	active := 0
	for i := range o.users {
		if now-o.users[i].heard <= o.p.Alone {
			active++
		}
	}
	lump := int64(o.p.cost(o.p.Lump)) / int64(max(1, active))
	lump = max(min(lump, o.p.Burst/2), u.ask.least, Token)
	at := now + o.p.time(lump-left)
	if active > turnSize {
		at = o.nextTurn(at, lump)
	}
	return min(at-now, o.p.longest())
}

// nextTurn returns the time of the first turn from at on that is not taken.
func (o *Owner) nextTurn(at, lump int64) int64 {
	if at > o.turn {
		o.turn, o.taken = at, 0
	}
	if o.taken == turnSize {
		o.turn, o.taken = o.turn+o.p.time(lump), 0
	}
	o.taken++
	return o.turn
}
