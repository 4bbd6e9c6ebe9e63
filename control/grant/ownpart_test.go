package grant

// ownPart is the caller's own limit while the owner is unreachable.
//
//	part = r − what the others last reported to use; no report: r/N in STRICT, else r
//	burst = b·part/r, of which so much is left as of the bucket in the last report
type ownPart struct {
	inUse bool
	b     bucket
}

// take decides a request that was left unanswered.
func (o *ownPart) take(g *Gateway, members int, now, cost int64) Outcome {
	p := g.p
	least := p.Rate / float64(members)
	switch {
	case g.level >= 0:
		p.Rate = max(least, p.Rate-float64(g.others)/Token)
	case p.Strict:
		p.Rate = least
	}
	p.Burst = max(Token, int64(float64(p.Burst)*p.Rate/g.p.Rate))
	if !o.inUse {
		o.inUse, o.b = true, bucket{at: now}
		if d := g.known(now); d > 0 {
			o.b.spent = int64(float64(d) / float64(g.p.Burst) * float64(p.Burst))
		}
	}
	o.b.advance(p, now)
	if o.b.free(p) < min(cost, p.Burst) {
		return Refused
	}
	o.b.spent += cost
	g.Owe(now, cost)
	return Admitted
}
