package grant

// What a gateway does while the owner does not answer.
//
//	part = r − what the others used when last heard, at least r/N
//	       nothing heard: r/N in STRICT, else r
//	burst = b·part/r, of which so much is left as of the bucket when last heard

// Expire decides for a request that has waited for Hold: by this gateway's own part
// of the limit. It never waits.
func (g *Gateway) Expire(now, cost int64) Outcome {
	g.Leave(cost)
	if g.open && now-g.askedAt >= 3*g.p.Hold {
		g.silent = true
	}
	if out := g.decide(now, cost, true); out != Waits {
		return out
	}
	return g.takeOwn(now, cost)
}

// Silent reports whether the owner is taken for silent: requests do not wait for it.
func (g *Gateway) Silent() bool { return g.silent }

func (g *Gateway) takeOwn(now, cost int64) Outcome {
	p := g.ownPart()
	if !g.falling {
		g.falling = true
		g.own = bucket{at: now}
		if d := g.known(now); d > 0 {
			g.own.spent = int64(float64(d) / float64(g.p.Burst) * float64(p.Burst))
		}
	}
	g.own.advance(p, now)
	if g.own.free(p) < min(cost, p.Burst) {
		return Refused
	}
	g.own.spent += cost
	g.extra += cost
	g.late.add(g.p, now, cost)
	return Admitted
}

// ownPart returns the parameters of the part of the limit that is this gateway's.
func (g *Gateway) ownPart() Params {
	p := g.p
	least := p.Rate / float64(g.members)
	switch {
	case g.level >= 0:
		p.Rate = max(least, p.Rate-float64(g.others)/Token)
	case p.Strict:
		p.Rate = least
	}
	p.Burst = max(Token, int64(float64(p.Burst)*p.Rate/g.p.Rate))
	return p
}
