package link

import "github.com/titrate/titrate/control/exchange"

func codeQuotas(c *coder, m Message) {
	switch m := m.(type) {
	case *exchange.QuotaAsks:
		c.record("asks", sizeQuotas, func() { c.u64("owner", &m.Owner) })
		list(c, "list", sizeQuotaAsk, &m.List, codeQuotaAsk)
	case *exchange.QuotaReplies:
		c.record("replies", sizeQuotas, func() { c.u64("owner", &m.Owner) })
		list(c, "list", sizeQuotaReply, &m.List, codeQuotaReply)
	}
}

func codeQuotaAsk(c *coder, a *exchange.QuotaAsk) {
	for _, v := range []*uint64{&a.Key, &a.Owner, &a.Session, &a.Granter} {
		c.u64("list", v)
	}
	integer(c, "list.period", &a.Period)
	for _, v := range []*exchange.Units{&a.Brought, &a.Received, &a.Returned, &a.Has, &a.Want, &a.Ahead, &a.Known,
		&a.Unbooked, &a.Admitted, &a.Refused, &a.Settled} {
		integer(c, "list", v)
	}
	c.u32("list.number", &a.Number)
	c.u32("list.heard", &a.Heard)
	c.boolean("list.ended", &a.Ended)
	codeName(c, &a.KeyName)
}

func codeQuotaReply(c *coder, t *exchange.QuotaReply) {
	for _, v := range []*uint64{&t.Key, &t.Owner, &t.Session} {
		c.u64("list", v)
	}
	for _, v := range []*int64{&t.Period, &t.Left, &t.Refuse} {
		integer(c, "list", v)
	}
	for _, v := range []*exchange.Units{&t.Granted, &t.Amount, &t.Remaining, &t.Known, &t.Unbooked} {
		integer(c, "list", v)
	}
	c.u32("list.number", &t.Number)
	c.u32("list.seen", &t.Seen)
	c.boolean("list.recall", &t.Recall)
	c.boolean("list.begin", &t.Begin)
}
