package grant

// Outcome of a request at a gateway.
type Outcome uint8

// The outcomes.
const (
	Refused    Outcome = iota // no token, and none before Gateway.Until
	Admitted                  // a token was spent
	Waits                     // ask again with Retry after the next Grant, or with Expire after Hold
	Unanswered                // no answer of the owner: the caller decides by other means, and reports it with Owe
	Unowned                   // the owner has no room for the key: likewise
)

// Take asks to admit a new request now. cost is in millionths and not above the burst;
// a request that costs more can never pass, which is the caller's to say.
func (g *Gateway) Take(now, cost int64) Outcome {
	g.lapse(now)
	if g.exclusive {
		return g.meet(now, now, cost)
	}
	g.use.add(now, cost)
	if g.waits.need > 0 && !g.silent && now >= g.unowned {
		return g.join(now, cost) // behind the requests that wait
	}
	return g.decide(now, now, cost, false)
}

// Try is Take for a request that does not wait: after Waits nothing has changed.
func (g *Gateway) Try(now, cost int64) Outcome {
	g.lapse(now)
	if g.waits.need > 0 && !g.exclusive && !g.silent && now >= g.unowned {
		if now < g.until {
			return Refused
		}
		return Waits
	}
	out := g.decide(now, now, cost, true)
	if out != Waits && !g.exclusive {
		g.use.add(now, cost)
	}
	return out
}

// PutBack undoes a Take, Try or Retry that has admitted a request.
func (g *Gateway) PutBack(now, cost int64) {
	g.lapse(now)
	switch {
	case g.exclusive:
		g.alone.advance(g.p, now)
		g.alone.charge(g.p.Burst, -cost)
	case g.counts.spent >= cost: // the token is this gateway's again
		g.counts.spent -= cost
	default: // it was spent with an earlier owner
		g.owed.extra -= cost
	}
}

// Retry asks again for a request that waits since the given time. Call it for the waiting
// requests in their order after each Grant, until one waits again.
func (g *Gateway) Retry(now, since, cost int64) Outcome {
	g.lapse(now)
	out := g.decide(now, since, cost, true)
	if out == Waits {
		g.waits.since = since
	} else {
		g.Leave(cost)
	}
	return out
}

// Leave notes that a waiting request has gone.
func (g *Gateway) Leave(cost int64) { g.waits.remove(cost) }

func (g *Gateway) decide(now, since, cost int64, waiting bool) Outcome {
	switch {
	case g.exclusive:
		return g.meet(now, since, cost)
	case g.counts.tokens() >= cost:
		g.spend(now, cost)
		return Admitted
	case now < g.until, waiting && g.denied:
		return Refused
	case now < g.unowned:
		return Unowned
	case g.silent:
		g.owed.lone = true
		return Unanswered
	case waiting:
		return Waits
	}
	return g.join(now, cost)
}

// spend spends tokens that there are.
func (g *Gateway) spend(now, cost int64) {
	g.counts.spent += cost
	presumed := min(g.counts.admit, cost) // the owner has taken it for spent since it granted it
	g.counts.admit -= presumed
	g.late.add(g.p, now, cost-presumed)
}

// meet decides by the bucket, which this gateway has alone, for a request that came at the
// given time.
func (g *Gateway) meet(now, since, cost int64) Outcome {
	b := &g.alone
	b.advance(g.p, now)
	if short := cost - b.free(g.p); short > rounding {
		g.until = now + g.p.time(short)
		return Refused
	}
	b.spent += cost
	b.waited(g.p, since, cost)
	return Admitted
}

func (g *Gateway) join(now, cost int64) Outcome {
	if now < g.until {
		return Refused
	}
	g.waits.add(now, cost)
	return Waits
}

// Until returns before when a refused request need not come again.
func (g *Gateway) Until() int64 { return g.until }

// Expire ends the wait of a request that has waited for Hold. The outcome is never Waits.
func (g *Gateway) Expire(now, cost int64) Outcome {
	g.lapse(now)
	g.Leave(cost)
	g.listen(now)
	if out := g.decide(now, now, cost, true); out != Waits {
		return out
	}
	g.owed.lone = true
	return Unanswered
}
