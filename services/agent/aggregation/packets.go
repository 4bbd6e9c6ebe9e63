package aggregation

import (
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"github.com/titrate/titrate/services/agent/gossip/size"
)

// Heads are the replicas of this agent without their claims. Disconnected ones are left
// out, so that the other agents notice.
func (t *Aggregator) Heads(now time.Duration) []*gossipv1.Replica {
	t.hearLocals(now)
	out := make([]*gossipv1.Replica, 0, len(t.locals))
	for _, o := range t.sortedLocals() {
		if o.presence != disconnected {
			out = append(out, o.head())
		}
	}
	return out
}

func (o *local) head() *gossipv1.Replica {
	return &gossipv1.Replica{Name: o.name, Generation: o.order, Process: o.generation, Seq: o.seq, Weight: o.weight,
		Site: o.site, Drained: o.presence == exited}
}

// Put adds the state of an item to a packet to an agent, and returns by how many bytes the
// packet grows, without tags and lengths. It returns 0 if the agent need not know it.
func (t *Aggregator) Put(now time.Duration, m *gossipv1.Packet, to string, item delivery.Taken) int {
	switch item.Kind {
	case delivery.Sum:
		return t.putSum(now, m, to, item.Key)
	case delivery.Site:
		return t.putSite(now, m, to, item)
	}
	o := t.numbered[item.From]
	k := t.keys.get(item.Key)
	if o == nil || o.presence != connected {
		return 0
	}
	a := o.keys.get(item.Key)
	if !o.isListed(a) { // it is sent once it is listed
		return 0
	}
	left := !t.wants(to, item.Key, k, a)
	ask := !left && to == k.owner && (k.source == nil || k.source.agent != to)
	sum := !left && (to == k.owner || to == k.before) && !t.sharesAll(k)
	r, grown := replicaIn(m, o)
	if isFlow(a, k) {
		c := &gossipv1.FlowClaim{Key: item.Key, Left: left, Ask: ask, Sum: sum}
		if a != nil {
			c.Claim, c.Active, c.Unsaturated = float32(a.Claim), float32(a.Active), o.ofSite(a)
			a.noteTold(now)
		}
		r.Flows = append(r.Flows, c)
		return grown + size.FlowClaim(c)
	}
	c := &gossipv1.KeyClaim{Key: item.Key, Left: left, Ask: ask, Known: item.Again, Sum: sum}
	if a != nil {
		c.Claim, c.Active, c.Admitted, c.Spent = float32(a.Claim), float32(a.Active), a.before+a.Admitted,
			float32(a.Spent)
		c.Own, c.Unsaturated = float32(a.Own), o.ofSite(a)
		a.noteTold(now)
	}
	r.Keys = append(r.Keys, c)
	return grown + size.KeyClaim(c)
}

// ofSite returns the claims of the unsaturated gateways of another site; of a gateway its claim says it.
func (o *local) ofSite(a *announced) float32 {
	if o.site == "" {
		return 0
	}
	return float32(a.Unsaturated)
}

// replicaIn returns the replica's part of a packet, and the bytes that it adds.
func replicaIn(m *gossipv1.Packet, o *local) (r *gossipv1.Replica, grown int) {
	for _, r := range m.Replicas {
		if r.Name == o.name && r.Process == o.generation {
			return r, 0
		}
	}
	r = o.head()
	m.Replicas = append(m.Replicas, r)
	return r, size.Replica(r) + 3
}

func (t *Aggregator) putSum(now time.Duration, m *gossipv1.Packet, to string, key uint64) int {
	info := t.ours.get(key)
	if info == nil || !t.wantsSum(to, key) {
		return 0
	}
	s := t.owned.Outside(key, t.group(to), now.Seconds(), info.onlyFlow())
	if !s.Used {
		return 0
	}
	out := t.newSum()
	out.Key, out.Flow, out.Claims, out.Active = key, info.onlyFlow(), float32(s.Claims), float32(s.Active)
	out.Unsaturated, out.Admitted, out.Spent = float32(s.Unsaturated), s.Admitted, float32(s.Spent)
	out.Own, out.Gap, out.Assumed = float32(s.Own), float32(s.Gap), s.Assumed
	out.Others, out.Epoch, out.Ask, out.Abroad = uint32(s.Others), s.Epoch, s.Void, s.Abroad
	m.Sums = append(m.Sums, out)
	return size.Sum(out)
}

// sumsAtOnce is the number of sums in one array: as many as one packet holds.
const sumsAtOnce = 32

// newSum returns one of sumsAtOnce sums that lie in one array: one allocation for several.
func (t *Aggregator) newSum() *gossipv1.Sum {
	if len(t.sums) == 0 {
		t.sums = make([]gossipv1.Sum, sumsAtOnce)
	}
	s := &t.sums[0]
	t.sums = t.sums[1:]
	return s
}

// wantsSum reports whether an agent is to know what others claim of a key.
func (t *Aggregator) wantsSum(agent string, key uint64) bool {
	_, takes := t.owned.Uses(t.group(agent), key)
	return takes
}

// addsUp reports whether an agent uses a key and adds up the claims of all agents itself.
func (t *Aggregator) addsUp(agent string, key uint64) bool {
	uses, takes := t.owned.Uses(t.group(agent), key)
	return uses && !takes
}

// Wanted reports whether an agent needs to know an item.
func (t *Aggregator) Wanted(to string, item delivery.Item) bool {
	switch item.Kind {
	case delivery.Sum:
		return t.wantsSum(to, item.Key)
	case delivery.Site: // what is acknowledged is not sent again before it changes
		return false
	}
	o, k := t.numbered[item.From], t.keys.get(item.Key)
	if o == nil || k == nil {
		return false
	}
	a := o.keys.get(item.Key)
	return o.isListed(a) && t.wants(to, item.Key, k, a)
}
