// Package fleet knows what agents and gateways report about the configuration: which
// identities and classes their filters know, which limits they do not enforce, which
// configurations they refuse.
//
// # Model
//
// A Fleet has the last [controlv1.State] of each agent since its Hello. Callers name the
// agents that are connected; reports of other agents do not count.
package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/resource"
)

// shown is how many names a sentence lists.
const shown = 3

// Fleet is safe for concurrent use. The zero value knows nothing.
type Fleet struct {
	mu     sync.Mutex
	states map[string]*controlv1.State
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
	f.states[agent] = s
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
}

// Doubts returns why a resource may not do what it says at the connected agents' gateways.
// known is false if the resource names an identity or a class and no gateway has reported
// which ones it knows.
func (f *Fleet) Doubts(connected []string, m resource.Message) (doubts []quota.Doubt, known bool) {
	states := f.of(connected)
	known = true
	if l, ok := m.(*quotav1.Limit); ok && (l.GetIdentity() != "" || len(l.GetClasses()) > 0) {
		names := newNames(states)
		doubts, known = names.doubts(l), len(names.gateways) > 0
	}
	return append(doubts, leftOut(states, m.GetName())...), known
}

// of returns the states of the connected agents.
func (f *Fleet) of(connected []string) map[string]*controlv1.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]*controlv1.State, len(connected))
	for _, agent := range connected {
		if s := f.states[agent]; s != nil {
			out[agent] = s
		}
	}
	return out
}

// names says which gateways know which identity and which class.
type names struct {
	gateways            []string // that have reported their names
	identities, classes map[string]map[string]bool
}

func newNames(states map[string]*controlv1.State) *names {
	n := &names{identities: map[string]map[string]bool{}, classes: map[string]map[string]bool{}}
	add := func(to map[string]map[string]bool, name, gateway string) {
		if to[name] == nil {
			to[name] = map[string]bool{}
		}
		to[name][gateway] = true
	}
	for _, s := range states {
		for _, g := range s.GetGateways() {
			if !g.GetNamesKnown() {
				continue
			}
			n.gateways = append(n.gateways, g.GetName())
			for _, name := range g.GetIdentities() {
				add(n.identities, name, g.GetName())
			}
			for _, name := range g.GetClasses() {
				add(n.classes, name, g.GetName())
			}
		}
	}
	slices.Sort(n.gateways)
	n.gateways = slices.Compact(n.gateways) // two processes of a hot restart
	return n
}

func (n *names) doubts(l *quotav1.Limit) (doubts []quota.Doubt) {
	ask := func(field, kind, name, effect string, known map[string]map[string]bool) {
		if text := n.doubt(kind, name, effect, known); text != "" {
			doubts = append(doubts, quota.Doubt{Field: field, Message: text})
		}
	}
	if id := l.GetIdentity(); id != "" {
		ask("identity", "identity", id, "all clients are one there", n.identities)
	}
	for i, class := range l.GetClasses() {
		ask(fmt.Sprintf("classes[%d]", i), "class", class, "no request is in it there", n.classes)
	}
	return doubts
}

// doubt is "" if all gateways that have reported their names know this one.
func (n *names) doubt(kind, name, effect string, known map[string]map[string]bool) string {
	var without []string
	for _, g := range n.gateways {
		if !known[name][g] {
			without = append(without, g)
		}
	}
	if len(without) == 0 {
		return ""
	}
	var others []string
	for other := range known {
		others = append(others, other)
	}
	slices.Sort(others)
	hint := "they know none"
	if len(others) > 0 {
		hint = "known are " + strings.Join(others, ", ")
	}
	return fmt.Sprintf("%s %q is not known to %d of %d gateways (%s): %s; %s",
		kind, name, len(without), len(n.gateways), few(without), effect, hint)
}

// leftOut says who does not enforce the named tenant, quota or limit.
func leftOut(states map[string]*controlv1.State, name string) (doubts []quota.Doubt) {
	ref, err := resource.Parse(name)
	if err != nil || ref.Kind == resource.Pool {
		return nil
	}
	tenant, limit := ref.Tenant, ref.ID
	switch ref.Kind {
	case resource.Tenant:
		tenant, limit = ref.ID, ""
	case resource.Quota:
		limit = "quotas/" + ref.ID
	}
	by := map[string][]string{} // who, by reason
	note := func(who string, list []*controlv1.LeftOut) {
		for _, l := range list {
			if l.GetTenant() == tenant && (l.GetLimit() == limit || l.GetLimit() == "" && ref.Kind != resource.Tenant) {
				by[l.GetReason()] = append(by[l.GetReason()], who)
			}
		}
	}
	for agent, s := range states {
		note("agent "+agent, s.GetLeftOut())
		for _, g := range s.GetGateways() {
			note("gateway "+g.GetName(), g.GetLeftOut())
		}
	}
	for reason, who := range by {
		slices.Sort(who)
		doubts = append(doubts, quota.Doubt{Message: fmt.Sprintf("not enforced by %s: %s", few(who), reason)})
	}
	slices.SortFunc(doubts, func(a, b quota.Doubt) int { return strings.Compare(a.Message, b.Message) })
	return doubts
}

func few(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// Summary is the state of all connected agents in numbers.
type Summary struct {
	LeftOut  int   // limits and quotas that are not enforced, at the agent or gateway with the most
	Refusing int   // gateways that refuse a configuration
	First    error // one of the problems, nil if there is none
}

// Summary sums up what the connected agents have reported.
func (f *Fleet) Summary(connected []string) (out Summary) {
	states := f.of(connected)
	note := func(who string, total int32, list []*controlv1.LeftOut) {
		if n := int(total); n > out.LeftOut {
			out.LeftOut = n
			out.First = fmt.Errorf("%d limits are not enforced by %s", n, who)
			if len(list) > 0 {
				out.First = fmt.Errorf("%w; the first is %q of tenant %q: %s", out.First, list[0].GetLimit(),
					list[0].GetTenant(), list[0].GetReason())
			}
		}
	}
	var refusal error
	slices.Sort(connected)
	for _, agent := range connected {
		s := states[agent]
		note("agent "+agent, s.GetLeftOutTotal(), s.GetLeftOut())
		for _, g := range s.GetGateways() {
			note("gateway "+g.GetName(), g.GetLeftOutTotal(), g.GetLeftOut())
			if g.GetRefused() != 0 {
				out.Refusing++
				refusal = fmt.Errorf("gateway %s refuses configuration %d: %s", g.GetName(), g.GetRefused(),
					g.GetReason())
			}
		}
	}
	if refusal != nil {
		out.First = refusal
	}
	return out
}
