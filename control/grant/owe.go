package grant

// owed counts what a gateway has charged without a token in a session, and what its owner knows of that.
type owed struct {
	extra  int64 // all
	both   int64 // of extra: Gateway.level has it, too
	hidden int64 // of extra: owed since the open question was asked, and reported after its answer
	unsent bool  // the owner must be sent extra, or tokens that were returned, soon
	lone   bool  // the caller has just been left to decide by other means, and may owe
	told   [8]toldExtra
}

// Owe charges cost that cannot be refused, such as the cost of a response beyond its
// estimate. A negative one gives back.
func (g *Gateway) Owe(now, cost int64) {
	g.lapse(now)
	if g.exclusive {
		g.alone.advance(g.p, now)
		g.alone.charge(g.p.Burst, cost)
		return
	}
	g.owed.extra += cost
	if g.ask.open {
		g.owed.hidden = max(0, g.owed.hidden+cost)
	} else {
		g.owed.unsent = g.owed.unsent || g.owed.lone
	}
	g.owed.lone = false
	g.late.add(g.p, now, cost)
	if g.unowned == 0 { // else the caller knows it
		g.level, g.heard = max(0, g.known(now)+cost), now
		g.owed.both += cost
	}
}

// spendEvery is the least time between two messages about cost that Spend has charged.
const spendEvery = second / 20

// Spend charges cost that was admitted elsewhere, without asking: the tokens that there are, and the rest as Owe does.
// It is a use for which tokens are asked ahead, so a bucket that another gateway has alone is recalled.
func (g *Gateway) Spend(now, cost int64) {
	if !g.exclusive {
		g.use.add(now, cost)
		paid := min(cost, max(0, g.counts.tokens()))
		g.spend(now, paid)
		cost -= paid
	}
	if cost > 0 {
		g.Owe(now, cost)
		g.owed.unsent = g.owed.unsent || !g.exclusive && !g.ask.open && now-g.ask.at >= spendEvery
	}
}

// toldExtra is the value of extra that a message has reported.
type toldExtra struct {
	number uint32
	extra  int64
}

// untold returns the part of extra that the owner had not received with the message that it has seen:
// the bucket that it grants lacks that part. For a message of long ago it is all that was reported
// since the oldest remembered message.
func (g *Gateway) untold(seen uint32) int64 {
	o := &g.owed
	if at := o.told[seen%uint32(len(o.told))]; at.number == seen {
		return o.extra - at.extra
	}
	return o.extra - o.told[(g.number+1)%uint32(len(o.told))].extra
}
