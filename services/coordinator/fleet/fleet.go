// Package fleet knows what agents and gateways report about the configuration: which
// identities and classes their filters know, which limits they do not enforce, which
// configurations they refuse, which revision is in force where.
//
// # Model
//
// A Fleet has the last [controlv1.State] of each agent since its Hello. Callers name the
// agents that are connected; reports of other agents do not count. The states of these agents
// are made into a view, which answers for each resource without going through the agents. It is
// made anew when it is asked for and an agent has come, gone or reported another state since.
//
// A view costs O(agents + what they report), a question O(what is wrong with the resource).
package fleet

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/resource"
)

// Fleet is safe for concurrent use. The zero value knows nothing.
type Fleet struct {
	mu     sync.Mutex
	states map[string]*controlv1.State
	view   *view // nil: a state has changed since the last one
}

// Report stores an agent's state; nil means that the state has not changed.
func (f *Fleet) Report(agent string, s *controlv1.State) {
	if s == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.states == nil {
		f.states = map[string]*controlv1.State{}
	}
	f.states[agent], f.view = s, nil
}

// Hello forgets the agent's state, and the states of agents that are not connected any
// more: the agent has opened a new stream.
func (f *Fleet) Hello(agent string, connected func() []string) {
	f.mu.Lock() // before connected: an agent that connects now cannot report until this is done
	defer f.mu.Unlock()
	here := map[string]bool{}
	for _, name := range connected() {
		here[name] = name != agent
	}
	maps.DeleteFunc(f.states, func(name string, _ *controlv1.State) bool { return !here[name] })
	f.view = nil
}

// Doubts returns why a resource may not do what it says at the connected agents' gateways.
// known is false if the resource names an identity or a class and no gateway has reported
// which ones it knows.
func (f *Fleet) Doubts(connected []string, m resource.Message) (doubts []quota.Doubt, known bool) {
	v := f.of(connected)
	known = true
	if l, ok := m.(*quotav1.Limit); ok && (l.GetIdentity() != "" || len(l.GetClasses()) > 0) {
		doubts, known = v.names.doubts(l), len(v.names.gateways) > 0
	}
	return append(doubts, v.notEnforced(m.GetName())...), known
}

// InForce is how many of the connected agents' gateways have a resource in force as it is stored,
// of how many.
func (f *Fleet) InForce(connected []string, m resource.Message) (inForce, gateways int) {
	v := f.of(connected)
	return v.inForce(m), len(v.gateways)
}

// Gateways are those of the connected agents, by name, with what is in force there. How far they
// are behind is not said.
func (f *Fleet) Gateways(connected []string) []*quotav1.Gateway {
	v := f.of(connected)
	out := make([]*quotav1.Gateway, len(v.gateways))
	for i, g := range v.gateways {
		out[i] = proto.CloneOf(g)
	}
	return out
}

// Precision says how close the connected agents' gateways hold a limit, and why.
func (f *Fleet) Precision(connected []string, l *quotav1.Limit) (p quotav1.Precision, why string) {
	return f.of(connected).near.precision(l)
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
	if f.view == nil || !slices.Equal(f.view.agents, connected) {
		f.view = newView(connected, f.states)
	}
	return f.view
}
