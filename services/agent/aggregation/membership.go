package aggregation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// silences is how many promised packets must be missed for a replica to count
// as unheard.
const silences = 3

// SetMembers sets the membership of a lease, which holds until its soft
// expiry at until. A member that was never heard has T2 from now on to speak; as long as it
// does not, nobody here knows what it claims, and its part by weight is kept for it.
func (t *Aggregator) SetMembers(now time.Duration, members []Member, until time.Duration) {
	t.leased = slices.Clone(members)
	t.leasedUntil = until
	t.dropUnheard(now)
	for i, m := range t.leased {
		t.leased[i].Weight = weight(m.Weight)
		if t.remotes[m.Name] == nil && !t.isLocal(m.Name) {
			p := &remote{name: m.Name, of: t.replica(m.Name), weight: weight(m.Weight), heard: now}
			t.remotes[m.Name], t.remotesByName = p, nil
			t.table.SetWeight(p.of.id, p.weight, now.Seconds())
		}
	}
}

// dropUnheard removes the replicas that were members only because of an earlier lease.
func (t *Aggregator) dropUnheard(now time.Duration) {
	for _, name := range slices.Sorted(maps.Keys(t.remotes)) { // sums are the same in each run
		if t.remotes[name].agent == "" && !contains(t.leased, name) {
			delete(t.remotes, name)
			t.remotesByName = nil
			t.release(now, name)
		}
	}
}

// startHeard is how long an agent that starts may take to hear the members of its earlier
// life before it is cut off from them.
const startHeard = time.Second

// RestoreMembers sets the membership of the snapshot when the agent starts. It is in force
// until other replicas are heard or the coordinator sends leases, so that an agent that
// starts while it is cut off does not count itself as the only one. The agent does not
// know what the others claim, so it goes to the split by weight without waiting for T1.
func (t *Aggregator) RestoreMembers(now time.Duration, members []Member) {
	t.SetMembers(now, members, now)
	t.members = slices.Clone(t.leased)
	t.lastMajority = now + startHeard - t.o.T1
	for _, p := range t.remotes {
		p.heard = now - startHeard // not in this life
	}
}

// leases is the coordinator's membership while it is fresh.
func (t *Aggregator) leases(now time.Duration) []Member {
	if now >= t.leasedUntil {
		return nil
	}
	return t.leased
}

// updateMembers determines who is a member and whether more than half of their agents are
// heard. While it is not, the membership stays as it was, unless the
// coordinator knows better.
func (t *Aggregator) updateMembers(now time.Duration) {
	leased := t.leases(now)
	candidates := t.heardLately(now)
	switch {
	case len(leased) > 0:
		// A new leader may not have heard yet of members that are heard here: without
		// them the gateways that it knows would take their part as well.
		still := slices.DeleteFunc(slices.Clone(t.members), func(m Member) bool { return !t.isHeard(now, m.Name) })
		candidates = union(leased, still)
	case !t.hasMajority:
		candidates = union(t.members, candidates)
	}
	candidates = t.withLocal(candidates)
	slices.SortFunc(candidates, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	heard, all := t.votes(now, candidates)
	was := t.hasMajority
	t.hasMajority = 2*heard > all || all == 0
	if t.hasMajority {
		t.lastMajority = now
		if !was {
			t.majorityBack = now
		}
	}
	t.members = candidates
}

// votes counts the agents of members, and of them those of which a member is heard. An
// agent has one vote whatever its gateways weigh, or one that claims a weight beyond
// all others would cut them off by falling silent.
func (t *Aggregator) votes(now time.Duration, members []Member) (heard, all int) {
	voted := map[string]bool{}
	for _, m := range members {
		agent := "gateway " + m.Name // of an agent not heard yet
		if p := t.remotes[m.Name]; t.isLocal(m.Name) {
			agent = ""
		} else if p != nil && p.agent != "" {
			agent = "agent " + p.agent
		}
		voted[agent] = voted[agent] || t.isHeard(now, m.Name)
	}
	for _, h := range voted {
		if h {
			heard++
		}
	}
	return heard, len(voted)
}

// heardLately are the other replicas that were heard within T2.
func (t *Aggregator) heardLately(now time.Duration) []Member {
	var out []Member
	for _, p := range t.remotes {
		if !p.drained && now-t.lastHeard(p) < t.o.T2 {
			out = append(out, Member{p.name, p.weight})
		}
	}
	return out
}

// lastHeard is when a replica was heard last, or could have been again: after an
// isolation all get T2 to speak.
func (t *Aggregator) lastHeard(p *remote) time.Duration { return max(p.heard, t.majorityBack) }

// union is a with those of b that it lacks.
func union(a, b []Member) []Member {
	out := slices.Clone(a)
	for _, m := range b {
		if !contains(out, m.Name) {
			out = append(out, m)
		}
	}
	return out
}

// withLocal adds the replicas of this agent to a membership, and takes those
// out that exited in order.
func (t *Aggregator) withLocal(members []Member) []Member {
	out := make([]Member, 0, len(members)+len(t.locals))
	for _, m := range members {
		if p := t.remotes[m.Name]; p != nil && p.drained {
			continue
		}
		out = append(out, m)
	}
	for _, o := range t.sortedLocals() {
		i := slices.IndexFunc(out, func(m Member) bool { return m.Name == o.name })
		switch {
		case o.presence == exited:
			if i >= 0 && !t.isLocal(o.name) {
				out = slices.Delete(out, i, i+1)
			}
		case i < 0:
			out = append(out, Member{o.name, o.weight})
		default:
			out[i].Weight = o.weight
		}
	}
	return out
}

// isHeard reports whether a replica is connected here, or its agent sent packets as
// promised.
func (t *Aggregator) isHeard(now time.Duration, name string) bool {
	if t.isLocal(name) {
		return true
	}
	p := t.remotes[name]
	return p != nil && now-p.heard <= silences*max(p.promise, t.o.Period)+t.Lag()
}

func (t *Aggregator) isolation(now time.Duration) exchange.Isolation {
	switch {
	case t.hasMajority:
		return exchange.Connected
	case now-t.lastMajority < t.o.T1:
		return exchange.Frozen
	}
	return exchange.Split
}
