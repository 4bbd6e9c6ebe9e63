package core

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/aggregation"
	"github.com/titrate/titrate/services/agent/applied"
	"github.com/titrate/titrate/services/agent/reports"
)

// CheckEpoch returns an error if a configuration of that epoch comes from a coordinator
// that was replaced: the stream must be closed.
func (c *Core) CheckEpoch(epoch int64) error { return c.applied.CheckEpoch(epoch) }

// Configure puts a configuration in force, or a change of the present one. An error means that its coordinator was
// replaced: the stream must be closed.
func (c *Core) Configure(next *applied.Configuration) (Effects, error) {
	if err := c.applied.Configure(next); err != nil {
		return Effects{}, err
	}
	c.out.Save, c.whole = true, next.Config
	_, c.lapses.next = c.applied.Lapse(0)
	in := c.applied.Configuration()
	c.slots.Configured(c.ran)
	c.quotas.Configured(c.ran)
	c.logConfiguration(in, next.LeftOut)
	for _, g := range c.connected() {
		c.sendConfigurationTo(g)
	}
	return c.take(), nil
}

// logConfiguration logs what is in force, once for each revision: each stream brings it again.
func (c *Core) logConfiguration(in *config.Set, left []config.LeftOut) {
	if in.Revision() == c.logged {
		return
	}
	c.logged = in.Revision()
	tenants := in.Tenants()
	if in.Tenant(config.DefaultTenant) != nil { // for all unknown tenants
		tenants--
	}
	c.log(slog.LevelInfo, "configuration in force", "revision", in.Revision(), "pools", len(in.Shared().Pools),
		"tenants", tenants)
	if len(left) > 0 {
		c.log(slog.LevelError, "some limits of the configuration are not valid and not enforced; the rest is in force",
			"revision", in.Revision(), "limits", len(left), "tenant", left[0].Tenant, "limit", left[0].Limit,
			"reason", left[0].Reason)
	}
}

// Stream is the agent's side of one stream to a coordinator.
type Stream struct {
	core      *Core
	leases    *applied.Stream
	pools     map[string]bool  // that its coordinator leads; nil: all
	others    bool             // it also gets reports of pools that are not configured
	gained    []string         // of pools, that it leads newly
	selector  reports.Selector // of the coordinator's reports
	lastState *controlv1.State // in the report before
}

// Leases puts leases in force. A *applied.StaleEpochError means that their coordinator was replaced: the stream must be
// closed; a *applied.MissedError must be sent to it. Leases that are not usable are logged; the older ones stay in
// force.
func (s *Stream) Leases(now time.Duration, l *controlv1.Leases) (Effects, error) {
	c := s.core
	before := c.applied.Shares()
	grant, err := s.leases.Leases(now, l)
	stale, missed := new(applied.StaleEpochError), new(applied.MissedError)
	if errors.As(err, &stale) || errors.As(err, &missed) {
		return Effects{}, err
	}
	if err != nil {
		c.log(slog.LevelError, "the coordinator's leases are refused; the older ones stay in force", "error", err)
		return c.take(), nil
	}
	if grant == nil {
		return Effects{}, nil
	}
	if grant.Until > 0 {
		c.setMembers(now, grant)
	}
	changed := !sameShares(before, grant.Shares)
	c.out.Save = grant.Changed || changed
	if changed {
		c.sendState()
	}
	return c.take(), nil
}

// setMembers puts the members of leases in force.
func (c *Core) setMembers(now time.Duration, grant *applied.Grant) {
	if slices.Equal(c.members, grant.Members) { // the same replicas
		c.aggregator.RenewMembers(now, grant.Until)
		return
	}
	c.members = grant.Members
	c.setAddresses(grant.Members)
	c.aggregator.SetMembers(now, members(grant.Members), grant.Until)
}

// setAddresses gives gossip the addresses of the members' agents.
func (c *Core) setAddresses(members []*controlv1.Replica) {
	var addresses []string
	for _, m := range members {
		if m.GetGossip() != "" {
			addresses = append(addresses, m.GetGossip())
		}
	}
	c.peers.SetAddresses(addresses)
}

// sendState sends all gateways what is in force.
func (c *Core) sendState() {
	for _, g := range c.connected() {
		c.sendStateTo(g)
	}
}

// sendStateTo sends a gateway the shares, and what it lacks of the configuration.
func (c *Core) sendStateTo(g *gateway) {
	c.sendConfigurationTo(g)
	if shares := c.applied.Shares(); shares != nil {
		own := *shares
		own.Flows, own.Pools = slices.Clone(shares.Flows), slices.Clone(shares.Pools)
		c.send(g, &own)
	}
}

// sendConfigurationTo sends a gateway what has changed since the configuration that it was
// sent, or the whole.
func (c *Core) sendConfigurationTo(g *gateway) {
	in := c.applied.Configuration()
	if in == nil || g.sent.any && g.sent.revision == in.Revision() {
		return
	}
	d := c.applied.Delta()
	change := d != nil && g.sent.any && g.sent.revision == d.Base
	g.sent = sent{revision: in.Revision(), any: true, change: change}
	if change {
		c.send(g, d)
		return
	}
	if c.whole == nil {
		c.whole = in.Config()
	}
	c.send(g, c.whole)
}

// NoPool stands for every pool that is not configured.
const NoPool = "-"

// Configured are the configured tenant that gateways take a name for, and the pool or NoPool. They are
// the names themselves while no configuration is known.
func (c *Core) Configured(tenant, pool string) (t, p string) {
	in := c.applied.Configuration()
	if in == nil {
		return tenant, pool
	}
	if in.Tenant(tenant) == nil {
		tenant = config.DefaultTenant
	}
	if !slices.ContainsFunc(in.Shared().Pools, func(p config.Pool) bool { return p.Name == pool }) {
		pool = NoPool
	}
	return tenant, pool
}

// resend sends a gateway the whole configuration if it has refused a change: it has another
// one in force than the change is for.
func (c *Core) resend(now time.Duration, g *gateway, refused int64) {
	if !g.sent.change || g.sent.revision != refused {
		return
	}
	c.resent++
	if c.mayLog(now) {
		c.log(slog.LevelWarn, "a gateway refused a change of the configuration and is sent the whole",
			"gateway", g.Gateway, "revision", refused, "reason", g.heartbeat.Reason)
	}
	g.sent = sent{}
	c.sendConfigurationTo(g)
}

// members are the replicas of leases as the aggregator has them.
func members(replicas []*controlv1.Replica) []aggregation.Member {
	out := make([]aggregation.Member, len(replicas))
	for i, r := range replicas {
		out[i] = aggregation.Member{Name: r.GetName(), Weight: r.GetWeight()}
	}
	return out
}

// sameShares reports that a renewal changes nothing for a filter.
func sameShares(a, b *exchange.Shares) bool {
	return a == b || a != nil && b != nil && a.Epoch == b.Epoch && a.Revision == b.Revision && a.Stale == b.Stale &&
		slices.Equal(a.Flows, b.Flows) && slices.Equal(a.Pools, b.Pools)
}
