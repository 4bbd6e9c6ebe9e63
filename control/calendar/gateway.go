package calendar

import "github.com/titrate/titrate/control/slots"

// Gateway is the state of one key at one gateway. See the package comment.
type Gateway struct {
	road    uint64 // by which messages go to the owner
	owner   uint64 // life; 0: no message of this session was received yet
	session uint64
	period  int64 // 0: not known
	ends    int64 // when the period ends; 0: not known

	// Of the session, cumulative.
	brought, granted, returned Units
	use                        Use

	has     Units
	waiting Units // cost that waits
	no      int64 // requests without units are refused until then
	known   highest
	view    View
	viewed  Units // spent here since view

	number, seen, heard uint32
	send                sending
	usedAt              int64
	rate                meter
	endings             []ending
}

// highest is the highest end of what was granted of a key in a period.
type highest struct {
	end      Units
	unbooked Units  // the end of that which no interval had
	granter  uint64 // that has said so
}

// learn takes in what an owner says.
func (h *highest) learn(m Reply) {
	if m.Known > h.end || m.Known == h.end && m.Owner == h.granter {
		*h = highest{m.Known, m.Unbooked, m.Owner}
	}
}

// sending says when a gateway sends its owner a message.
type sending struct {
	due          bool  // at once
	asks         bool  // a question is not answered
	later        int64 // by then; 0: never
	at, interval int64 // of the latest one
}

// ask has a question sent at once.
func (s *sending) ask() { s.due, s.asks = true, true }

// report has sent what was used, within a while.
func (s *sending) report(now int64) {
	if s.later == 0 {
		s.later = now + ReportEvery
	}
}

// next returns when a message is to be sent without a cause.
func (s *sending) next() int64 {
	due := s.later
	if s.asks {
		due = slots.Sooner(due, s.at+max(s.interval, repeatFirst))
	}
	return due
}

// View has the state of a key over all gateways, as a gateway knows it.
type View struct {
	Period    int64
	Ends      int64 // 0: not known
	Amount    Units
	Remaining Units
}

// NewGateway returns the state of a key that is not known here. road names the way to its owner.
func NewGateway(now int64, road, session uint64) *Gateway {
	return &Gateway{road: road, session: session, usedAt: now, send: sending{due: true}}
}

// expire ends the units of a period that is over. The owner says which one it is now.
func (g *Gateway) expire(now int64) {
	if g.ends == 0 || now < g.ends {
		return
	}
	g.ends, g.no = 0, 0
	g.has = min(g.has, 0)
	g.send.ask()
}

// Try spends units for a request that would not wait.
func (g *Gateway) Try(now int64, cost Units) Outcome {
	g.expire(now)
	g.usedAt = now
	g.rate.add(now, cost)
	switch {
	case g.waiting == 0 && g.has >= cost:
		g.spend(now, cost)
		return Admitted
	case now < g.no || g.never(cost):
		g.use.Add(Use{Refused: cost})
		g.send.report(now)
		return Refused
	}
	return Waits
}

// never reports whether a cost is above the amount: its wait would only collect all units.
func (g *Gateway) never(cost Units) bool { return g.view.Amount > 0 && cost > g.view.Amount }

// Take is Try for a request that waits if it has to.
func (g *Gateway) Take(now int64, cost Units) Outcome {
	out := g.Try(now, cost)
	if out == Waits {
		g.waiting += cost
		g.send.ask()
	}
	return out
}

func (g *Gateway) spend(now int64, cost Units) {
	g.has -= cost
	g.viewed += cost
	g.use.Add(Use{Admitted: cost, Settled: cost})
	if 2*g.has < g.ahead(now) && !g.send.asks && now >= g.no {
		g.send.ask()
	}
	g.send.report(now)
}

// Retry asks again for the first request that waits.
func (g *Gateway) Retry(now int64, cost Units) Outcome {
	switch {
	case g.has >= cost:
		g.waiting -= cost
		g.spend(now, cost)
		return Admitted
	case now < g.no || g.never(cost):
		g.refuse(now, cost)
		return Refused
	}
	return Waits
}

func (g *Gateway) refuse(now int64, cost Units) {
	g.waiting -= cost
	g.use.Add(Use{Refused: cost})
	g.send.report(now)
}

// Leave ends the wait of a request. refused: it has waited for too long.
func (g *Gateway) Leave(now int64, cost Units, refused bool) {
	if refused {
		g.refuse(now, cost)
		return
	}
	g.waiting -= cost
}

// Undo takes back what Try or Retry has spent for a request that does not start. The units of a period that is over do
// not come back.
func (g *Gateway) Undo(now int64, period int64, cost Units) {
	if period != g.period {
		return
	}
	g.use.Admitted -= min(cost, g.use.Admitted) // Move has ended the session in which it was counted
	g.Settle(now, -cost)
}

// Settle corrects the cost of a request that was admitted with an estimate, in the period of now.
func (g *Gateway) Settle(now int64, extra Units) {
	g.expire(now)
	g.has -= extra
	g.viewed += extra
	g.use.Add(Use{Settled: extra})
	g.send.report(now)
	if g.has < 0 && !g.send.asks {
		g.send.ask()
	}
}

