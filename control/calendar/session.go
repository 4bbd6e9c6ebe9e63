package calendar

// ending is the end of a session that its owner has not confirmed.
type ending struct {
	ask        Ask
	road       uint64
	next, last int64
}

// restart begins another session, without what is recalled.
func (g *Gateway) restart(now int64, recall bool, session uint64) {
	if recall {
		g.period, g.ends, g.has, g.view = 0, 0, min(g.has, 0), View{}
		g.known = highest{}
	}
	g.begin(now, session, g.period)
}

// confirm notes that an owner knows the end of a session.
func (g *Gateway) confirm(m Reply) {
	for i := range g.endings {
		if e := &g.endings[i]; e.ask.Session == m.Session && (m.Begin || m.Seen >= e.ask.Number) {
			g.endings = append(g.endings[:i], g.endings[i+1:]...)
			return
		}
	}
}

// end has the owner be sent the last counts of the session.
func (g *Gateway) end(now int64) {
	if g.number == 0 {
		return
	}
	g.number++
	a := g.message(now)
	a.Want, a.Ahead, a.Ended = 0, 0, true
	if len(g.endings) < 4 {
		g.endings = append(g.endings, ending{ask: a, road: g.road, next: now, last: now + giveUpAfter})
	}
}

// Move begins another session with another owner of the key. The gateway keeps what it has, and the owner before is
// sent what was used.
func (g *Gateway) Move(now int64, road, session uint64) {
	unsaid := Use{}
	if g.owner == 0 { // it has not answered, so it may know nothing
		unsaid = g.use
	} else {
		g.end(now)
	}
	g.begin(now, session, g.period)
	g.road, g.use = road, unsaid
}

func (g *Gateway) begin(now int64, session uint64, period int64) {
	g.owner, g.session, g.period, g.granted, g.returned, g.use = 0, session, period, 0, 0, Use{}
	g.brought = max(0, g.has)
	g.number, g.seen, g.heard, g.no = 0, 0, 0, 0
	g.send = sending{due: true, asks: true, at: g.send.at}
}

// nextPeriod begins a session of another period: what was granted is of the period before.
func (g *Gateway) nextPeriod(now, period int64, session uint64) {
	g.end(now)
	g.begin(now, session, period)
	g.has, g.brought, g.known = 0, 0, highest{}
}

// Ending returns the last message of a session that ended, and the road to its owner; not ok: none is due.
func (g *Gateway) Ending(now int64) (a Ask, road uint64, ok bool) {
	for i := range g.endings {
		e := &g.endings[i]
		if now < e.next {
			continue
		}
		e.next = now + 200*millisecond
		a, road = e.ask, e.road
		if now >= e.last {
			g.endings = append(g.endings[:i], g.endings[i+1:]...)
		}
		return a, road, true
	}
	return Ask{}, 0, false
}

// Release returns all units, because the process ends or the key is forgotten.
func (g *Gateway) Release(now int64) Ask {
	g.giveBack()
	g.number++
	a := g.message(now)
	a.Want, a.Ahead, a.Ended = 0, 0, true
	return a
}

// Unknown answers a Reply about a key that the gateway has forgotten: all that was granted since comes back.
func Unknown(m Reply) (a Ask, ok bool) {
	if m.Begin || m.Granted == 0 {
		return Ask{}, false
	}
	return Ask{Owner: m.Owner, Session: m.Session, Number: m.Seen + 1, Heard: m.Number, Period: m.Period,
		Received: m.Granted, Returned: MaxUnits, Ended: true}, true
}
