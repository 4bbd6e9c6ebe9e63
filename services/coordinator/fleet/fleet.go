// Package fleet knows what agents and gateways report about the configuration. That is
// which identities and classes their filters know, which limits they do not enforce, which
// configurations they refuse, which revision is in force where.
//
// # Model
//
// A Fleet has the last [controlv1.State] of each agent since its Hello. Callers name the agents that are connected;
// reports of other agents do not count. The states of these agents are made into a view, which answers for each
// resource without going through the agents. It is made when it is asked for and an agent has come, gone or reported
// another state since the last one.
//
// An agent that is not connected any more and has not left in order is lost: it has crashed, hangs, or the network is
// cut. Its gateways go on with the configuration that they had, so they count as gateways for as long as [Kept],
// unless another agent has them or has had them since. No other part of its report counts. The time is taken from the
// other agents' reports.
//
// A view costs O(agents + what they report), a question O(what is wrong with the resource).
package fleet

import (
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/resource"
)

// Kept is the time for which the gateways of a lost agent are shown. It is longer than it takes to look, and not so
// long that gateways which were removed for good stay in the way.
const Kept = 10 * time.Minute

// silent is the time without a report after which an agent loses the gateways that another agent has had since. Agents
// report four times a second.
const silent = 5 * time.Second

// mostLost bounds the lost agents that are remembered.
const mostLost = 1000

// Fleet is safe for concurrent use. The zero value knows nothing.
type Fleet struct {
	mu     sync.Mutex
	now    time.Time // of the last report
	states map[string]*known
	view   *view // nil: a state has changed since the last one
}

// known is the last report of an agent and its time.
type known struct {
	state *controlv1.State
	heard time.Time
	owned int32                // keys
	delay *durationpb.Duration // of claims
}

// Report stores what an agent reports. Without a state the state has not changed.
func (f *Fleet) Report(now time.Time, agent string, r *controlv1.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = now
	a, s := f.states[agent], r.GetState()
	if a != nil {
		a.heard, a.owned, a.delay = now, r.GetOwned(), r.GetGossipDelay()
	}
	if s == nil {
		return
	}
	if a != nil {
		f.removed(a.state, s)
	}
	if f.states == nil {
		f.states = map[string]*known{}
	}
	f.states[agent], f.view = &known{s, now, r.GetOwned(), r.GetGossipDelay()}, nil
}

// Hello forgets the agent's state: the agent has opened a new stream. Of agents that are not connected
// any more it keeps what their gateways have in force.
func (f *Fleet) Hello(agent string, connected func() []string) {
	f.mu.Lock() // before connected: an agent that connects now cannot report until this is done
	defer f.mu.Unlock()
	f.forget(agent)
	here, lost := connected(), 0
	for name, a := range f.states {
		switch _, is := slices.BinarySearch(here, name); {
		case is:
		case f.now.Sub(a.heard) >= Kept || lost == mostLost:
			delete(f.states, name)
		default:
			lost++
			a.state = &controlv1.State{Gateways: gatewaysOf(a.state), Site: a.state.GetSite()}
		}
	}
}

// Left forgets an agent that has ended its stream in order.
func (f *Fleet) Left(agent string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.states[agent]; a != nil {
		f.removed(a.state, nil)
	}
	f.forget(agent)
}

// removed forgets gateways that an agent had and has no more: they have gone in order. An agent that had
// them before and is lost does not have them back.
func (f *Fleet) removed(had, has *controlv1.State) {
	gone := map[string]bool{}
	for _, g := range had.GetGateways() {
		gone[g.GetName()] = true
	}
	for _, g := range has.GetGateways() {
		delete(gone, g.GetName())
	}
	if len(gone) == 0 {
		return
	}
	is := func(g *controlv1.GatewayState) bool { return gone[g.GetName()] }
	for _, a := range f.states {
		if f.now.Sub(a.heard) >= silent && slices.ContainsFunc(a.state.GetGateways(), is) {
			a.state = proto.CloneOf(a.state) // a view may have parts of the state
			a.state.Gateways = slices.DeleteFunc(a.state.Gateways, is)
			f.view = nil
		}
	}
}

// Forget forgets all agents: from now on they report to another coordinator.
func (f *Fleet) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states, f.view = nil, nil
}

func (f *Fleet) forget(agent string) {
	delete(f.states, agent)
	f.view = nil
}

