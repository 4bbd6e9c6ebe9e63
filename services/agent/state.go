package agent

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/gateways"
)

// mostLeftOut is how many limits that are left out one state names for each of the
// agent and its gateways; the total is told always.
const mostLeftOut = 64

// state tells the coordinator what became of the configuration, once per stream and
// whenever it changes.
type state struct {
	mu   sync.Mutex
	told *controlv1.State
}

// forget makes the next state be told.
func (s *state) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = nil
}

// news returns now if it differs from what was told, nil otherwise.
func (s *state) news(now *controlv1.State) *controlv1.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if proto.Equal(s.told, now) {
		return nil
	}
	s.told = now
	return now
}

// stateNow is what the agent and its gateways have made of the configuration.
func (a *Agent) stateNow() *controlv1.State {
	left := a.orders.Status(a.now()).LeftOut
	s := &controlv1.State{LeftOut: leftOutMessage(left), LeftOutTotal: int32(len(left))}
	a.server.Each(func(g *gateways.Gateway) {
		in, out := g.InForce(), g.LeftOut()
		one := &controlv1.GatewayState{
			Name: g.Replica(), Revision: in.Revision, Refused: in.Refused, Reason: in.Reason,
			LeftOut: leftOutMessage(out.Limits), LeftOutTotal: int32(out.Total),
		}
		if n := g.Names(); n != nil {
			one.NamesKnown, one.Identities, one.Classes = true, n.Identities, n.Classes
		}
		s.Gateways = append(s.Gateways, one)
	})
	slices.SortStableFunc(s.Gateways, func(a, b *controlv1.GatewayState) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return s
}

func leftOutMessage(in []config.LeftOut) (out []*controlv1.LeftOut) {
	for _, l := range in[:min(len(in), mostLeftOut)] {
		out = append(out, &controlv1.LeftOut{Tenant: l.Tenant, Limit: l.Limit, Reason: l.Reason})
	}
	return out
}

// notEnforced says in a line what of the configuration is not in force, nil if all
// of it is.
func (a *Agent) notEnforced() error {
	total, first, where := 0, config.LeftOut{}, "this agent"
	if left := a.orders.Status(a.now()).LeftOut; len(left) > 0 {
		total, first = len(left), left[0]
	}
	var refused error
	a.server.Each(func(g *gateways.Gateway) {
		if out := g.LeftOut(); out.Total > total && len(out.Limits) > 0 {
			total, first, where = out.Total, out.Limits[0], "gateway "+g.Replica()
		}
		if in := g.InForce(); in.Refused != 0 {
			refused = fmt.Errorf("gateway %s refuses configuration %d: %s", g.Replica(), in.Refused, in.Reason)
		}
	})
	if total == 0 || refused != nil {
		return refused
	}
	return fmt.Errorf("%d limits are not enforced by %s; the first is %q of tenant %q: %s",
		total, where, first.Limit, first.Tenant, first.Reason)
}
