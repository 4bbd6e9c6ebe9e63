package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// shown is the number of names that a sentence lists.
const shown = 3

// view indexes the reports of the connected agents by question. It does not change.
type view struct {
	agents  []string  // sorted
	until   time.Time // then the first of the lost agents is forgotten
	names   names
	leftOut map[part]map[string][]string // who does not enforce a part, by reason
	summary Summary
	refusal error // of the last gateway that refuses a configuration
	near    near
	sites   sites

	gateways  []*quotav1.Gateway          // by name
	revisions []int64                     // in force there, sorted
	without   map[part][]*quotav1.Gateway // that do not enforce a part, or whose agents do not
	untold    []*quotav1.Gateway          // that leave out more than they name, or whose agents do
}

// part is a part of the configuration, as controlv1.LeftOut names it.
type part struct{ tenant, limit string }

func newView(now time.Time, connected []string, states map[string]*known) *view {
	v := &view{agents: slices.Clone(connected), until: now.Add(Kept), leftOut: map[part]map[string][]string{},
		names: newNames(), without: map[part][]*quotav1.Gateway{}, sites: sites{}}
	for _, agent := range connected {
		var s *controlv1.State
		if a := states[agent]; a != nil {
			s = a.state
		}
		v.note("agent "+agent, s.GetLeftOutTotal(), s.GetLeftOut())
		v.near.note(agent, s)
		if s != nil {
			v.sites.note(s)
		}
		for _, g := range s.GetGateways() {
			v.names.add(g)
			v.note("gateway "+g.GetName(), g.GetLeftOutTotal(), g.GetLeftOut())
			v.noteRefusal(g)
			v.noteGateway(agent, s, g)
		}
	}
	v.noteLost(now, states)
	v.names.finish()
	v.finish()
	if v.refusal != nil {
		v.summary.First = v.refusal
	}
	return v
}

// note takes what an agent or a gateway does not enforce.
func (v *view) note(who string, total int32, list []*controlv1.LeftOut) {
	for _, l := range list {
		p := part{l.GetTenant(), l.GetLimit()}
		if v.leftOut[p] == nil {
			v.leftOut[p] = map[string][]string{}
		}
		v.leftOut[p][l.GetReason()] = append(v.leftOut[p][l.GetReason()], who)
	}
	if s := &v.summary; int(total) > s.LeftOut {
		s.LeftOut = int(total)
		s.First = fmt.Errorf("%s not enforced by %s", wording.Count(total, "limit"), who)
		if len(list) > 0 {
			s.First = fmt.Errorf("%w; the first is %q of tenant %q: %s", s.First, list[0].GetLimit(),
				list[0].GetTenant(), list[0].GetReason())
		}
	}
}

func (v *view) noteRefusal(g *controlv1.GatewayState) {
	if g.GetRefused() == 0 {
		return
	}
	v.summary.Refusing++
	v.refusal = fmt.Errorf("gateway %s refuses configuration %d: %s", g.GetName(), g.GetRefused(), g.GetReason())
}

// noteGateway takes which revision is in force at a gateway, and what is left out of it there.
func (v *view) noteGateway(agent string, s *controlv1.State, g *controlv1.GatewayState) {
	one := &quotav1.Gateway{Name: g.GetName(), Agent: agent, Revision: g.GetRevision(), Refused: g.GetRefused(),
		Reason: g.GetReason(), LeftOut: s.GetLeftOutTotal() + g.GetLeftOutTotal(), Site: s.GetSite()}
	v.gateways, v.revisions = append(v.gateways, one), append(v.revisions, g.GetRevision())
	if int(one.LeftOut) > len(s.GetLeftOut())+len(g.GetLeftOut()) {
		v.untold = append(v.untold, one)
	}
	for _, list := range [][]*controlv1.LeftOut{s.GetLeftOut(), g.GetLeftOut()} {
		for _, l := range list {
			p := part{l.GetTenant(), l.GetLimit()}
			v.without[p] = append(v.without[p], one)
		}
	}
}

