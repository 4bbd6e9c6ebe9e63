package grant

// Poll returns the message that the owner needs at once: the answer to a Recall. Call it after every other
// call, after a Grant once the waiting requests were retried; then Wants.
func (g *Gateway) Poll(now int64) (Request, bool) {
	g.lapse(now)
	// The owner takes these for spent. Nobody waits for them any more: they go back, and the owner is asked
	// to acknowledge that. Until it knows, it counts what the caller has admitted meanwhile twice.
	if gone := min(g.counts.admit, g.counts.tokens()); gone > 0 {
		g.counts.returned += gone
		g.owed.unsent = true
	}
	g.counts.admit, g.denied = 0, false
	g.renew(now)
	if !g.recall.due {
		return Request{}, false
	}
	g.recall.due = false
	return g.message(now), true
}

// most bounds the counts of a session, millionths. Agents accept counts up to six times most.
const most = 1 << 59

// renew begins another session with the owner when the counts of this one are large.
func (g *Gateway) renew(now int64) {
	if max(g.counts.granted, g.owed.extra, -g.owed.extra) > most {
		g.NewOwner(now)
	}
}

// Wants reports whether there is something to ask the owner: call Ask when it may be sent, and again
// when it may have been lost, while Wants holds. urgent: a request waits for the answer.
func (g *Gateway) Wants(now int64) (is, urgent bool) {
	if !g.ask.open && !g.wants(now) {
		g.ask.wanted = 0
		return false, false
	}
	if g.ask.wanted == 0 {
		g.ask.wanted = max(now, 1)
	}
	return true, g.waits.need > 0 && !g.silent
}

// Ask returns the question to the owner, the same one until it is answered; not ok: there is nothing
// to ask any more.
func (g *Gateway) Ask(now int64) (q Request, ok bool) {
	if is, _ := g.Wants(now); !is {
		return Request{}, false
	}
	if !g.ask.open {
		g.ask.seq++
		g.ask.open, g.ask.at = true, now
	}
	if g.listen(now); g.silent {
		g.owed.hidden = 0 // it may not answer for long, and is to know when it does
	}
	g.recall.due = false
	return g.message(now), true
}

// wants reports whether there is something to ask.
func (g *Gateway) wants(now int64) bool {
	switch {
	case now < g.unowned:
		return false
	case g.register, g.owed.unsent, g.exclusive && g.lapseAt != 0 && now >= g.renewAt:
		return true
	case g.exclusive || now < g.until:
		return false
	case g.waits.need > 0:
		return true
	}
	return now >= g.aheadAt && g.counts.tokens() < g.ahead(now)/2
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
	g.counts.said = g.counts.spent
	extra := g.owed.extra - g.owed.hidden
	g.owed.told[g.number%uint32(len(g.owed.told))] = toldExtra{g.number, extra}
	q := Request{
		Session: g.session, Owner: g.owner, Number: g.number, Recalled: g.recall.number,
		Granted: g.counts.granted, Spent: g.counts.spent, Returned: g.counts.returned, Extra: extra,
		Use: int64(g.use.at(now)), Exclusive: g.recall.left >= 0, Level: g.recall.left,
	}
	if q.Exclusive {
		q.Full = g.recall.full
	}
	q.Refills = g.late.send(g.p, now, g.number, g.owed.hidden)
	if g.register {
		q.Register, q.Exclusive, q.Held, q.Level, q.Full = true, g.exclusive, g.counts.held, g.known(now), 0
		if q.Level > 0 {
			q.Level = max(0, q.Level-max(0, g.owed.both))
		}
	}
	if g.ask.open {
		q.Seq, q.Need, q.Least = g.ask.seq, max(0, g.waits.need-g.counts.tokens()), g.waits.least
		if g.waits.need > 0 {
			q.Waited = now - g.waits.since
		}
		if !g.exclusive {
			q.Ahead = max(0, g.ahead(now)-max(0, g.counts.tokens()-g.waits.need))
		}
		g.aheadAt = now + g.p.Horizon/2
	}
	return q
}
