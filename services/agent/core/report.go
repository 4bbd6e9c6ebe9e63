package core

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// maxLeftOut bounds the left-out limits that a report lists for the agent and for each gateway; it always has their
// number.
const maxLeftOut = 64

// Hello opens a stream to a coordinator: it says who this is, and what was applied last.
func (c *Core) Hello(now time.Duration) (*Stream, *controlv1.Hello) {
	in := c.applied.Status(now)
	pools, leases := c.applied.Held(nil)
	return &Stream{core: c, leases: c.applied.Stream()}, &controlv1.Hello{Agent: c.o.Name, Version: c.o.Version,
		Epoch: in.Epoch, Revision: in.Revision, Replicas: c.replicas(), Pools: pools, Changes: true, Answers: true,
		Shares: true, Process: c.o.Incarnation, Members: in.Version, Leases: leases}
}

// Share takes who leads which pools: reports of this stream concern those of its coordinator from
// now on. What this agent holds of pools that are new there is in the next report.
func (s *Stream) Share(m *controlv1.Coordinators) {
	pools := make(map[string]bool, len(m.GetPools()))
	for _, name := range m.GetPools() {
		pools[name] = true
		if s.pools != nil && !s.pools[name] {
			s.gained = append(s.gained, name)
		}
	}
	s.pools, s.others = pools, m.GetOthers()
	s.selector.Keep(s.reports)
}

// reports reports whether the stream's coordinator gets reports of a pool.
func (s *Stream) reports(pool string) bool {
	switch {
	case s.pools == nil || s.pools[pool]:
		return true
	case !s.others:
		return false
	}
	return !s.core.applied.Has(pool)
}

// Report returns the sum of the gateways' reports, and the state of the configuration if it changed since the report
// before on this stream.
func (s *Stream) Report(now time.Duration) *controlv1.Report {
	c := s.core
	r := &controlv1.Report{Interval: durationpb.New(exchange.ReportEvery),
		Replicas: c.replicas(), GossipDelay: durationpb.New(c.peers.TypicalDelay(now)),
		Owned: int32(c.tokens[exchange.OfSite].Keys() + c.tokens[exchange.OfAll].Keys() +
			c.slots.Keys() + c.quotas.Keys())}
	r.Flows, r.Changes = s.selector.Select(c.reports.Rates(now, s.reports), exchange.ReportEvery,
		s.leases.ReportsChanges())
	if len(s.gained) > 0 {
		r.Pools, r.Leases = c.applied.Held(s.gained)
		s.gained = nil
	}
	if state := c.state(now); !proto.Equal(state, s.lastState) {
		s.lastState, r.State = state, state
	}
	return r
}

// Answer answers a question about the latest requests, one request, or the bucket of a key. The returned function makes
// the answer and needs nothing of the core, so that the agent can go on meanwhile.
func (c *Core) Answer(now time.Duration, q *controlv1.Question) func() *controlv1.Answer {
	if q.GetRequest() != "" {
		answer := c.decisions.Answer(now, q)
		for _, d := range answer.GetDecisions() {
			d.Site = c.o.Site
		}
		return func() *controlv1.Answer { return answer }
	}
	if q.GetKey() != nil {
		answer := &controlv1.Answer{Id: q.GetId(), Key: c.bucket(now, q.GetKey())}
		return func() *controlv1.Answer { return answer }
	}
	return c.activity.Snapshot(now, q).Answer
}

// replicas are the gateways connected here.
func (c *Core) replicas() []*controlv1.Replica {
	var out []*controlv1.Replica
	for _, m := range c.aggregator.Local() {
		out = append(out, &controlv1.Replica{Name: m.Name, Weight: m.Weight, Gossip: c.gossipAddress})
	}
	return out
}

// state returns the state of the configuration at the agent and its gateways.
func (c *Core) state(now time.Duration) *controlv1.State {
	left := c.applied.Status(now).LeftOut
	s := &controlv1.State{LeftOut: leftOutMessage(left), LeftOutTotal: int32(len(left)), Exact: c.exact,
		ExactWhy: c.exactWhy, Site: c.o.Site, Far: c.near.mine == gossipv1.Nearness_FAR}
	if c.near.shown >= 0 {
		s.Way = durationpb.New(round(c.near.shown))
	}
	for _, other := range c.aggregator.OtherSites() {
		one := &controlv1.OtherSite{Name: other.Name, Reachable: other.Reachable}
		if way, known := c.waysAbroad[other.Name]; known {
			one.Way = durationpb.New(round(way))
		}
		s.Sites = append(s.Sites, one)
	}
	for _, g := range c.connected() {
		in := g.inForce()
		one := &controlv1.GatewayState{
			Name: g.Gateway, Revision: in.Revision, Refused: in.Refused, Reason: in.Reason,
			LeftOut: leftOutMessage(g.leftOut.Limits), LeftOutTotal: int32(g.leftOut.Total),
			Features: named(g.heartbeat.Features),
		}
		if n := g.names; n != nil {
			one.NamesKnown = true
			one.Identities, one.Classes, one.Costs = n.Identities, n.Classes, n.Costs
		}
		s.Gateways = append(s.Gateways, one)
	}
	return s
}

// named returns names that have commas between them.
func named(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func leftOutMessage(in []config.LeftOut) (out []*controlv1.LeftOut) {
	for _, l := range in[:min(len(in), maxLeftOut)] {
		out = append(out, &controlv1.LeftOut{Tenant: l.Tenant, Limit: l.Limit, Reason: l.Reason})
	}
	return out
}