// Refusing reports whether a request of a cost would be refused at once, and until when.
func (g *Gateway) Refusing(now int64, cost Units) (until int64, refusing bool) {
	return g.no, (now < g.no || g.never(cost)) && g.has < cost
}

// View returns what is known of the key over all gateways; not ok: nothing yet.
func (g *Gateway) View(now int64) (v View, ok bool) {
	v = g.view
	if v.Ends != 0 && now >= v.Ends || v.Amount == 0 {
		return v, false
	}
	v.Remaining = max(0, min(v.Amount, max(g.has, v.Remaining-g.viewed)))
	return v, true
}

// Period returns the number of the period that a request counts in.
func (g *Gateway) Period() int64 { return g.period }

// ahead returns the units that would do for a while.
func (g *Gateway) ahead(now int64) Units {
	if n := Units(g.rate.per(now) * aheadFor / second); n >= Unit {
		return n
	}
	return 0
}

// Receive takes in a message of the owner. session is for a session that begins by that.
func (g *Gateway) Receive(now int64, m Reply, session func() uint64) {
	if m.Session != g.session {
		g.confirm(m)
		return
	}
	switch {
	case m.Begin:
		g.restart(now, m.Recall, session())
		return
	case g.owner != 0 && m.Owner != g.owner || m.Period < g.period:
		return
	}
	g.owner = m.Owner
	g.seen = max(g.seen, m.Seen)
	if g.period != 0 && m.Period > g.period {
		g.nextPeriod(now, m.Period, session())
		g.owner = m.Owner
		m.Granted, m.Number = 0, 0 // of the session before
	}
	g.period = m.Period
	g.known.learn(m)
	if m.Granted > g.granted {
		g.has += m.Granted - g.granted
		g.granted = m.Granted
	}
	if m.Number <= g.heard && m.Number != 0 {
		return
	}
	g.heard = max(g.heard, m.Number)
	g.answered(now, m)
}

// answered takes in what holds until the next message.
func (g *Gateway) answered(now int64, m Reply) {
	if m.Left > 0 {
		g.ends = now + m.Left
	}
	g.view, g.viewed = View{m.Period, g.ends, m.Amount, m.Remaining}, 0
	if g.no = 0; m.Refuse > 0 {
		g.no = now + m.Refuse
	}
	if g.seen >= g.number {
		g.send.asks = g.waiting > g.has // what the owner grants later may be lost
	}
	if m.Recall {
		g.giveBack()
		g.send.due = true
	}
}

// giveBack returns the units that no request waits for.
func (g *Gateway) giveBack() {
	if n := g.has - g.waiting; n > 0 {
		g.has -= n
		g.returned += n
	}
}

// Poll returns the message that is to be sent to the owner now; not ok: none is.
func (g *Gateway) Poll(now int64, session func() uint64) (a Ask, ok bool) {
	g.expire(now)
	if g.waiting == 0 && g.has > 0 && now-g.usedAt >= keepIdle {
		g.giveBack()
		g.send.due = true
	}
	if !g.send.due && (g.send.next() == 0 || now < g.send.next()) {
		return Ask{}, false
	}
	if g.number >= lastNumber {
		g.Move(now, g.road, session())
	}
	if g.send.due {
		g.send.interval = repeatFirst
	} else {
		g.send.interval = min(2*max(g.send.interval, repeatFirst), repeatMost)
	}
	g.number++
	g.send.due, g.send.later, g.send.at = false, 0, now
	return g.message(now), true
}

func (g *Gateway) message(now int64) Ask {
	a := Ask{Owner: g.owner, Session: g.session, Number: g.number, Heard: g.heard, Period: g.period,
		Brought: g.brought, Received: g.granted, Returned: g.returned, Has: g.has.bounded(), Known: g.known.end,
		Unbooked: g.known.unbooked, Granter: g.known.granter, Use: g.use}
	if g.waiting > 0 {
		a.Want = max(0, g.waiting-g.has).bounded()
	}
	if now < g.usedAt+aheadFor {
		a.Ahead = max(0, g.ahead(now)-max(0, g.has-g.waiting)).bounded()
	}
	return a
}

// Due returns when Poll has something to do; 0: never.
func (g *Gateway) Due(now int64) int64 {
	if g.send.due {
		return now
	}
	due := g.send.next()
	for i := range g.endings {
		due = slots.Sooner(due, g.endings[i].next)
	}
	if due == 0 { // to be forgotten
		due = max(now+second, g.usedAt+keepIdle, g.no)
	} else if g.has > 0 {
		due = slots.Sooner(due, max(now, g.usedAt+keepIdle))
	}
	return due
}

// Idle reports whether the gateway has no units and no request, and the owner knows what was used: it may be forgotten
// after Release is sent.
func (g *Gateway) Idle(now int64) bool {
	return now-g.usedAt >= keepIdle && g.has <= 0 && g.waiting == 0 && !g.send.due && g.send.later == 0 &&
		now >= g.no && len(g.endings) == 0 && (g.seen >= g.number || now-g.send.at >= repeatMost)
}
