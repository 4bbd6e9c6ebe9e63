package coordinator

import (
	"fmt"
	"slices"
	"strings"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/fleet"
	"github.com/titrate/titrate/services/wording"
)

// ofSites judges the sites. One site whose agents are near is not worth a finding.
func (f *facts) ofSites() (out []*quotav1.Finding) {
	const name = "sites"
	several := len(f.sites) > 1 || len(f.sites) == 1 && len(f.sites[0].Others) > 0
	for i := range f.sites {
		if several {
			out = append(out, siteTrouble(&f.sites[i])...)
		}
	}
	switch {
	case len(out) > 0:
	case several:
		out = append(out, fine(name, "%s", f.siteSentence()))
	case len(f.sites) == 1 && f.sites[0].Far > 0 && f.sites[0].Name == "":
		out = append(out, fine(name, "agents are far from each other, so limits which state no precision are LOCAL "+
			"(%s); with --site limits are EXACT within each site", f.sites[0].Why))
	case len(f.sites) == 1 && f.sites[0].Far > 0:
		out = append(out, fine(name, "agents of %s are far from each other, so limits which state no precision are "+
			"LOCAL there (%s)", wording.Site(f.sites[0].Name), f.sites[0].Why))
	}
	return out
}

// siteTrouble judges one of several sites.
func siteTrouble(s *fleet.Site) (out []*quotav1.Finding) {
	const name = "sites"
	if s.Name == "" && len(s.Gateways) > 0 {
		out = append(out, doubtful(name, "give their agents --site; until then they are a site of their own",
			"%s without a site among sites: %s", wording.Count(len(s.Gateways), "gateway"),
			firstOf(s.Gateways, func(g string) string { return g })))
	}
	if s.Far > 0 {
		out = append(out, doubtful(name, "give agents that are far from each other another --site",
			"%s of %s are far from others there, so that limits which state no precision may be LOCAL: %s",
			wording.Count(s.Far, "agent"), wording.Site(s.Name), s.Why))
	}
	for _, o := range s.Others {
		if o.Cut > 0 {
			out = append(out, doubtful(name, "look at the network between them: UDP and TCP of --gossip. Meanwhile "+
				"each site keeps to what the others left it", "%s is cut off from %s: %d of %s do not receive it",
				wording.Site(o.Name), wording.Site(s.Name), o.Cut, wording.Count(s.Agents, "agent")))
		}
	}
	return out
}

// siteSentence says which sites there are, and how far they are from each other.
func (f *facts) siteSentence() string {
	var all, ways []string
	for i := range f.sites {
		s := &f.sites[i]
		all = append(all, fmt.Sprintf("%s with %s", wording.Site(s.Name), wording.Count(len(s.Gateways), "gateway")))
		for _, o := range s.Others {
			known := slices.ContainsFunc(f.sites, func(s fleet.Site) bool { return s.Name == o.Name })
			if o.Way > 0 && (s.Name < o.Name || !known) {
				ways = append(ways, fmt.Sprintf("%s from %s to %s", o.Way, wording.Site(s.Name), wording.Site(o.Name)))
			}
		}
	}
	text := strings.Join(all, ", ")
	if len(ways) > 0 {
		text += "; one way " + strings.Join(ways, ", ") + "; only ways between sites are long"
	}
	return text
}
