package aggregation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// silences is the number of promised packets that a replica must miss to count as unreachable.
const silences = 3

// SetMembers sets the membership of a lease, which holds until its soft expiry at until. A member without any packet
// so far has T2 from now on to send one. Until then no agent here knows what it claims, and its part by weight is
// kept for it.
func (t *Aggregator) SetMembers(now time.Duration, members []Member, until time.Duration) {
	t.leased = slices.Clone(members)
	slices.SortStableFunc(t.leased, byName)
	t.leased = slices.CompactFunc(t.leased, func(a, b Member) bool { return a.Name == b.Name })
	t.leasedUntil, t.recount, t.silent, t.given = until, 0, 0, true
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

// RenewMembers has the membership set last hold until the soft expiry of a later lease with the
// same members.
func (t *Aggregator) RenewMembers(now, until time.Duration) {
	switch {
	case !t.given:
		t.SetMembers(now, t.leased, until)
	case now >= t.leasedUntil:
		t.recount = 0
	}
	t.leasedUntil = until
}

// dropUnheard removes the replicas that were members only because of an earlier lease.
func (t *Aggregator) dropUnheard(now time.Duration) {
	for _, name := range slices.Sorted(maps.Keys(t.remotes)) { // sums are the same in each run
		if t.remotes[name].agent == "" && !contains(t.leased, name) {
			t.removeRemote(name)
			t.release(now, name)
		}
	}
}

// startHeard is the time that an agent which starts may take to receive packets from the members of its earlier life
// before it counts as cut off from them.
const startHeard = time.Second

// RestoreMembers sets the membership of the snapshot when the agent starts. It is in force until other replicas send
// packets or the coordinator sends leases. So an agent that starts while it is cut off does not count itself as the
// only one. The agent does not know what the others claim, so it goes to the split by weight without waiting for T1.
func (t *Aggregator) RestoreMembers(now time.Duration, members []Member) {
	t.SetMembers(now, members, now)
	t.members = slices.Clone(t.leased)
	t.lastMajority = now + startHeard - t.o.T1
	for _, p := range t.remotes {
		p.heard = now - startHeard // not in this life
	}
	t.recount = 0
}

// leases is the coordinator's membership while it is fresh.
func (t *Aggregator) leases(now time.Duration) []Member {
	if now >= t.leasedUntil {
		return nil
	}
	return t.leased
}

// updateMembers determines the members and whether more than half of their agents are reachable. While they are not,
// the membership stays as it was, unless the coordinator knows better. O(members) when something has changed or a peer
// became unreachable, and at each now while there is no majority.
func (t *Aggregator) updateMembers(now time.Duration) {
	if now < t.recount {
		if t.hasMajority {
			t.lastMajority = now
		}
		return
	}
	t.recount = t.nextSilence(now)
	leased := t.leases(now)
	candidates := t.heardLately(now)
	switch {
	case len(leased) > 0:
		// A new leader may not have reached members yet that are reachable here: without them the gateways that it
		// knows would take their part as well.
		still := slices.DeleteFunc(slices.Clone(t.members), func(m Member) bool { return !t.isHeard(now, m.Name) })
		candidates = union(leased, still)
	case !t.hasMajority:
		candidates = union(t.members, candidates)
	}
	candidates = t.withLocal(now, candidates)
	was := t.hasMajority
	heard, last := t.votes(now, candidates)
	t.hasMajority = 2*heard > len(last) || len(last) == 0
	switch {
	case t.hasMajority:
		t.lastMajority = now
		if !was {
			t.majorityBack, t.recount = now, now // replicas that were reachable before it count again
		}
	case was: // T1 counts from the silence, which is noticed later by agents that speak rarely
		slices.Sort(last)
		t.lastMajority = min(t.lastMajority, last[(len(last)-1)/2])
	}
	if !t.hasMajority {
		t.recount = min(t.recount, now+1)
	}
	t.members, t.weights = candidates, 0
	for _, m := range candidates {
		t.weights += m.Weight
	}
}

// nextSilence returns the next time at which a missing packet may change the membership or who is reachable. A
// reachable replica may miss a promised packet, an unreachable one may have been so for T2, or the leases end.
func (t *Aggregator) nextSilence(now time.Duration) time.Duration {
	next := time.Duration(math.MaxInt64)
	if now < t.leasedUntil {
		next = t.leasedUntil
	}
	for _, p := range t.sortedRemotes() {
		if t.hears(now, p) {
			next = min(next, p.speaksBy(t.o.Period))
		}
		if forget := t.lastHeard(p) + t.o.T2; !p.drained && now < forget {
			next = min(next, forget)
		}
	}
	return next
}

// speaksBy returns the time at which a replica has missed its promised packets, without the lag.
func (p *remote) speaksBy(period time.Duration) time.Duration {
	return p.heard + silences*max(p.promise, period) + 1
}

// votes counts the agents of members with a reachable member, and returns when each agent was last received. An agent
// has one vote whatever its gateways weigh; otherwise an agent that claims a weight beyond all others would cut them
// off when it becomes unreachable.
func (t *Aggregator) votes(now time.Duration, members []Member) (heard int, last []time.Duration) {
	type voter struct{ agent, gateway string } // the gateway of an agent without a packet so far
	type vote struct {
		heard bool
		last  time.Duration
	}
	votes := make(map[voter]vote, len(t.owners.Names))
	for _, m := range members {
		by, at := voter{}, now // here
		switch p := t.remotes[m.Name]; {
		case p != nil && t.siteOf[p.agent] != nil:
			continue // a cut between sites cuts nobody off
		case p != nil && p.agent != "":
			by, at = voter{agent: p.agent}, p.heard
		case p != nil:
			by, at = voter{gateway: m.Name}, p.heard
		case !t.isLocal(m.Name):
			by, at = voter{gateway: m.Name}, t.lastMajority
		}
		v := votes[by]
		votes[by] = vote{v.heard || t.isHeard(now, m.Name), max(v.last, at)}
	}
	for _, v := range votes {
		if v.heard {
			heard++
		}
		last = append(last, v.last)
	}
	return heard, last
}

// heardLately lists the other replicas that were received within T2, by name.
func (t *Aggregator) heardLately(now time.Duration) []Member {
	var out []Member
	for _, p := range t.sortedRemotes() {
		if !p.drained && p.site == "" && now-t.lastHeard(p) < t.o.T2 {
			out = append(out, Member{p.name, p.weight})
		}
	}
	return out
}

// lastHeard returns the time at which a replica was last received, or could have been again: after an isolation all get
// T2 to send.
func (t *Aggregator) lastHeard(p *remote) time.Duration { return max(p.heard, t.majorityBack) }

// union is a with those of b that it lacks; all are ordered by name.
func union(a, b []Member) []Member {
	out := make([]Member, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		c := byName(a[0], b[0])
		if c > 0 {
			out, b = append(out, b[0]), b[1:]
			continue
		}
		if c == 0 {
			b = b[1:]
		}
		out, a = append(out, a[0]), a[1:]
	}
	return append(append(out, a...), b...)
}

func byName(a, b Member) int { return cmp.Compare(a.Name, b.Name) }

// find returns where a member is in a list that is ordered by name.
func find(members []Member, name string) (int, bool) {
	return slices.BinarySearchFunc(members, name, func(m Member, name string) int { return cmp.Compare(m.Name, name) })
}

func contains(members []Member, name string) bool {
	_, ok := find(members, name)
	return ok
}

// withLocal adds the replicas of this agent to a membership, and takes those
// out that exited in order. While the coordinator's membership is fresh, the weights in it count, which are bounded:
// as for replicas of other agents.
func (t *Aggregator) withLocal(now time.Duration, members []Member) []Member {
	var here []Member
	leased := t.leases(now)
	weightOf := func(o *local) float64 {
		if i, ok := find(leased, o.name); ok {
			return leased[i].Weight
		}
		return o.weight
	}
	gone := map[string]bool{}
	for _, o := range t.sortedLocals() {
		last := len(here) - 1
		switch {
		case o.site != "":
		case o.presence == exited:
			gone[o.name] = true
		case last >= 0 && here[last].Name == o.name: // a later process
			here[last].Weight = weightOf(o)
		default:
			here = append(here, Member{o.name, weightOf(o)})
		}
	}
	out := slices.DeleteFunc(slices.Clone(members), func(m Member) bool {
		p := t.remotes[m.Name]
		return p != nil && p.drained || gone[m.Name]
	})
	return union(here, out)
}

// isHeard reports whether a replica is connected here, or its agent sent packets as
// promised.
func (t *Aggregator) isHeard(now time.Duration, name string) bool {
	p := t.remotes[name]
	if p == nil {
		return t.isLocal(name)
	}
	return t.hears(now, p)
}

// hears reports whether the agent of a replica sent its packets as promised.
func (t *Aggregator) hears(now time.Duration, p *remote) bool {
	return now-p.heard <= silences*max(p.promise, t.o.Period)+t.Lag()
}

func (t *Aggregator) isolation(now time.Duration) exchange.Isolation {
	switch {
	case t.hasMajority:
		return exchange.Connected
	case now-t.lastMajority < min(t.o.T1, t.o.T2-t.Lag()):
		return exchange.Frozen
	}
	return exchange.Split
}
