package coordinator

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/titrate/titrate/services/telemetry"
)

// usageMetrics are about calendar quotas. All but the webhook's are 0 where another coordinator takes bookings.
var usageMetrics = []telemetry.Instrument[measurements]{
	{Name: "titrate_calendar_quota_used", Labels: []string{"tenant", "limit"},
		Help: "Highest part of a calendar quota that one client has used in the present period. Only the limits with " +
			"the highest part, as many as --metrics-tenants says.",
		Read: func(m measurements, put telemetry.Put) {
			for _, p := range m.o.ledger.Parts(m.o.config.TopTenants) {
				put(p.Used, attribute.String("tenant", p.Tenant), attribute.String("limit", p.Limit))
			}
		}},
	{Name: "titrate_usage_records", Help: "Records of calendar quotas that are kept: one per client and period.",
		Read: telemetry.One(func(m measurements) int { return m.ledger.Records })},
	{Name: "titrate_bookings", Counter: true, Labels: []string{"outcome"},
		Help: "Bookings of calendar quotas by outcome. given; repeated (the same again); away (etcd has not stored " +
			"it yet). full (as many records as can be kept); late (the period is final); unsent (the agent was slow).",
		Read: func(m measurements, put telemetry.Put) {
			for outcome, n := range map[string]uint64{"given": m.ledger.Given, "repeated": m.ledger.Repeated,
				"away": m.ledger.Away, "full": m.ledger.Full, "late": m.ledger.Late, "unsent": m.o.streams.Unsent()} {
				put(float64(n), attribute.String("outcome", outcome))
			}
		}},
	{Name: "titrate_booking_transactions", Counter: true, Help: "Transactions that stored bookings in etcd.",
		Read: telemetry.One(func(m measurements) uint64 { return m.ledger.Transactions })},
	{Name: "titrate_booking_bytes", Counter: true, Help: "Bytes of the values that stored bookings in etcd.",
		Read: telemetry.One(func(m measurements) uint64 { return m.ledger.Bytes })},
	{Name: "titrate_booking_refusals", Counter: true,
		Help: "Tries in which etcd refused bookings until somebody changes something: it is full, may not be " +
			"written, or a part is too large. The log has the reason.",
		Read: telemetry.One(func(m measurements) uint64 { return m.ledger.Refused })},
	{Name: "titrate_usage_corrections", Counter: true, Labels: []string{"reason"},
		Help: "Use that is known less exactly. restored: etcd knew less than agents. folded: 64 owners of a key are " +
			"lost. unreadable: stored values. late: after the record was final. dropped: records that made room.",
		Read: func(m measurements, put telemetry.Put) {
			put(float64(m.ledger.Restored), attribute.String("reason", "restored"))
			put(float64(m.ledger.LateUse), attribute.String("reason", "late"))
			put(float64(m.ledger.Dropped), attribute.String("reason", "dropped"))
			put(float64(m.ledger.Folded), attribute.String("reason", "folded"))
			put(float64(m.ledger.Unreadable+m.ledger.Counts.Unreadable), attribute.String("reason", "unreadable"))
		}},
	{Name: "titrate_usage_events", Counter: true, Labels: []string{"outcome"},
		Help: "Requests to --usage-webhook, by outcome: delivered or failed; and events that are given up a day " +
			"after their period: expired. Only with --usage-webhook.",
		Read: func(m measurements, put telemetry.Put) {
			if m.o.webhook != nil {
				s := m.o.webhook.Stats()
				put(float64(s.Delivered), attribute.String("outcome", "delivered"))
				put(float64(s.Failed), attribute.String("outcome", "failed"))
				put(float64(m.ledger.Expired), attribute.String("outcome", "expired"))
			}
		}},
	{Name: "titrate_usage_events_waiting",
		Help: "Usage events that were tried and not taken. Only with --usage-webhook.",
		Read: func(m measurements, put telemetry.Put) {
			if m.o.webhook != nil {
				put(float64(m.o.webhook.Stats().Waiting))
			}
		}},
}
