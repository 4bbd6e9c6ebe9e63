package limiter

import (
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
)

// membership is what this replica knows of the others. It is replaced as a
// whole when it changes; version tells states when to configure themselves.
type membership struct {
	version   uint32
	replicas  float64 // N
	weight    float64 // w
	total     float64 // W
	lag       float64 // δ, seconds
	absent    float64
	isolation exchange.Isolation
}

// alone is the membership of a replica that has heard of no other.
func alone() *membership {
	return &membership{version: 1, replicas: 1, weight: 1, total: 1}
}

func newMembership(s *exchange.Sums, version uint32) *membership {
	m := &membership{
		version: version, replicas: float64(max(1, s.Replicas)), weight: 1,
		lag: max(0, s.Lag.Seconds()), absent: s.Absent, isolation: min(s.Isolation, exchange.Alone),
	}
	if s.Weight > 0 {
		m.weight = s.Weight
	}
	if m.replicas == 1 {
		m.lag = 0 // nobody needs to hear
	}
	m.total = m.weight
	if s.TotalWeight > m.weight {
		m.total = s.TotalWeight
	}
	return m
}

// same reports whether nothing but the version differs.
func (m *membership) same(o *membership) bool {
	c := *o
	c.version = m.version
	return *m == c
}

// local returns the numbers of a limit that this replica goes by: when it has
// been cut off for long, its static part.
func (m *membership) local(n numbers) numbers {
	if m.isolation >= exchange.Split {
		part := m.weight / m.total
		n.rate *= part
		n.burst = max(min(n.burst, 1), n.burst*part)
	}
	return n
}

// ledger returns the parameters of a contended key.
func (m *membership) ledger(n numbers) drc.LedgerParams {
	p := drc.LedgerParams{Rate: n.rate, Burst: n.burst, Replicas: m.replicas, Lag: m.lag, Strict: n.strict}
	if m.isolation >= exchange.Split {
		p.Replicas = 1
	}
	return p
}

// flow returns the parameters of a flow's controller.
func (m *membership) flow(rate, period float64) drc.Params {
	return drc.Params{
		Rate: rate, Weight: m.weight, TotalWeight: m.total, Replicas: m.replicas,
		Guarantee: drc.DefaultGuarantee, Lag: m.lag, Period: period,
		Bucket: m.bucket(rate),
	}
}

// bucket returns B, the cost that a flow may pass at once at this replica: 50 ms
// of its static part, for a small flow up to 250 ms or ten requests. With less, a few
// requests per second that come close together by chance would look like overload, far
// below the share.
func (m *membership) bucket(rate float64) float64 {
	part := rate / m.replicas
	return max(1, min(10, 0.25*part), 0.05*part)
}

// isolations maps the engine's to the controller's.
var isolations = [...]drc.Isolation{exchange.Connected: drc.Connected, exchange.Frozen: drc.Frozen, exchange.Split: drc.Split, exchange.Alone: drc.Alone}
