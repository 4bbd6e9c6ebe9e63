package grant

import "slices"

// user is one gateway.
type user struct {
	peer    Peer
	session uint64

	granted, spent, returned, extra int64
	presumed                        int64 // spent by the requests for which it was granted, not reported yet

	number    uint32 // of the latest Request taken in
	exclusive bool   // has the bucket, until it answers a recall
	sole      bool   // the latest answer with tokens was the bucket itself
	untold    bool   // it has had tokens since before the limit was lowered, and has sent nothing since
	use       int64
	heard     int64
	told      int64 // Spent, as it says
	gone      int64 // taken for spent though it has not said so
	charged   int64 // of D, by this gateway: it can give back no more
	claimed   int64 // of D, by its word alone, and not refilled since
	ask       userQuestion
	recall    userRecall
	visits    visits
	last      Grant
}

// userQuestion is the latest question of a gateway.
type userQuestion struct {
	seq     uint32
	waiting bool // it is not answered
	need    int64
	least   int64
	ahead   int64
	order   uint64 // among all questions
	since   int64  // when the first request came for which it asks
	at      int64  // when it came
}

// userRecall is the latest recall of what a gateway has.
type userRecall struct {
	number   uint32
	answered uint32 // number of the latest one with an answer
	at       int64  // when it was made
	deaf     bool   // it has had no answer for long: nobody waits for the gateway
	slow     bool   // the gateway has been deaf: nobody waits for it for long
}

// open reports whether the gateway has not answered.
func (r *userRecall) open() bool { return r.number != r.answered }

// awaited reports whether others wait for the answer.
func (r *userRecall) awaited() bool { return r.open() && !r.deaf }

// visits are the times at which a gateway asks. They outlast its session.
type visits struct {
	early   int64 // a question before would come too early: it knows how long to wait
	until   int64 // when it may ask again
	hurried int64 // when it last asked too early
	fair    int64 // up to when its fair part has been granted; 0: it has got all that it needs
}

// find returns the index of a gateway, made new if this is its first message or a new
// life; −1 for a message of an earlier life.
func (o *Owner) find(from Peer, session uint64) (i int, known bool) {
	for i := range o.users {
		u := &o.users[i]
		if u.peer != from {
			continue
		}
		switch {
		case u.session == session:
			return i, true
		case u.session > session:
			return -1, false
		}
		o.b.out -= u.out() // what it still has, it registers; the rest was spent
		*u = user{peer: from, session: session, claimed: u.claimed, visits: u.visits,
			recall: userRecall{slow: u.recall.slow || u.recall.deaf}}
		return i, false
	}
	o.users = append(o.users, user{peer: from, session: session})
	return len(o.users) - 1, false
}

// out returns what the gateway can still spend, as far as is known. Tokens granted for
// requests that wait are spent when they arrive.
func (u *user) out() int64 { return max(0, u.granted-u.spent-u.returned-u.presumed) }

// introduce makes a gateway register whose counts belong to another owner.
func (o *Owner) introduce(u *user, out Outbox) {
	out.Grant(u.peer, Grant{Owner: o.life, Session: u.session})
}

// release notes that a gateway has given back all it had.
func (o *Owner) release(u *user, q Request) {
	if u.exclusive && q.Exclusive {
		u.exclusive = false
		o.takeBack(u, q.Level, q.Full)
	}
	o.b.out -= u.out()
	u.spendAll()
	u.recall.answered, u.ask.waiting, u.use = u.recall.number, false, 0
}

// answered takes in the answer to a recall.
func (o *Owner) answered(u *user, q Request) {
	if q.Recalled == u.recall.answered || q.Recalled != u.recall.number {
		return
	}
	u.recall.answered, u.recall.slow = q.Recalled, u.recall.deaf
	if u.recall.deaf {
		u.recall.deaf = false
		if q.Exclusive { // what it has spent meanwhile
			o.takeBack(u, max(q.Level, o.b.spent), 0)
		}
		return
	}
	if !u.exclusive {
		return
	}
	u.exclusive = false
	if !q.Exclusive {
		return // it never had the bucket, which has refilled here meanwhile
	}
	level, full := max(0, q.Level), q.Full
	if o.shared() {
		level += o.b.spent // two sides of a partition: what both spent was spent
		full = 0
	}
	o.takeBack(u, level, full)
}

// shared reports whether somebody else has the bucket as well.
func (o *Owner) shared() bool {
	for i := range o.users {
		if o.users[i].exclusive {
			return true
		}
	}
	return false
}

// ask notes a question, or repeats the answer to one.
func (o *Owner) ask(u *user, q Request, out Outbox) {
	if q.Seq == 0 || int32(q.Seq-u.ask.seq) < 0 {
		return
	}
	again := q.Seq == u.ask.seq
	u.ask.need, u.ask.least, u.ask.ahead = max(0, q.Need), max(1, q.Least), max(0, q.Ahead)
	switch {
	case !again && q.Need <= 0 && (q.Register || q.Ahead <= 0):
		u.ask.seq, u.ask.waiting = q.Seq, false
		o.acknowledge(u, out)
	case !again:
		u.ask.seq, u.ask.waiting, u.ask.at = q.Seq, true, u.heard
		u.ask.since = u.heard - min(max(0, q.Waited), o.p.Hold)
		u.ask.order = o.asks
		o.asks++
		if !o.granting() {
			o.postpone(u, out)
		}
	case u.ask.waiting:
		o.postpone(u, out)
	case !u.recall.open():
		out.Grant(u.peer, u.last)
	}
}

// acknowledge answers a gateway that reports and asks for nothing: it keeps what it has. If a gateway
// has the bucket while others have tokens, or the bucket as well, or another site uses the key, the bucket is recalled.
func (o *Owner) acknowledge(u *user, out Outbox) {
	u.last = Grant{Owner: o.life, Session: u.session, Seq: u.ask.seq, Granted: u.granted, Seen: u.number,
		Others: o.others(u), Level: o.b.spent, Valid: o.valid(o.b.at, u)}
	out.Grant(u.peer, u.last)
	has := func(v *user) bool { return v.exclusive || v.out() > 0 }
	o.recallWhere(out, func(v *user) bool {
		return v.exclusive && (o.abroad.used ||
			slices.ContainsFunc(o.users, func(w user) bool { return w.peer != v.peer && has(&w) }))
	})
}

// postpone confirms a question, so that it is not repeated soon. While the owner listens the confirmation
// has the longest wait.
func (o *Owner) postpone(u *user, out Outbox) {
	out.Grant(u.peer, Grant{Owner: o.life, Session: u.session, Seq: u.ask.seq, Granted: u.granted, Pending: true,
		Wait: max(0, o.listen-o.b.at)})
}
