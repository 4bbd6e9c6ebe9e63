package main

import (
	"fmt"
	"strings"

	"github.com/titrate/titrate/papers/markdown"
)

// siteTable is phaseTable of several sites.
func (r *Result) siteTable() *markdown.Section {
	t := &markdown.Section{Title: r.what(), Head: []string{"phase", "one way, ms", "lost, %", "agents at its end", "s",
		"agents agree after, s", "keys known at all sites after, s", "at its end, %", "from one site to another, kB/s",
		"δ between sites, s", "τ within a site, ms", "requests", "decided by owners, %", "crowd refused",
		"clients late, ms"}}
	for i := range r.Phases {
		p := &r.Phases[i]
		s := p.Sites
		t.Add(p.Name, short(1000*s.Delay), short(100*s.Loss), p.Agents, short(p.Seconds), short(s.Agreed),
			short(s.Known), short(100*s.Keys), Figure{s.Pair.Mean / 1000, s.Pair.Most / 1000}, short(s.Lag),
			short(1000*s.SiteDelay), s.Requests, short(100*s.Decided), s.Refused, short(1000*s.Late))
	}
	t.Notes = []string{fmt.Sprintf("All keys were known %.1f s after the start; the whole took %.0f s.", r.Start,
		r.Seconds)}
	return t
}

// clientTable returns what clients with a limit of their own got.
func (r *Result) clientTable() *markdown.Section {
	t := &markdown.Section{Title: "Clients with limits of their own", Head: []string{"phase", "limit, burst", "client",
		"load", "requests", "refused, %", "wrongly", "excess, requests", "at most", "over one bucket"}}
	for i := range r.Phases {
		p := &r.Phases[i]
		for _, c := range p.Sites.Clients {
			t.Add(p.Name, fmt.Sprintf("%g/s, %g", c.Rate, c.Burst), strings.TrimSuffix(c.Name, "-"+p.Name),
				fmt.Sprintf("%g ×, %s", c.Load, atSites(c.Sites)), c.Offered, short(100*c.Refused()), c.Wrongful,
				short(c.Excess), short(c.Bound), fmt.Sprintf("%.3f", c.Ratio()))
		}
	}
	return t
}

func atSites(n int) string {
	if n == 1 {
		return "one site"
	}
	return "all sites"
}
