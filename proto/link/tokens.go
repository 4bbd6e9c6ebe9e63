package link

import "github.com/titrate/titrate/control/exchange"

func codeTokenRequests(c *coder, m *exchange.TokenRequests) {
	c.record("requests", sizeRequests, func() {
		c.boolean("global", &m.Global)
		c.u64("registered", &m.Registered)
		codeDivision(c, "divides", &m.Divides)
		inline(c, "answers", &m.Answers, codePartAnswer)
	})
	list(c, "list", sizeRequest, &m.List, codeTokenRequest)
}

func codeTokenAnswers(c *coder, m *exchange.TokenAnswers) {
	c.record("answers", sizeAnswers, func() {
		c.boolean("global", &m.Global)
		c.u64("view", &m.Owners.View)
		codeDivision(c, "division", &m.Division)
		inline(c, "calls", &m.Calls, codePartCall)
	})
	list(c, "owners", sizeOwner, &m.Owners.List, func(c *coder, o *exchange.Owner) {
		c.u64("owners.hash", &o.Hash)
		c.u64("owners.life", &o.Life)
	})
	list(c, "grants", sizeGrant, &m.Grants, codeTokenGrant)
	list(c, "recalls", sizeRecall, &m.Recalls, codeTokenRecall)
}

func codeTokenRequest(c *coder, q *exchange.TokenRequest) {
	for _, v := range []*uint64{&q.Key, &q.Session, &q.Owner} {
		c.u64("list", v)
	}
	for _, v := range []*int64{&q.Granted, &q.Spent, &q.Returned, &q.Extra, &q.Need, &q.Least, &q.Ahead,
		&q.Use, &q.Refills[0].Amount, &q.Refills[0].Age, &q.Level} {
		integer(c, "list", v)
	}
	for _, v := range []*uint32{&q.Number, &q.Seq, &q.Recalled} {
		c.u32("list", v)
	}
	for _, v := range []*bool{&q.Exclusive, &q.Register, &q.Released, &q.Forgotten} {
		c.boolean("list", v)
	}
	integer(c, "list.held", &q.Held)
	integer(c, "list.waited", &q.Waited)
	integer(c, "list.full", &q.Full)
	for i := 1; i < len(q.Refills); i++ {
		integer(c, "list.refills", &q.Refills[i].Amount)
		integer(c, "list.refills", &q.Refills[i].Age)
	}
	codeName(c, &q.KeyName)
}

func codeTokenGrant(c *coder, g *exchange.TokenGrant) {
	for _, v := range []*uint64{&g.Key, &g.Owner, &g.Session} {
		c.u64("grants", v)
	}
	for _, v := range []*int64{&g.Granted, &g.Admit, &g.Wait, &g.Others, &g.Level} {
		integer(c, "grants", v)
	}
	c.u32("grants.seq", &g.Seq)
	c.u32("grants.seen", &g.Seen)
	c.boolean("grants.exclusive", &g.Exclusive)
	c.boolean("grants.pending", &g.Pending)
	c.boolean("grants.begin", &g.Begin)
	c.boolean("grants.no_room", &g.NoRoom)
	integer(c, "grants.full", &g.Full)
	integer(c, "grants.valid", &g.Valid)
}

func codeTokenRecall(c *coder, r *exchange.TokenRecall) {
	for _, v := range []*uint64{&r.Key, &r.Owner, &r.Session} {
		c.u64("recalls", v)
	}
	integer(c, "recalls.granted", &r.Granted)
	c.u32("recalls.number", &r.Number)
	c.u32("recalls.seq", &r.Seq)
	c.u32("recalls.seen", &r.Seen)
}

// codeDivision codes what may not be there.
func codeDivision(c *coder, field string, d **exchange.Division) {
	var v exchange.Division
	given := *d != nil
	if given {
		v = **d
	}
	c.boolean(field, &given)
	c.boolean(field, &v.Full)
	c.u32(field, &v.Gateways)
	if c.reading && given {
		*d = &v
	}
}

func codePartCall(c *coder, p *exchange.PartCall) {
	c.u64("calls.key", &p.Key)
	c.u64("calls.owner", &p.Owner)
	for _, v := range []*int64{&p.At, &p.Lease, &p.Burst} {
		integer(c, "calls", v)
	}
	c.f64("calls.rate", &p.Rate)
}

func codePartAnswer(c *coder, a *exchange.PartAnswer) {
	for _, v := range []*uint64{&a.Key, &a.Owner, &a.Given} {
		c.u64("answers", v)
	}
	for _, v := range []*int64{&a.At, &a.Size, &a.Spent, &a.Full, &a.Since, &a.Base} {
		integer(c, "answers", v)
	}
	inline(c, "answers.spends", &a.Spends, func(c *coder, e *exchange.Spend) {
		integer(c, "answers.spends", &e.Age)
		integer(c, "answers.spends", &e.Cost)
	})
}
