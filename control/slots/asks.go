package slots

// question has the owner asked, unless an open question is for as many requests and as long a time.
func (g *Gateway) question(now int64) {
	if g.asked == 0 || g.waiting > g.asked || now+g.patienceFor()/2 > g.patience {
		g.news = true
		g.due = g.due || !g.silent || now-g.sentAt >= repeatMost
	}
}

// Reply takes in a message of an owner. Call Retry and Surplus afterwards.
func (g *Gateway) Reply(now int64, m Reply) {
	if m.Session != g.session || g.owner != 0 && m.Owner != g.owner {
		return
	}
	if m.Begin {
		g.Lapse(now, g.session+1)
		return
	}
	g.owner = m.Owner
	g.answered, g.silent = now, false
	g.seen = max(g.seen, m.Seen)
	more := m.Granted > g.granted
	if more {
		g.asked = max(0, g.asked-(m.Granted-g.granted))
		g.granted = m.Granted
	}
	if more && g.later == 0 {
		g.later = now + confirmWithin
	}
	if m.Number <= g.heard {
		return
	}
	g.heard = m.Number
	g.short, g.keep = 0, -1
	if m.Short > 0 {
		g.short, g.keep = now+m.Short, m.Keep
	}
	switch {
	case m.Full:
		g.full = g.short
	case more, m.Short == 0:
		g.full = 0
	}
	g.due = g.due || m.Answer
	g.returnExcess(now)
}

// returnExcess gives back idle slots while the owner is short, if no request waits.
func (g *Gateway) returnExcess(now int64) {
	if now < g.short && g.waiting == 0 {
		g.giveBack(g.idle())
	}
}

// Poll returns the message that is to be sent to the owner now; not ok: none is.
func (g *Gateway) Poll(now int64) (a Ask, ok bool) {
	g.returnExcess(now)
	g.rest(now)
	if g.isStale(now) {
		g.due, g.news = true, true
	}
	if !g.due && (g.next() == 0 || now < g.next()) {
		return Ask{}, false
	}
	if g.due {
		g.interval = repeatFirst
	} else {
		g.interval = min(2*max(g.interval, repeatFirst), repeatMost)
	}
	if max(g.number, g.heard) >= lastNumber {
		g.Move(now, g.lease, g.session+1)
	}
	g.number++
	if g.news || g.firm > g.seen {
		g.firm = g.number
	}
	g.due, g.news, g.later, g.sentAt = false, false, 0, now
	g.asked, g.patience = g.waiting, now+g.patienceFor()
	return g.message(now), true
}

func (g *Gateway) message(now int64) Ask {
	return Ask{Owner: g.owner, Session: g.session, Number: g.number, Heard: g.heard, Register: g.heard == 0,
		Brought: g.brought, Received: g.granted, Returned: g.returned, Want: g.waiting, Patience: g.patienceFor(),
		Confirm: g.firm == g.number, Rate: int64(g.rate.per(now) * second * 1000), Stay: g.stay(now)}
}

// stay returns how long a request is in flight in the mean, by Little's law.
func (g *Gateway) stay(now int64) int64 {
	ends := g.ends.per(now)
	if ends <= 0 {
		return 0
	}
	return int64(min(g.busy.mean(now, g.used)/ends, 3600*second))
}

// rest gives back slots that were idle for keepIdle.
func (g *Gateway) rest(now int64) {
	if now-g.idleSince < keepIdle {
		return
	}
	g.giveBack(min(g.idleLeast, g.idle()))
	g.idleLeast, g.idleSince = g.idle(), now
}
