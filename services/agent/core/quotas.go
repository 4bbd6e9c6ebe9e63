package core

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/quotas"
)

// quotaLimit returns what the configuration in force gives a key of a limit with a quota.
func (c *Core) quotaLimit(name *exchange.KeyName) (key uint64, t calendar.Terms, periods config.Calendar, ok bool) {
	in := c.applied.Configuration()
	if in == nil {
		return 0, t, periods, false
	}
	return limiter.QuotaKey(in, c.Clock(c.ran), name)
}

// quotaReset returns when the configuration in force says that a key was reset; 0: never.
func (c *Core) quotaReset(name *exchange.KeyName) config.Instant {
	if in := c.applied.Configuration(); in != nil {
		return limiter.ResetOf(in, name)
	}
	return 0
}

// sendQuotas puts out the messages about quotas for gateways, other agents and coordinators.
func (c *Core) sendQuotas() {
	answers, packets, bookings := c.quotas.Take()
	answerAll(c, answers)
	for _, to := range slices.Sorted(maps.Keys(packets)) {
		for _, m := range quotas.Encode(packets[to]) {
			c.sendAgent(to, &gossipv1.Tokens{Quotas: m})
		}
	}
	c.out.Bookings = append(c.out.Bookings, bookings...)
}

// SetPeriods takes in which periods a coordinator says it is. fresh: it is the first message of its stream.
func (c *Core) SetPeriods(now time.Duration, list []quotas.Period, fresh bool) Effects {
	c.run(now)
	if fresh {
		c.quotas.Report(now)
	}
	c.quotas.SetPeriods(now, list)
	return c.take()
}

// Booked takes in a coordinator's answers to bookings.
func (c *Core) Booked(now time.Duration, list []quotas.Answer) Effects {
	c.run(now)
	c.quotas.Booked(now, list)
	return c.take()
}

// CloseQuotas has the owners here give back what they have, because this agent ends.
func (c *Core) CloseQuotas(now time.Duration) Effects {
	c.quotas.Close(now)
	c.quotas.Tick(now)
	return c.take()
}
