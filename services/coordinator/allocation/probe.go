package allocation

import "math"

// probe finds demand that clients hide because they obey marks and rejects: see
// the package comment. Its level is what a flow counts as wanting. Clients that
// wait in the queue need no probe: what waits counts as demand.
type probe struct {
	level   level
	base    float64 // share when the probe began
	dwell   int     // rounds until the level may be judged
	quiet   int     // rounds without being limited
	rest    int     // rounds until the next probe may start
	backoff int     // rounds that the next failure costs
}

type level uint8

const (
	measured level = iota // what is measured
	quarter               // 1.25 times the share
	double                // twice the share
	open                  // its maximum
)

const (
	used    = .9 // a flow that gets this part of its share uses it
	settle  = 2  // rounds from a share to a report of its use
	forgive = 3  // rounds without being limited that end a probe
	// A failed probe reserves a quarter of a share for about three rounds: rests
	// of 8 to 64 rounds keep what saturated tenants lose to it below 1 %.
	minBackoff = 8
	maxBackoff = 64
)

// step moves on after a round with new reports: served and share in units/s, the
// share being the one that the report's interval had; limited by the tenant
// stage; pool: the pool held the share, not demand.
func (p *probe) step(served, share float64, limited, pool bool) {
	p.rest, p.dwell = max(p.rest-1, 0), max(p.dwell-1, 0)
	if limited {
		p.quiet = 0
	} else {
		p.quiet++
	}
	uses := served >= used*share
	switch {
	case limited && uses && pool:
		p.level, p.base, p.dwell = open, share, settle
	case p.dwell > 0:
	case p.level != measured && !uses:
		p.fail()
	case p.level != measured && p.quiet >= forgive:
		p.level, p.backoff = measured, 0
	case limited && uses && p.level != open && p.rest == 0:
		p.raise(share)
	}
}

// raise offers more.
func (p *probe) raise(share float64) {
	if p.level == measured {
		p.base = share
	}
	p.level, p.dwell = p.level+1, settle
}

// fail ends a probe that was not used and puts off the next.
func (p *probe) fail() {
	p.backoff = min(max(2*p.backoff, minBackoff), maxBackoff)
	p.level, p.rest = measured, p.backoff
}

// want is what a flow with this measured demand counts as wanting.
func (p *probe) want(demand float64) float64 {
	switch p.level {
	case quarter:
		return math.Max(demand, 1.25*p.base)
	case double:
		return math.Max(demand, 2*p.base)
	case open:
		return math.Inf(1)
	default:
		return demand
	}
}
