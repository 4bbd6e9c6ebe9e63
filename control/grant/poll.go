package grant

// Poll returns what is to be sent to the owner now. Call it after every other call (after
// a Grant once the waiting requests were retried) and when Due says so, until it returns
// false.
func (g *Gateway) Poll(now int64) (Request, bool) {
	// The owner takes these for spent. Nobody waits for them any more: they go back.
	g.returned += max(0, min(g.admit, g.tokens()))
	g.admit, g.denied = 0, false
	g.renew(now)
	switch {
	case g.open && now >= g.repeatAt:
		g.silent = g.silent || now-g.askedAt >= 3*g.p.Hold
		longest := 4 * g.p.Repeat
		if g.silent {
			longest = second
		}
		g.pause = min(2*g.pause, longest)
	case !g.open && g.wants(now):
		g.seq++
		g.open, g.askedAt, g.pause = true, now, g.p.Repeat
	case !g.returning:
		return Request{}, false
	}
	if g.open {
		g.repeatAt = now + g.pause
	}
	g.returning = false
	return g.message(now), true
}

// most is how far the counts of a session go, millionths: what is added to them before the next message is
// far from what overflows.
const most = 1 << 61

// renew begins another session with the owner when the counts of this one are large.
func (g *Gateway) renew(now int64) {
	if max(g.granted, g.extra, -g.extra) > most {
		g.NewOwner(now)
	}
}

// Due returns when Poll has something to send; 0: nothing is open.
func (g *Gateway) Due() int64 {
	if g.open {
		return g.repeatAt
	}
	return 0
}

// wants reports whether there is something to ask.
func (g *Gateway) wants(now int64) bool {
	switch {
	case now < g.unowned:
		return false
	case g.register:
		return true
	case g.exclusive || now < g.until:
		return false
	case g.need > 0:
		return true
	}
	return now >= g.aheadAt && g.tokens() < g.ahead(now)/2
}

// ahead returns how many tokens the use within the horizon needs; 0 below one.
func (g *Gateway) ahead(now int64) int64 {
	n := int64(g.use.at(now) * float64(g.p.Horizon) / second)
	if n < Token {
		return 0
	}
	return min(n, g.p.Burst)
}

func (g *Gateway) message(now int64) Request {
	g.number++
	g.told[g.number%uint32(len(g.told))] = toldExtra{g.number, g.extra}
	q := Request{
		Session: g.session, Owner: g.owner, Number: g.number, Recalled: g.recalled,
		Granted: g.granted, Spent: g.spent, Returned: g.returned, Extra: g.extra,
		Use: int64(g.use.at(now)), Exclusive: g.left >= 0, Level: g.left,
	}
	if q.Exclusive {
		q.Full = g.leftFull
	}
	q.Refills = g.late.send(g.p, now, g.number)
	if g.register {
		q.Register, q.Exclusive, q.Held, q.Level = true, g.exclusive, g.held, g.known(now)
		q.Full = 0
	}
	if g.open {
		q.Seq, q.Need, q.Least = g.seq, max(0, g.need-g.tokens()), g.least
		if g.need > 0 {
			q.Waited = now - g.since
		}
		q.Ahead = max(0, g.ahead(now)-max(0, g.tokens()-g.need))
		g.aheadAt = now + g.p.Horizon/2
	}
	return q
}
