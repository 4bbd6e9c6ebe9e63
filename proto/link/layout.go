package link

import (
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
	sizeKeyClaim    = 7*8 + 2
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
	sizeRequests    = 9
	sizeAnswers     = 9
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
	c.boolean("keys.exact", &k.Exact)
}

// codeName codes whose key a message is about.
func codeName(c *coder, n *exchange.KeyName) {
	for _, v := range []*string{&n.Tenant, &n.Limit, &n.Client, &n.Plan} {
		c.str("list.name", v)
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
