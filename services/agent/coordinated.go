package agent

import (
	"errors"
	"slices"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/orders"
	"github.com/titrate/titrate/services/agent/tally"
	"google.golang.org/protobuf/types/known/durationpb"
)

// coordinated is the agent as the control stream sees it.
type coordinated struct{ a *Agent }

// Hello says who this is and what it last obeyed.
func (c coordinated) Hello() *controlv1.Hello {
	c.a.orders.Reset()
	c.a.state.forget()
	s := c.a.orders.Status(c.a.now())
	return &controlv1.Hello{Agent: c.a.c.Name, Version: c.a.c.Version, Epoch: s.Epoch, Revision: s.Revision,
		Replicas: c.replicas(), Pools: s.Pools}
}

// Report sums up what the gateways saw.
func (c coordinated) Report() *controlv1.Report {
	return &controlv1.Report{Interval: durationpb.New(exchange.ReportEvery), Flows: c.a.reports.Take(c.a.now()),
		Replicas: c.replicas(), GossipDelay: durationpb.New(c.a.mesh.TypicalDelay()), State: c.a.state.news(c.a.stateNow())}
}

func (c coordinated) replicas() []*controlv1.Replica {
	var out []*controlv1.Replica
	for _, m := range c.a.tally.Local() {
		out = append(out, &controlv1.Replica{Name: m.Name, Weight: m.Weight, Gossip: c.a.mesh.Address()})
	}
	return out
}

// Receive obeys a message of the coordinator.
func (c coordinated) Receive(m *controlv1.ConnectResponse) (*controlv1.Ack, error) {
	switch m := m.GetMessage().(type) {
	case *controlv1.ConnectResponse_Configuration:
		return c.configure(m.Configuration)
	case *controlv1.ConnectResponse_Leases:
		return nil, c.grant(m.Leases)
	}
	return nil, nil // of a newer build: it means nothing here
}

// configure obeys a configuration. One of a replaced leader ends the stream.
func (c coordinated) configure(m *controlv1.Configuration) (*controlv1.Ack, error) {
	config, ack, err := c.a.orders.Configuration(m)
	switch {
	case err != nil:
		return nil, err
	case ack == nil:
	case ack.GetError() != "":
		c.a.log.Error("the coordinator's configuration is refused; the older one stays in force", "error", ack.GetError())
	default:
		c.a.unsaved.Store(true)
		c.a.log.Info("configuration in force", "revision", config.Revision, "pools", len(config.Pools), "tenants", len(config.Tenants))
		c.a.logLeftOut(config.Revision)
		c.a.hand()
	}
	return ack, nil
}

// logLeftOut says what of a configuration is left out.
func (a *Agent) logLeftOut(revision int64) {
	if left := a.orders.Status(a.now()).LeftOut; len(left) > 0 {
		a.log.Error("some limits of the configuration are not valid and not enforced; the rest is in force",
			"revision", revision, "limits", len(left), "tenant", left[0].Tenant, "limit", left[0].Limit, "reason", left[0].Reason)
	}
}

// grant obeys leases. Those of a replaced leader end the stream; unusable ones
// are logged, and the older ones hold.
func (c coordinated) grant(l *controlv1.Leases) error {
	_, before := c.a.orders.InForce()
	now := c.a.now()
	grant, err := c.a.orders.Leases(now, l)
	if stale := new(orders.StaleEpochError); errors.As(err, &stale) {
		return err
	}
	if err != nil {
		c.a.log.Error("the coordinator's leases are refused; the older ones stay in force", "error", err)
		return nil
	}
	if grant == nil {
		return nil
	}
	var addresses []string
	for _, m := range grant.Members {
		if m.GetGossip() != "" {
			addresses = append(addresses, m.GetGossip())
		}
	}
	c.a.mesh.SetAddresses(addresses)
	c.a.tally.SetMembers(now, members(grant.Members), grant.Until)
	if grant.Changed {
		c.a.unsaved.Store(true)
	}
	if !same(before, grant.Shares) {
		c.a.unsaved.Store(true)
		c.a.hand()
	}
	return nil
}

// members are the replicas of leases as the tally has them.
func members(replicas []*controlv1.Replica) []tally.Member {
	out := make([]tally.Member, len(replicas))
	for i, r := range replicas {
		out[i] = tally.Member{Name: r.GetName(), Weight: r.GetWeight()}
	}
	return out
}

// same tells that a renewal changes nothing for a filter.
func same(a, b *exchange.Shares) bool {
	return a != nil && b != nil && a.Epoch == b.Epoch && a.Revision == b.Revision && a.Stale == b.Stale &&
		slices.Equal(a.Flows, b.Flows) && slices.Equal(a.Pools, b.Pools)
}
