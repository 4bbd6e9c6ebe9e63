package aggregation

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// Status is the aggregator's state for people and metrics.
type Status struct {
	Isolation   exchange.Isolation
	Lag         time.Duration
	Keys        int // with sums for the gateways here, or claimed by them
	Owned       int // of which this agent is the owner
	Singles     int // used here, and of which one agent is in a small fleet, too
	TotalWeight float64
	Replicas    []ReplicaStatus // ordered by name
	Unheard     []string        // members that are unreachable, ordered
	Refused     uint64          // records with bad numbers or beyond the budget
	Conflicts   uint64          // local names received from elsewhere
	Sites       []SiteStatus    // the others, by name
}

// ReplicaStatus is one replica, of this agent or another.
type ReplicaStatus struct {
	Name       string
	Agent      string // "" = this one
	Generation uint64
	Weight     float64
	Age        time.Duration // since it was last received
	Heard      bool          // it sent its packets in time
	Member     bool
	Drained    bool
}

// SiteStatus is another site.
type SiteStatus struct {
	Name      string `json:"name"`
	Agents    int    `json:"agents"`         // alive
	Reachable bool   `json:"reachable"`      // any of them is received
	Gone      bool   `json:"gone,omitempty"` // unreachable for so long that it counts no more
	Keys      int    `json:"keys"`           // used at both sites
	Waiting   int    `json:"waiting"`        // records to be sent there
}

// SiteClaim is the claim of another site to a key.
type SiteClaim struct {
	Name      string
	Rate      float64 // cost units/s
	Reachable bool
}

// SiteClaims returns what the other sites that use a key claim of it, by name; nothing if another agent owns the key.
func (t *Aggregator) SiteClaims(key uint64) (out []SiteClaim) {
	for _, s := range t.sortedSites() {
		if u := s.uses.get(key); u != nil && u.began {
			out = append(out, SiteClaim{s.name, u.Claim, !s.silent})
		}
	}
	return out
}

// OtherSites lists the other sites that count by name, without Keys.
func (t *Aggregator) OtherSites() []SiteStatus {
	return slices.DeleteFunc(t.allSites(), func(s SiteStatus) bool { return s.Gone })
}

// allSites is OtherSites with the sites that are gone.
func (t *Aggregator) allSites() (out []SiteStatus) {
	for _, s := range t.sortedSites() {
		if s.ended > 0 {
			continue
		}
		out = append(out, SiteStatus{Name: s.name, Agents: len(s.owners.Names), Reachable: !s.silent,
			Gone: s.gone, Waiting: s.waiting()})
	}
	return out
}

// siteStatus describes the other sites.
func (t *Aggregator) siteStatus() []SiteStatus {
	out := t.allSites()
	for i := range out {
		for _, u := range t.sites[out[i].Name].uses.values {
			if u.began {
				out[i].Keys++
			}
		}
	}
	return out
}

// Isolation says whether a majority of the members is reachable.
func (t *Aggregator) Isolation(now time.Duration) exchange.Isolation {
	t.updateMembers(now)
	return t.isolation(now)
}

// Status returns a copy of what is known.
func (t *Aggregator) Status(now time.Duration) Status {
	t.updateMembers(now)
	s := Status{Isolation: t.isolation(now), Lag: t.Lag(), Keys: t.keys.len(), Owned: t.ours.len(),
		Singles: t.used[true], Refused: t.refused, Conflicts: t.conflicts, Unheard: []string{}, Sites: t.siteStatus()}
	for _, m := range t.members {
		s.TotalWeight += m.Weight
		if !t.isHeard(now, m.Name) {
			s.Unheard = append(s.Unheard, m.Name)
		}
	}
	for id, o := range t.locals {
		if o.site != "" {
			continue
		}
		s.Replicas = append(s.Replicas, ReplicaStatus{Name: id.name, Generation: id.generation, Weight: o.weight,
			Heard: o.presence == connected, Member: contains(t.members, id.name), Drained: o.presence == exited})
	}
	for _, p := range t.remotes {
		if p.site != "" {
			continue
		}
		s.Replicas = append(s.Replicas, ReplicaStatus{Name: p.name, Agent: p.agent, Generation: p.of.process(),
			Weight: p.weight, Age: now - p.heard, Heard: t.isHeard(now, p.name), Member: contains(t.members, p.name),
			Drained: p.drained})
	}
	slices.SortFunc(s.Replicas, func(a, b ReplicaStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Generation, b.Generation))
	})
	return s
}

// Local returns the replicas connected here, as members; a parent
// and a child of a hot restart are one.
func (t *Aggregator) Local() []Member {
	var out []Member
	for id, o := range t.locals {
		known := func(m Member) bool { return m.Name == id.name }
		if o.site == "" && o.presence == connected && !slices.ContainsFunc(out, known) {
			out = append(out, Member{id.name, o.weight})
		}
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Claim returns what a process here has announced of a key last, and when. Not ok: nothing, or it has withdrawn it.
func (t *Aggregator) Claim(name string, generation, key uint64) (c exchange.KeyClaim, at time.Duration, ok bool) {
	o := t.locals[process{name, generation}]
	if o == nil {
		return c, 0, false
	}
	a := o.keys.get(key)
	if a == nil || a.withdrawn || a.flow {
		return c, 0, false
	}
	c = a.KeyClaim
	c.Admitted += a.before
	return c, a.at, true
}
