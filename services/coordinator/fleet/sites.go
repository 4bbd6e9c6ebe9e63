package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
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

// farthest returns the longest way between two sites, and their names; 0: none is known.
func (all sites) farthest() (way time.Duration, from, to string) {
	for name, s := range all {
		for _, o := range s.Others {
			if o.Way > way || o.Way == way && name < from {
				way, from, to = o.Way, name, o.Name
			}
		}
	}
	return way, from, to
}

// tooFar doubts that a limit of the scope GLOBAL holds, where a way between sites is too long for its burst: gateways
// use up what they have before owners answer. Requests within the limit are refused then.
func (all sites) tooFar(l *quotav1.Limit) []quota.Doubt {
	way, from, to := all.farthest()
	c, err := resource.LimitConfig(l)
	if err != nil || l.GetScope() != quotav1.Scope_GLOBAL {
		return nil
	}
	for _, b := range append(slices.Collect(maps.Values(c.Plans)), c.Bucket()) {
		if least := math.Ceil(8 * b.Rate * way.Seconds()); b.Burst < least {
			return []quota.Doubt{{Field: "scope", Message: fmt.Sprintf("burst %g is below 8 x rate x %s, the way "+
				"between %s and %s: requests within the limit may be refused; a burst of %g is enough", b.Burst, way,
				wording.Site(from), wording.Site(to), least)}}
		}
	}
	return nil
}

// global says how close limits of the scope GLOBAL are held, and why.
func (all sites) global() (quotav1.Precision, string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if s := all[name]; s.Cut() > 0 {
			return quotav1.Precision_LOCAL, "a site is cut off from " + wording.Site(name)
		}
	}
	if way, from, to := all.farthest(); way > 0 {
		return quotav1.Precision_EXACT, fmt.Sprintf("over all sites: %s between %s and %s", way, wording.Site(from),
			wording.Site(to))
	}
	return quotav1.Precision_EXACT, "over all sites"
}

// all lists the sites by name.
func (all sites) all() (out []Site) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out
}
