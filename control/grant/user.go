package grant

import "slices"

// user is one gateway.
type user struct {
	peer    Peer
	session uint64

	granted, spent, returned, extra int64
	presumed                        int64 // spent by the requests for which it was granted, not reported yet

	number    uint32 // of the latest Request taken in
	seq       uint32 // of the latest question
	exclusive bool   // has the bucket, until it answers a recall
	sole      bool   // the latest answer with tokens was the bucket itself
	waiting   bool   // its question is not answered
	order     uint64 // of its question among all
	need      int64
	least     int64
	ahead     int64
	use       int64
	since     int64 // when the first request of its question came
	heard     int64

	recall   uint32 // number of the latest recall
	recalled uint32 // number of the latest answer
	recallAt int64  // when it was made
	told     int64  // Spent, as it says
	gone     int64  // taken for spent though it has not said so
	charged  int64  // of D, by this gateway: it can give back no more
	claimed  int64  // of D, by its word alone, and not refilled since
	deaf     bool   // it has not answered a recall for long: nobody waits for it
	slow     bool   // it has been deaf: nobody waits for it for long
	asked    int64  // when its question came
	early    int64  // a question before would come too early: it knows how long to wait
	until    int64  // when it may ask again
	hurried  int64  // when it last asked too early
	untold   bool   // it has had tokens since before the limit was lowered, and has sent nothing since
	fair     int64  // up to when its fair part has been granted; 0: it has got all that it needs
	last     Grant
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
		*u = user{peer: from, session: session, slow: u.slow || u.deaf, claimed: u.claimed,
			early: u.early, until: u.until, hurried: u.hurried,
			fair: u.fair}
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
	u.recalled, u.waiting, u.use = u.recall, false, 0
}

// answered takes in the answer to a recall.
func (o *Owner) answered(u *user, q Request) {
	if q.Recalled == u.recalled || q.Recalled != u.recall {
		return
	}
	u.recalled, u.slow = q.Recalled, u.deaf
	if u.deaf {
		u.deaf = false
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
	if q.Seq == 0 || int32(q.Seq-u.seq) < 0 {
		return
	}
	again := q.Seq == u.seq
	u.need, u.least, u.ahead = max(0, q.Need), max(1, q.Least), max(0, q.Ahead)
	switch {
	case !again && q.Need <= 0 && (q.Register || q.Ahead <= 0):
		u.seq, u.waiting = q.Seq, false
		o.acknowledge(u, out)
	case !again:
		u.seq, u.waiting, u.asked = q.Seq, true, u.heard
		u.since = u.heard - min(max(0, q.Waited), o.p.Hold)
		u.order = o.asks
		o.asks++
		if !o.granting() {
			o.postpone(u, out)
		}
	case u.waiting:
		o.postpone(u, out)
	case u.recall == u.recalled:
		out.Grant(u.peer, u.last)
	}
}

// acknowledge answers a gateway that reports and asks for nothing: it keeps what it has. If a gateway
// has the bucket while others have tokens, or the bucket as well, or another site uses the key, the bucket is recalled.
func (o *Owner) acknowledge(u *user, out Outbox) {
	u.last = Grant{Owner: o.life, Session: u.session, Seq: u.seq, Granted: u.granted, Seen: u.number,
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
	out.Grant(u.peer, Grant{Owner: o.life, Session: u.session, Seq: u.seq, Granted: u.granted, Pending: true,
		Wait: max(0, o.listen-o.b.at)})
}