// noteLost takes the gateways of lost agents, each of the agent with the latest report, unless a connected agent has it
// now.
func (v *view) noteLost(now time.Time, states map[string]*known) {
	here := map[string]bool{}
	for _, g := range v.gateways {
		here[g.GetName()] = true
	}
	lost := map[string]*quotav1.Gateway{}
	for agent, a := range states {
		_, connected := slices.BinarySearch(v.agents, agent)
		end := a.heard.Add(Kept)
		if connected || !now.Before(end) {
			continue
		}
		if end.Before(v.until) {
			v.until = end
		}
		for _, g := range a.state.GetGateways() {
			if other := lost[g.GetName()]; !here[g.GetName()] && (other == nil ||
				cmp.Or(a.heard.Compare(other.GetHeard().AsTime()), cmp.Compare(other.GetAgent(), agent)) > 0) {
				lost[g.GetName()] = &quotav1.Gateway{Name: g.GetName(), Agent: agent, Revision: g.GetRevision(),
					Heard: timestamppb.New(a.heard), Site: a.state.GetSite()}
			}
		}
	}
	for _, g := range lost {
		v.gateways, v.revisions = append(v.gateways, g), append(v.revisions, g.GetRevision())
	}
}

func (v *view) finish() {
	slices.SortFunc(v.gateways, func(a, b *quotav1.Gateway) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Agent, b.Agent))
	})
	slices.Sort(v.revisions)
}

// inForce counts the gateways with the stored version of a resource in force. Its etag is the revision that stored it.
func (v *view) inForce(m resource.Message) int {
	stored, err := strconv.ParseInt(m.GetEtag(), 16, 64)
	if err != nil {
		return 0
	}
	first, _ := slices.BinarySearch(v.revisions, max(stored, 1))
	n := len(v.revisions) - first
	lack := map[*quotav1.Gateway]bool{}
	for _, p := range partsOf(m.GetName()) {
		for _, list := range [][]*quotav1.Gateway{v.without[p], v.untold} {
			for _, g := range list {
				if g.GetRevision() >= stored && !lack[g] {
					lack[g] = true
					n--
				}
			}
		}
	}
	return n
}

// notEnforced says who does not enforce the named resource.
func (v *view) notEnforced(name string) (doubts []quota.Doubt) {
	if len(v.leftOut) == 0 {
		return nil
	}
	for reason, who := range v.reasons(name) {
		slices.Sort(who)
		doubts = append(doubts, quota.Doubt{
			Message: fmt.Sprintf("not enforced by %s: %s", wording.Few(who, shown), reason)})
	}
	slices.SortFunc(doubts, func(a, b quota.Doubt) int { return strings.Compare(a.Message, b.Message) })
	return doubts
}

// partsOf are the parts that a resource is enforced with: a quota or a limit goes with its tenant or plan.
func partsOf(name string) []part {
	ref, err := resource.Parse(name)
	if err != nil {
		return nil
	}
	switch owner := ref.Owner(); ref.Kind {
	case resource.Tenant, resource.Plan:
		return []part{{owner, ""}}
	case resource.Quota:
		return []part{{owner, ""}, {owner, "quotas/" + ref.ID}}
	case resource.Limit:
		return []part{{owner, ""}, {owner, ref.ID}}
	case resource.Override:
		return []part{{owner, ""}, {owner, ref.Limit}, {owner, resource.OverridePart(ref)}}
	}
	return nil
}

// reasons lists the gateways that do not enforce the named resource, by reason.
func (v *view) reasons(name string) map[string][]string {
	by := map[string][]string{}
	for _, p := range partsOf(name) {
		for reason, who := range v.leftOut[p] {
			by[reason] = append(by[reason], who...)
		}
	}
	return by
}

// names says which gateways know which identity, class and cost, and have which feature.
type names struct {
	gateways                   []string // that have reported their names, sorted
	all                        []string // with a configuration in force, sorted
	identities, classes, costs map[string]map[string]bool
	concurrency, quotas        map[string]bool // gateways that hold limits with a concurrency, and with a quota
	overrides                  map[string]bool // gateways that read overrides
}

func newNames() names {
	return names{identities: map[string]map[string]bool{}, classes: map[string]map[string]bool{},
		costs: map[string]map[string]bool{}, concurrency: map[string]bool{}, quotas: map[string]bool{},
		overrides: map[string]bool{}}
}

