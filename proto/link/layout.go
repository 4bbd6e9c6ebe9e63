package link

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// Sizes of the records in version 1, without their strings' bytes: a record
// that is shorter is malformed. They never change; appended fields are
// optional.
const (
	sizeHeartbeat   = 3*8 + 2
	sizeShares      = 2*8 + 1
	sizeShare       = 2*2 + 2*8
	sizePoolShare   = 2 + 2*8
	sizeSums        = 5*8 + 1
	sizeFlow        = 4 * 8
	sizeKeySum      = 9*8 + 5
	sizeKeyClaim    = 7*8 + 1
	sizeReport      = 8
	sizeFlowReport  = 2*2 + 7*8 + 1
	sizeKey         = 8
	sizeRefused     = 2 * 8
	sizeRefusal     = 3 * 2
	sizeName        = 2
	sizeSpent       = 2*8 + 1
	sizeRequest     = 15*8 + 3*4 + 4
	sizeGrant       = 9*8 + 2*4 + 4
	sizeRecall      = 4*8 + 3*4
	sizeRequests    = 8
	sizeAnswers     = 8
	sizeOwner       = 2 * 8
	sizeSlotAsks    = 2 * 8
	sizeSlotAsk     = 10*8 + 2*4 + 3 + 3*2
	sizeSlotReplies = 2 * 8
	sizeSlotReply   = 6*8 + 2*4 + 3
	sizeQuotas      = 8
	sizeQuotaAsk    = 14*8 + 2*4 + 1 + 3*2
	sizeQuotaReply  = 10*8 + 2*4 + 2
	sizeDecision    = 6*2 + 6*8 + 3 + 1 + 5*8 + 2
)

// code writes or reads the binary messages; the order here is the layout.
func code(c *coder, m Message) {
	switch m := m.(type) {
	case *exchange.Shares:
		codeShares(c, m)
	case *exchange.Sums:
		codeSums(c, m)
	case *exchange.Claims:
		list(c, "flows", sizeFlow, &m.Flows, codeFlowClaim)
		list(c, "keys", sizeKeyClaim, &m.Keys, codeKeyClaim)
		list(c, "withdrawn", sizeKey, &m.Withdrawn, func(c *coder, k *uint64) { c.u64("withdrawn", k) })
	case *exchange.Report:
		c.record("report", sizeReport, func() { codeReport(c, m) })
		list(c, "flows", sizeFlowReport, &m.Flows, codeFlowReport)
	case *Refused:
		codeRefused(c, m)
	case *exchange.Names:
		text := func(c *coder, s *string) { c.str("name", s) }
		list(c, "identities", sizeName, &m.Identities, text)
		list(c, "classes", sizeName, &m.Classes, text)
		list(c, "costs", sizeName, &m.Costs, text)
	case *exchange.Spent:
		list(c, "keys", sizeSpent, &m.Keys, func(c *coder, k *exchange.KeySpent) {
			c.u64("keys.key", &k.Key)
			integer(c, "keys.ahead", &k.Ahead)
			c.boolean("keys.named", &k.Named)
		})
	case *exchange.Decisions:
		list(c, "list", sizeDecision, &m.List, codeDecision)
	case *exchange.TokenRequests:
		codeTokenRequests(c, m)
	case *exchange.TokenAnswers:
		codeTokenAnswers(c, m)
	case *exchange.SlotAsks:
		codeSlotAsks(c, m)
	case *exchange.SlotReplies:
		codeSlotReplies(c, m)
	case *exchange.QuotaAsks, *exchange.QuotaReplies:
		codeQuotas(c, m)
	case *Heartbeat:
		codeHeartbeat(c, m)
	}
}

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

func codeHeartbeat(c *coder, m *Heartbeat) {
	c.record("heartbeat", sizeHeartbeat, func() {
		c.u64("sequence", &m.Sequence)
		integer(c, "revision", &m.Revision)
		integer(c, "refused", &m.Refused)
		c.str("reason", &m.Reason)
		c.u64("parted", &m.Parted)
		c.str("features", &m.Features)
		integer(c, "clock", &m.Clock)
	})
}

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

func codeShares(c *coder, m *exchange.Shares) {
	c.record("shares", sizeShares, func() {
		integer(c, "epoch", &m.Epoch)
		integer(c, "revision", &m.Revision)
		c.boolean("stale", &m.Stale)
	})
	list(c, "flows", sizeShare, &m.Flows, func(c *coder, s *exchange.Share) {
		c.str("tenant", &s.Tenant)
		c.str("pool", &s.Pool)
		c.f64("share", &s.Share)
		c.f64("demand", &s.Demand)
	})
	list(c, "pools", sizePoolShare, &m.Pools, func(c *coder, s *exchange.PoolShare) {
		c.str("pool", &s.Pool)
		c.f64("price", &s.Price)
		c.f64("idle_share", &s.IdleShare)
		c.f64("guarantee_scale", &s.GuaranteeScale)
		c.f64("unused", &s.Unused)
	})
}

