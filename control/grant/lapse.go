package grant

// validFor notes for how long after the question what is granted holds.
func (g *Gateway) validFor(valid int64) {
	switch {
	case valid >= forever:
		g.lapseAt = 0
	case valid > 0:
		valid -= valid / drift
		g.lapseAt, g.renewAt = g.ask.at+valid, g.ask.at+valid*3/4
	}
}

// lapse gives up what is void: others may use their parts of the bucket. The owner is sent what was spent.
func (g *Gateway) lapse(now int64) {
	if g.lapseAt == 0 || now < g.lapseAt || !g.exclusive && g.counts.tokens() <= 0 {
		return
	}
	g.giveUp(now)
	g.counts.giveBack()
	g.change(now, g.owner)
}

// HasBucket reports whether the gateway has the bucket itself.
func (g *Gateway) HasBucket() bool { return g.exclusive }
