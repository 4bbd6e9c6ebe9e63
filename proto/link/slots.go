package link

import "github.com/titrate/titrate/control/exchange"

func codeSlotAsks(c *coder, m *exchange.SlotAsks) {
	c.record("asks", sizeSlotAsks, func() {
		c.u64("owner", &m.Owner)
		integer(c, "sent", &m.Sent)
	})
	list(c, "list", sizeSlotAsk, &m.List, codeSlotAsk)
}

func codeSlotReplies(c *coder, m *exchange.SlotReplies) {
	c.record("replies", sizeSlotReplies, func() {
		c.u64("owner", &m.Owner)
		integer(c, "echo", &m.Echo)
	})
	list(c, "list", sizeSlotReply, &m.List, codeSlotReply)
}

func codeSlotAsk(c *coder, a *exchange.SlotAsk) {
	for _, v := range []*uint64{&a.Key, &a.Owner, &a.Session} {
		c.u64("list", v)
	}
	for _, v := range []*int64{&a.Brought, &a.Received, &a.Returned, &a.Want, &a.Patience, &a.Rate, &a.Stay} {
		integer(c, "list", v)
	}
	c.u32("list.number", &a.Number)
	c.u32("list.heard", &a.Heard)
	c.boolean("list.register", &a.Register)
	c.boolean("list.confirm", &a.Confirm)
	c.boolean("list.released", &a.Released)
	codeName(c, &a.KeyName)
}

func codeSlotReply(c *coder, t *exchange.SlotReply) {
	for _, v := range []*uint64{&t.Key, &t.Owner, &t.Session} {
		c.u64("list", v)
	}
	for _, v := range []*int64{&t.Granted, &t.Short, &t.Keep} {
		integer(c, "list", v)
	}
	c.u32("list.number", &t.Number)
	c.u32("list.seen", &t.Seen)
	for _, v := range []*bool{&t.Full, &t.Answer, &t.Begin} {
		c.boolean("list", v)
	}
}