func codeSums(c *coder, m *exchange.Sums) {
	c.record("sums", sizeSums, func() {
		integer(c, "replicas", &m.Replicas)
		c.f64("total_weight", &m.TotalWeight)
		c.f64("weight", &m.Weight)
		integer(c, "lag", &m.Lag)
		c.f64("absent", &m.Absent)
		c.u8("isolation", (*uint8)(&m.Isolation))
		if m.Isolation > exchange.Split {
			c.fail("isolation", "%d is unknown", m.Isolation)
		}
		c.boolean("full", &m.Full)
		c.boolean("more", &m.More)
		c.boolean("exact", &m.Exact)
	})
	list(c, "flows", sizeFlow, &m.Flows, func(c *coder, s *exchange.FlowSum) {
		c.u64("flows.key", &s.Key)
		c.f64s("flows", &s.Claims, &s.Active, &s.Unsaturated)
	})
	list(c, "keys", sizeKeySum, &m.Keys, func(c *coder, s *exchange.KeySum) {
		c.u64("keys.key", &s.Key)
		c.f64s("keys", &s.Admitted, &s.Claims, &s.Active, &s.Unsaturated, &s.Spent, &s.Own, &s.Gap, &s.Assumed)
		c.u32("keys.epoch", &s.Epoch)
		c.boolean("keys.abroad", &s.Abroad)
	})
	list(c, "gone", sizeKey, &m.Gone, func(c *coder, k *uint64) { c.u64("gone", k) })
}

func codeFlowClaim(c *coder, f *exchange.FlowClaim) {
	c.u64("flows.key", &f.Key)
	c.f64s("flows", &f.Claim, &f.Active, &f.Unsaturated)
}

func codeKeyClaim(c *coder, k *exchange.KeyClaim) {
	c.u64("keys.key", &k.Key)
	c.f64s("keys", &k.Claim, &k.Active, &k.Unsaturated, &k.Admitted, &k.Spent, &k.Own)
	c.boolean("keys.owned", &k.Owned)
}

func codeFlowReport(c *coder, f *exchange.FlowReport) {
	c.str("flows.tenant", &f.Tenant)
	c.str("flows.pool", &f.Pool)
	c.f64s("flows", &f.Demand, &f.Served, &f.Waiting, &f.Marked, &f.Rejected, &f.ClientRejected, &f.Shadowed)
	c.boolean("flows.limited", &f.Limited)
	c.f64s("flows", &f.Completed, &f.Residence, &f.Shed, &f.InFlight)
	codeCounts(c, "flows", &f.Counts)
}

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

func codeTokenRequests(c *coder, m *exchange.TokenRequests) {
	c.record("requests", sizeRequests, func() {
		c.u64("registered", &m.Registered)
		codeDivision(c, "divides", &m.Divides)
		inline(c, "answers", &m.Answers, codePartAnswer)
	})
	list(c, "list", sizeRequest, &m.List, codeTokenRequest)
}

func codeTokenAnswers(c *coder, m *exchange.TokenAnswers) {
	c.record("answers", sizeAnswers, func() {
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

func codeTokenRecall(c *coder, r *exchange.TokenRecall) {
	for _, v := range []*uint64{&r.Key, &r.Owner, &r.Session} {
		c.u64("recalls", v)
	}
	integer(c, "recalls.granted", &r.Granted)
	c.u32("recalls.number", &r.Number)
	c.u32("recalls.seq", &r.Seq)
	c.u32("recalls.seen", &r.Seen)
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

// codeName codes whose key a message is about.
func codeName(c *coder, n *exchange.KeyName) {
	for _, v := range []*string{&n.Tenant, &n.Limit, &n.Client, &n.Plan} {
		c.str("list.name", v)
	}
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

func codeCounts(c *coder, field string, counts *exchange.Counts) {
	for _, n := range counts.Fields() {
		c.uvarint(field, n)
	}
}

func codeRefused(c *coder, m *Refused) {
	c.record("refused", sizeRefused, func() {
		integer(c, "revision", &m.Revision)
		integer(c, "total", &m.Total)
	})
	list(c, "limits", sizeRefusal, &m.Limits, func(c *coder, r *config.LeftOut) {
		c.str("limits.tenant", &r.Tenant)
		c.str("limits.limit", &r.Limit)
		c.str("limits.reason", &r.Reason)
	})
	if c.reading && c.err == nil && (m.Total < len(m.Limits) || len(m.Limits) > MaxRefused) {
		c.fail("total", "is %d beside %d limits, at least as many and at most %d limits are allowed",
			m.Total, len(m.Limits), MaxRefused)
	}
}

// decode reads one whole payload of a kind that parseHeader knows.
func decode(k kind, b []byte) (Message, error) {
	m := blanks[k]()
	if k == kindHello || k == kindConfig || k == kindDelta {
		return decodeJSON(k, b, m)
	}
	c := coder{buf: b, reading: true, message: k}
	code(&c, m)
	if c.err == nil && c.at != len(b) {
		c.fail("", "%d bytes too many", len(b)-c.at)
	}
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

func decodeJSON(k kind, b []byte, m Message) (Message, error) {
	if err := json.Unmarshal(b, m); err != nil {
		return nil, &FormatError{Message: k.String(), Reason: err.Error()}
	}
	if h, ok := m.(*Hello); ok {
		if err := h.check(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// check sets the default weight and refuses what no peer can mean.
func (h *Hello) check() error {
	bad := func(field, format string, args ...any) error {
		return &FormatError{Message: "Hello", Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	if h.Weight == 0 {
		h.Weight = 1
	}
	switch {
	case h.Version == 0:
		return bad("version", "is missing")
	case h.Replica == "":
		return bad("replica", "is missing: the process needs a name")
	case h.Weight < 0:
		return bad("weight", "is %v, must be above 0", h.Weight)
	case h.Generation > math.MaxInt64:
		return bad("generation", "is %d, nanoseconds since 1970 are at most %d", h.Generation, math.MaxInt64)
	}
	return nil
}
