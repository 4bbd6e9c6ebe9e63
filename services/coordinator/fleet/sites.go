package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// Site has the reports of the connected agents of one site.
type Site struct {
	Name     string // "" = of agents without --site
	Agents   int
	Gateways []string
	Far      int    // agents that find the others of their site too far for EXACT limits
	Why      string // one of these says
	Others   []OtherSite
}

// OtherSite is another site as the agents of one know it.
type OtherSite struct {
	Name string
	Cut  int           // agents that do not receive it
	Way  time.Duration // the longest; 0: not known
}

// Cut returns how many agents of the site do not receive the site that most of them do not receive.
func (s *Site) Cut() (most int) {
	for _, o := range s.Others {
		most = max(most, o.Cut)
	}
	return most
}

// sites are the sites by name.
type sites map[string]*Site

// note takes the report of an agent.
func (all sites) note(s *controlv1.State) {
	at := all[s.GetSite()]
	if at == nil {
		at = &Site{Name: s.GetSite()}
		all[at.Name] = at
	}
	at.Agents++
	for _, g := range s.GetGateways() {
		at.Gateways = append(at.Gateways, g.GetName())
	}
	if s.GetFar() {
		at.Far++
		at.Why = s.GetExactWhy()
	}
	for _, o := range s.GetSites() {
		i, known := slices.BinarySearchFunc(at.Others, o.GetName(), func(o OtherSite, name string) int {
			return cmp.Compare(o.Name, name)
		})
		if !known {
			at.Others = slices.Insert(at.Others, i, OtherSite{Name: o.GetName()})
		}
		at.Others[i].Way = max(at.Others[i].Way, o.GetWay().AsDuration())
		if !o.GetReachable() {
			at.Others[i].Cut++
		}
	}
}

// all lists the sites by name.
func (all sites) all() (out []Site) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out
}
