package link

import "github.com/titrate/titrate/control/exchange"

// codeReport codes what is not of flows.
func codeReport(c *coder, m *exchange.Report) {
	integer(c, "interval", &m.Interval)
	inline(c, "limits", &m.Limits, func(c *coder, l *exchange.LimitCounts) {
		c.str("limits.tenant", &l.Tenant)
		c.str("limits.limit", &l.Limit)
		codeCounts(c, "limits", &l.Counts)
	})
	c.u8("part", &m.Part)
	c.u8("parts", &m.Parts)
	inline(c, "clients", &m.Clients, func(c *coder, x *exchange.ClientCount) {
		c.str("clients.tenant", &x.Tenant)
		c.str("clients.pool", &x.Pool)
		c.str("clients.limit", &x.Limit)
		c.str("clients.client", &x.Client)
		c.u8("clients.effect", (*uint8)(&x.Effect))
		c.f64s("clients", &x.Count, &x.Error)
		if x.Effect >= exchange.Effects {
			c.fail("clients.effect", "%d is unknown", x.Effect)
		}
	})
}

func codeFlowReport(c *coder, f *exchange.FlowReport) {
	c.str("flows.tenant", &f.Tenant)
	c.str("flows.pool", &f.Pool)
	c.f64s("flows", &f.Demand, &f.Served, &f.Waiting, &f.Marked, &f.Rejected, &f.ClientRejected, &f.Shadowed)
	c.boolean("flows.limited", &f.Limited)
	c.f64s("flows", &f.Completed, &f.Residence, &f.Shed, &f.InFlight)
	codeCounts(c, "flows", &f.Counts)
}

func codeCounts(c *coder, field string, counts *exchange.Counts) {
	for _, n := range counts.Fields() {
		c.uvarint(field, n)
	}
}

func codeDecision(c *coder, d *exchange.Decision) {
	for _, s := range []*string{&d.Request, &d.Tenant, &d.Client, &d.Pool, &d.Reason, &d.Limit} {
		c.str("list", s)
	}
	integer(c, "list.age", &d.Age)
	c.f64("list.cost", &d.Cost)
	c.boolean("list.refused", &d.Refused)
	c.boolean("list.marked", &d.Marked)
	c.boolean("list.shadowed", &d.Shadowed)
	integer(c, "list.retry_after", &d.RetryAfter)
	integer(c, "list.waited", &d.Waited)
	integer(c, "list.revision", &d.Revision)
	integer(c, "list.epoch", &d.Epoch)
	s := &d.Share
	c.boolean("list.share.known", &s.Known)
	c.f64s("list.share", &s.Share, &s.Rate, &s.Demand, &s.Credit)
	integer(c, "list.share.waiting", &s.Waiting)
	c.boolean("list.share.lost", &s.Lost)
	inline(c, "list.limits", &d.Limits, func(c *coder, l *exchange.LimitStep) {
		c.str("list.limits.name", &l.Name)
		same := l.Client == d.Client // as a rule: then it is sent once
		c.boolean("list.limits.same_client", &same)
		switch {
		case !same:
			c.str("list.limits.client", &l.Client)
		case c.reading:
			l.Client = d.Client
		}
		c.boolean("list.limits.shadow", &l.Shadow)
		c.boolean("list.limits.passes", &l.Passes)
		c.f64s("list.limits", &l.Rate, &l.Burst, &l.Free)
		integer(c, "list.limits.wait", &l.Wait)
		c.boolean("list.limits.exact", &l.Exact)
		c.boolean("list.limits.silent", &l.Silent)
		c.boolean("list.limits.unasked", &l.Unasked)
		integer(c, "list.limits.concurrency", &l.Concurrency)
	})
	c.str("list.held_by", &d.HeldBy)
	for i := range d.Limits {
		c.f64("list.amounts", &d.Limits[i].Amount)
	}
	parted := uint64(0) // bit i: of limit i; an older filter says nothing
	for i := range d.Limits[:min(len(d.Limits), 64)] {
		if d.Limits[i].Parted {
			parted |= 1 << i
		}
	}
	c.u64("list.parted", &parted)
	if !c.reading {
		return
	}
	for i := range d.Limits[:min(len(d.Limits), 64)] {
		d.Limits[i].Parted = parted>>i&1 != 0
	}
}
