package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/activity"
	"github.com/titrate/titrate/services/agent/aggregation"
	"github.com/titrate/titrate/services/agent/applied"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/quotas"
	"github.com/titrate/titrate/services/agent/slots"
	"github.com/titrate/titrate/services/agent/tokens"
	"github.com/titrate/titrate/services/wording"
)

// Status is the state of the core, for people and metrics.
type Status struct {
	Applied      applied.Status
	Aggregation  aggregation.Status
	Gateways     []GatewayStatus // connected, by name and generation
	Peers        []schedule.PeerStatus
	MissingPeers []string
	GossipDelay  time.Duration // largest one-way delay
	Way          schedule.Way
	// Exact says whether limits that state no precision are EXACT, ExactWhy why or why not, and Switches
	// how often that has changed.
	Exact    bool
	ExactWhy string
	Switches uint64
	// GlobalWhy says why ledgers decide for limits of the scope GLOBAL; "": owners do.
	GlobalWhy string
	// Unasked are limits of whose new keys some went by the ledger in the last minute.
	Unasked []activity.Unasked
	Traffic schedule.Traffic
	Tokens  tokens.Stats
	Slots   slots.Stats
	Quotas  quotas.Stats
	// DoubleNames are replica names that several Envoys have which are no parent and child
	// of a hot restart; Doubles counts the names that ever were.
	DoubleNames []string
	Doubles     uint64
	// Resent counts the changes of the configuration that a gateway refused and was then sent
	// the whole.
	Resent uint64
	// SpentKeys are remembered for gateways that restart; SpentKeysLost found no room.
	SpentKeys     int
	SpentKeysLost uint64
	// Series count the outcomes of requests, ActivityRows the rows in use, ActivityLost outcomes without a row.
	Series       []activity.Series
	ActivityRows int
	ActivityLost uint64
	// Doubted counts what gateways here have sent that was dropped or cut, by reason.
	Doubted [Doubts]uint64
}

// GatewayStatus is a gateway that is connected.
type GatewayStatus struct {
	Process
	Hello   link.Hello
	PID     int
	Age     time.Duration // of the connection
	InForce link.Heartbeat
	LeftOut link.Refused
}

// Status returns what is known now.
func (c *Core) Status(now time.Duration) Status {
	s := Status{Applied: c.applied.Status(now), Aggregation: c.aggregator.Status(now), Peers: c.peers.Status(now),
		Exact: c.exact, ExactWhy: c.exactWhy, Switches: c.switches, GlobalWhy: c.all.why,
		MissingPeers: c.peers.Missing(now), GossipDelay: c.peers.Delay(now), Way: c.peers.Way(),
		Unasked:     c.activity.Unasked(now),
		Traffic:     c.peers.Traffic(),
		Tokens:      c.tokens[exchange.OfSite].Stats().Plus(c.tokens[exchange.OfAll].Stats()),
		Slots:       c.slots.Stats(),
		Quotas:      c.quotas.Stats(),
		DoubleNames: slices.Sorted(maps.Keys(c.doubled)), Doubles: c.doubles, Resent: c.resent}
	s.SpentKeys, s.SpentKeysLost = c.spent.Status()
	s.Doubted = c.doubts.count
	s.Series, s.ActivityRows, s.ActivityLost = c.activity.Series(), c.activity.Rows(), c.activity.Lost()
	for _, g := range c.connected() {
		s.Gateways = append(s.Gateways, GatewayStatus{g.Process, g.hello, g.pid, now - g.since, g.inForce(), g.leftOut})
	}
	return s
}

// Ready returns an error while no configuration is in force.
func (c *Core) Ready() error {
	if c.applied.Configuration() == nil {
		return errors.New("none yet: neither a coordinator nor a last good snapshot gave one")
	}
	return nil
}

// mostNamed is the number of names that an alarm lists.
const mostNamed = 8

// Unheard names the agents and gateways that are unreachable: limits and shares are split without them. nil if there
// are none.
func (c *Core) Unheard(now time.Duration) error {
	var all []error
	if missing := c.peers.Missing(now); len(missing) > 0 {
		all = append(all, fmt.Errorf("agents that failed or are unreachable: %s", wording.Few(missing, mostNamed)))
	}
	if unheard := c.aggregator.Status(now).Unheard; len(unheard) > 0 {
		all = append(all, fmt.Errorf("gateways of the membership that are unreachable: %s",
			wording.Few(unheard, mostNamed)))
	}
	return errors.Join(all...)
}

// NotEnforced says which part of the configuration is not in force, nil if all of it is.
func (c *Core) NotEnforced(now time.Duration) error {
	total, first, where := 0, config.LeftOut{}, "this agent"
	if left := c.applied.Status(now).LeftOut; len(left) > 0 {
		total, first = len(left), left[0]
	}
	var refused error
	for _, g := range c.connected() {
		if out := g.leftOut; out.Total > total && len(out.Limits) > 0 {
			total, first, where = out.Total, out.Limits[0], "gateway "+g.Gateway
		}
		if in := g.inForce(); in.Refused != 0 {
			refused = fmt.Errorf("gateway %s refuses configuration %d: %s", g.Gateway, in.Refused, in.Reason)
		}
	}
	if total == 0 || refused != nil {
		return refused
	}
	return fmt.Errorf("%s not enforced by %s; the first is %q of tenant %q: %s",
		wording.Does(total, "limit", "is", "are"), where, first.Limit, first.Tenant, first.Reason)
}

// overBudgetFor is the time for which the alarm stays after the last request for a key beyond a gateway's budget.
const overBudgetFor = time.Minute

// OverBudget names the gateways that have more busy keys than full state for them: such a
// key is held to its part of the limit. nil if there are none.
func (c *Core) OverBudget(now time.Duration) error {
	var all []error
	for _, g := range c.connected() {
		if g.overBudget > 0 && now-g.overBudgetAt < overBudgetFor {
			all = append(all, fmt.Errorf("gateway %s has more busy keys than full state for them: "+
				"each one beyond is held to rate/N and burst/N (%s since its start); "+
				"either names are invented, or its `contended_keys` should be larger", g.Gateway,
				wording.Count(g.overBudget, "request")))
		}
	}
	return errors.Join(all...)
}