// gatewaysOf are an agent's gateways, with nothing but the revision in force there.
func gatewaysOf(s *controlv1.State) (out []*controlv1.GatewayState) {
	for _, g := range s.GetGateways() {
		out = append(out, &controlv1.GatewayState{Name: g.GetName(), Revision: g.GetRevision()})
	}
	return out
}

// Doubts returns why a resource may not do what it says at the connected agents' gateways. known is false if the
// resource names an identity, a class or a cost and no gateway has reported which ones it knows.
func (f *Fleet) Doubts(connected []string, m resource.Message) (doubts []quota.Doubt, known bool) {
	v := f.of(connected)
	doubts, named := v.names.doubts(m)
	known = !named || len(v.names.gateways) > 0
	if l, is := m.(*quotav1.Limit); is {
		doubts = append(doubts, v.sites.tooFar(l)...)
	}
	return append(doubts, v.notEnforced(m.GetName())...), known
}

// Unknown says of the first resources that are kept which names in them a gateway of connected agents does not know.
func (f *Fleet) Unknown(connected []string, all []*quotav1.Resource, most int, keep func(resource.Message) bool) (
	sentences []string) {
	names := &f.of(connected).names
	for _, r := range all {
		m := resource.Unwrap(r)
		if doubts, _ := names.doubts(m); len(doubts) > 0 && keep(m) {
			if sentences = append(sentences, m.GetName()+": "+doubts[0].Message+"."); len(sentences) == most {
				break
			}
		}
	}
	return sentences
}

// InForce counts the gateways of the connected agents and of lost ones, and those of them with the stored version of a
// resource in force.
func (f *Fleet) InForce(connected []string, m resource.Message) (inForce, gateways int) {
	v := f.of(connected)
	return v.inForce(m), len(v.gateways)
}

// Gateways lists the gateways of the connected agents and of lost ones, by name, with what is in force there. It does
// not say how far they are behind.
func (f *Fleet) Gateways(connected []string) []*quotav1.Gateway {
	v := f.of(connected)
	out := make([]*quotav1.Gateway, len(v.gateways))
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, g := range v.gateways {
		out[i] = proto.CloneOf(g)
		if a := f.states[g.GetAgent()]; a != nil && g.GetHeard() == nil {
			out[i].Owned, out[i].Delay = a.owned, a.delay
		}
	}
	return out
}

// SiteOf returns a function that says of which site a gateway is, "" = of none or not known.
func (f *Fleet) SiteOf(connected []string) func(gateway string) string {
	gateways := f.of(connected).gateways
	return func(name string) string {
		i, found := slices.BinarySearchFunc(gateways, name, func(g *quotav1.Gateway, name string) int {
			return strings.Compare(g.GetName(), name)
		})
		if !found {
			return ""
		}
		return gateways[i].GetSite()
	}
}

// SitesOfAgents returns the sites of the connected agents that have reported; "" = of none.
func (f *Fleet) SitesOfAgents(connected []string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]string, len(connected))
	for _, agent := range connected {
		if a := f.states[agent]; a != nil {
			out[agent] = a.state.GetSite()
		}
	}
	return out
}

// Sites describes the sites of the connected agents, by name.
func (f *Fleet) Sites(connected []string) []Site { return f.of(connected).sites.all() }

// Precision says how close the connected agents' gateways hold a limit, and why.
func (f *Fleet) Precision(connected []string, l *quotav1.Limit) (p quotav1.Precision, why string) {
	v := f.of(connected)
	if p, why = v.near.precision(l); l.GetScope() == quotav1.Scope_GLOBAL && p == quotav1.Precision_EXACT {
		p, why = v.sites.global()
	}
	return p, why
}

// Summary is the state of all connected agents in numbers.
type Summary struct {
	LeftOut  int   // limits and quotas that are not enforced, at the agent or gateway with the most
	Refusing int   // gateways that refuse a configuration
	First    error // one of the problems, nil if there is none
}

// Summary sums up what the connected agents have reported.
func (f *Fleet) Summary(connected []string) Summary { return f.of(connected).summary }

// of is the view of the connected agents, sorted.
func (f *Fleet) of(connected []string) *view {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.view == nil || !slices.Equal(f.view.agents, connected) || f.view.until.Before(f.now) {
		f.view = newView(f.now, connected, f.states)
	}
	return f.view
}