// add takes the names of a gateway.
func (n *names) add(g *controlv1.GatewayState) {
	if g.GetRevision() > 0 {
		n.all = append(n.all, g.GetName())
		n.concurrency[g.GetName()] = slices.Contains(g.GetFeatures(), exchange.FeatureConcurrency)
		n.quotas[g.GetName()] = slices.Contains(g.GetFeatures(), exchange.FeatureQuota)
		n.overrides[g.GetName()] = slices.Contains(g.GetFeatures(), exchange.FeatureOverrides)
	}
	if !g.GetNamesKnown() {
		return
	}
	n.gateways = append(n.gateways, g.GetName())
	put := func(to map[string]map[string]bool, all []string) {
		for _, name := range all {
			if to[name] == nil {
				to[name] = map[string]bool{}
			}
			to[name][g.GetName()] = true
		}
	}
	put(n.identities, g.GetIdentities())
	put(n.classes, g.GetClasses())
	put(n.costs, g.GetCosts())
}

func (n *names) finish() {
	slices.Sort(n.gateways)
	n.gateways = slices.Compact(n.gateways) // two processes of a hot restart
	slices.Sort(n.all)
	n.all = slices.Compact(n.all)
}

// doubts returns the names in a limit or a pool that gateways do not know, and whether it has any names.
func (n *names) doubts(m resource.Message) (doubts []quota.Doubt, named bool) {
	ask := func(field, kind, name, effect string, known map[string]map[string]bool) {
		named = true
		if text := n.doubt(kind, name, effect, known); text != "" {
			doubts = append(doubts, quota.Doubt{Field: field, Message: text})
		}
	}
	if p, ok := m.(*quotav1.Pool); ok && p.GetCost() != "" {
		ask("cost", "cost", p.GetCost(), "requests count with their plain cost there", n.costs)
	}
	lack := func(field string, gateways []string, known map[string]bool, format string) {
		if without := lacking(gateways, known); len(without) > 0 {
			doubts = append(doubts, quota.Doubt{Field: field, Message: fmt.Sprintf(format, len(without),
				wording.Count(len(gateways), "gateway"), wording.Few(without, shown))})
		}
	}
	if _, is := m.(*quotav1.Override); is {
		lack("", n.all, n.overrides, "%d of %s do not know overrides that are resources, and go by the limit's own "+
			"numbers (%s): they are of an older release")
	}
	l, ok := m.(*quotav1.Limit)
	if !ok {
		return doubts, named
	}
	if id := l.GetIdentity(); id != "" {
		ask("identity", "identity", id, "all clients are one there", n.identities)
	}
	if len(l.GetPlans()) > 0 {
		named = true
		lack("plans", n.gateways, n.identities[config.PlanIdentity], "%d of %s have no setting plan in their filters "+
			"(%s): all requests have the limit's own numbers there")
	}
	for i, class := range l.GetClasses() {
		ask(fmt.Sprintf("classes[%d]", i), "class", class, "no request is in it there", n.classes)
	}
	if cost := l.GetCost(); cost != "" {
		ask("cost", "cost", cost, "the limit counts no request there", n.costs)
	}
	const older = " and leave this one out (%s): they are rate limit services or of an older release"
	if l.GetConcurrency() > 0 {
		lack("concurrency", n.all, n.concurrency, "%d of %s do not hold limits with a concurrency"+older)
	}
	if l.GetQuota() != nil {
		lack("quota", n.all, n.quotas, "%d of %s do not hold limits with a quota"+older)
	}
	return doubts, named
}

// lacking returns the gateways that are not among the known ones.
func lacking(gateways []string, known map[string]bool) (out []string) {
	for _, g := range gateways {
		if !known[g] {
			out = append(out, g)
		}
	}
	return out
}

// doubt is "" if all gateways that have reported their names know this one.
func (n *names) doubt(kind, name, effect string, known map[string]map[string]bool) string {
	if len(known[name]) == len(n.gateways) {
		return ""
	}
	without := lacking(n.gateways, known[name])
	hint := "they know none"
	if len(known) > 0 {
		all := slices.DeleteFunc(slices.Sorted(maps.Keys(known)),
			func(n string) bool { return n == config.PlanIdentity })
		hint = "known are " + strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s %q is not known to %d of %s (%s): %s; %s",
		kind, name, len(without), wording.Count(len(n.gateways), "gateway"), wording.Few(without, shown), effect, hint)
}
