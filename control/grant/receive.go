package grant

// Grant takes in a message of an owner. The flag says that the owner has received the open question, and
// will answer it later.
func (g *Gateway) Grant(now int64, m Grant) (heard bool) {
	g.lapse(now)
	if m.NoRoom && m.Session == g.session && g.ask.open && m.Seq == g.ask.seq {
		g.giveUp(now) // this owner will not recall it when others come: the caller goes on from its level
		g.ask.open, g.silent, g.unowned, g.ask.wanted = false, false, now+declined, 0
		return false
	}
	if m.Session != g.session || m.Owner == 0 {
		return false
	}
	if m.Begin && m.Owner == g.owner {
		g.change(now, g.owner)
		return false
	}
	answers := g.ask.open && m.Seq == g.ask.seq
	if !g.isOwner(now, m, answers) {
		return false
	}
	g.believe(m.Granted)
	if m.Pending {
		g.register = g.register && !answers // it has that, too
		return answers
	}
	g.late.acknowledge(m.Seen)
	if answers {
		g.answered(now, m)
	}
	return false
}

// isOwner reports whether a message of this session is of its owner. The answer to the open question says who that is.
func (g *Gateway) isOwner(now int64, m Grant, answers bool) bool {
	switch {
	case m.Owner == g.owner:
		return true
	case answers && g.owner == 0:
		g.owner = m.Owner
		return true
	case g.ask.open && m.Seq == 0: // another owner than the counts are for
		g.change(now, m.Owner)
	}
	return false
}

// believe takes in the number of granted tokens. No correct owner grants more than the burst at a
// time: the rest goes back at once, so that a gateway never has more, whichever owner granted.
func (g *Gateway) believe(granted int64) {
	g.counts.granted = max(g.counts.granted, granted)
	g.counts.returned += max(0, g.counts.tokens()-g.p.Burst)
}

// answered takes in the answer to the question that is open.
func (g *Gateway) answered(now int64, m Grant) {
	g.ask.open, g.silent, g.register, g.unowned, g.ask.wanted = false, false, false, 0, 0
	g.heard, g.others = now, m.Others
	g.validFor(m.Valid)
	if g.exclusive {
		return // an earlier owner's bucket, confirmed
	}
	untold := g.untold(m.Seen)
	g.level, g.counts.admit = m.Level+max(0, untold), max(0, m.Admit)
	g.owed.hidden, g.owed.unsent = 0, untold > 0
	g.refuse(m.Wait)
	if m.Exclusive && int32(m.Seq-g.recall.barred) > 0 {
		g.takeBucket(now, m, untold)
	}
}

// refuse refuses the requests that wait, and new requests until a token is due. The owner has counted wait
// from when the question came. So a request that is asked about so long after the question comes to the
// owner when the token is there. A request that comes a little earlier may wait for it.
func (g *Gateway) refuse(wait int64) {
	if g.until, g.denied = 0, wait > 0; g.denied {
		g.until = g.ask.at + wait - min(g.p.Due, wait/2)
	}
}

// takeBucket begins to use the bucket itself. Tokens of earlier grants go back into it. It lacks the part
// of extra that the owner had not received, which is charged as of when it was spent.
func (g *Gateway) takeBucket(now int64, m Grant, untold int64) {
	unspent := g.counts.tokens()
	g.counts.returned += unspent
	g.exclusive, g.until, g.owed.unsent = true, 0, false
	g.alone = bucket{at: now}
	g.alone.fill(max(0, m.Level-unspent), m.Full)
	g.alone.charge(g.p.Burst, untold)
	g.late.advance(g.p, now)
	g.alone.lateFor(g.p, now, untold, g.late.refills(now))
}

// Recall takes in a message of the owner: what is not spent goes back, also what is
// still on its way.
func (g *Gateway) Recall(now int64, m Recall) {
	g.lapse(now)
	if m.Session == g.session && g.owner == 0 && g.ask.open && (m.Seq == g.ask.seq || m.Seq == 0) {
		g.owner = m.Owner // its grant is still on its way, or waits for the answer to this
	}
	if m.Session != g.session || m.Owner != g.owner || int32(m.Number-g.recall.number) < 0 {
		return
	}
	g.silent, g.register = false, false // it knows this session
	if m.Number != g.recall.number {
		g.recall.number = m.Number
		g.recall.barred = m.Seq
		g.recall.left = g.giveUp(now)
		g.believe(m.Granted)
		g.counts.giveBack()
		if g.ask.open && int32(m.Seq-g.ask.seq) >= 0 {
			g.ask.open, g.ask.wanted = false, 0 // its answer is void; what waits asks again
			g.owed.hidden = 0                   // the answer to the recall reports it
		}
	}
	g.recall.due = true
}

// giveUp ends the use of the bucket itself and returns D; −1: it was not had.
func (g *Gateway) giveUp(now int64) int64 {
	if !g.exclusive {
		return -1
	}
	g.alone.advance(g.p, now)
	g.exclusive = false
	g.level, g.heard = g.alone.spent, now
	g.until = 0
	g.recall.full = g.alone.full()
	return g.alone.spent
}
