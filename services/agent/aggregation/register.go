package aggregation

import (
	"slices"
	"time"

	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// The receivers of the claims of the gateways here. Up to Everybody agents all receive them, each of which then is
// the owner of each key for its own gateways. Beyond that number, and of single keys, the receivers are the key's
// owner, and the former one as long as its sum holds.

// SetOwners sets the other agents that may own keys; keys with a new owner are registered there. back lists the agents
// that have come since the last call, also if they were there before: what they were sent meanwhile is lost. O(keys)
// when the agents change.
func (t *Aggregator) SetOwners(now time.Duration, others, back []string) {
	if len(back) == 0 && slices.Equal(t.owners.Names[1:], others) {
		return
	}
	for _, name := range others {
		delete(t.siteOf, name) // it may have been of another site
	}
	before := t.owners
	wasSmall, c := t.small(), changeOf(&before, append([]string{t.o.Agent}, others...), back)
	t.owners = c.now
	for _, o := range t.locals {
		o.seq++ // the moved claim is newer than the claim at the owner before
	}
	for i, at := range t.keys.keys {
		k := t.keys.values[i]
		if k.owner == "" {
			if wasSmall && !t.small() {
				t.unfollow(now, at, k)
			}
			continue
		}
		wasShared, shared := wasSmall && !k.single, t.sharesAll(k)
		owner := t.ownerAfter(c, at, k, wasShared)
		switch {
		case owner != k.owner:
			t.moveTo(now, owner, at, k)
		case !shared && slices.Contains(back, owner):
			t.tellAgent(now, owner, at, k, delivery.Urgent)
		}
		names := c.joined.Names
		if wasShared != shared {
			names = c.now.Names[1:]
		}
		t.tellAgents(now, at, k, names, wasShared || shared)
	}
	t.tellSums(now, back)
	t.checkSites(now, &before)
}

// ownerAfter returns the owner of a key after a change of the owners. Of a key that all agents know each agent is one.
func (t *Aggregator) ownerAfter(c change, at uint64, k *key, wasShared bool) string {
	switch {
	case t.sharesAll(k):
		return t.o.Agent
	case wasShared:
		return c.now.Of(at)
	}
	return c.of(at, k.owner)
}

// begins finds the owner of a key that gateways here begin to use. A single key is one until they use it no more.
func (t *Aggregator) begins(at uint64, k *key, exact bool) {
	k.single = exact && t.used[false] >= t.o.Shared
	t.used[k.single]++
	k.owner = t.ownerOf(at, k)
}

// ends notes that gateways here do not use a key any more.
func (t *Aggregator) ends(k *key) {
	if k.owner != "" {
		t.used[k.single]--
	}
	k.owner, k.before, k.alone, k.single = "", "", false, false
}

// tellAgent sends the claims here to an agent, or their end. Others were sent them before.
func (t *Aggregator) tellAgent(now time.Duration, to string, at uint64, k *key, level delivery.Urgency) {
	for o := range t.localsOf(at) {
		t.sendClaim(now, to, o, at, k, level, true)
	}
}

// tellSums sends agents that are back the sums of the keys that they use.
func (t *Aggregator) tellSums(now time.Duration, back []string) {
	for _, name := range back {
		if t.o.Tell == nil {
			continue
		}
		for _, at := range t.ours.keys {
			if t.wantsSum(name, at) {
				t.o.Tell.Tell(now, name, delivery.Item{Key: at, Kind: delivery.Sum}, delivery.Normal)
			}
		}
	}
}

// tellAgents sends the claims of a key to agents that receive, or received, all claims; not all: to agents that add up.
func (t *Aggregator) tellAgents(now time.Duration, at uint64, k *key, names []string, all bool) {
	for _, name := range names {
		if all || t.addsUp(name, at) {
			t.tellAgent(now, name, at, k, delivery.Normal)
		}
	}
}

// moveTo registers the claims here at another owner.
func (t *Aggregator) moveTo(now time.Duration, owner string, at uint64, k *key) {
	former := k.owner
	k.owner, k.alone, k.next = owner, false, nil
	if k.source != nil && k.source.agent == former {
		k.before, former = former, ""
	}
	if k.before == owner {
		k.before = ""
	}
	t.tellAgent(now, owner, at, k, delivery.Urgent)
	if former != "" {
		t.tellAgent(now, former, at, k, delivery.Normal)
	}
}

// endUse ends the registration of a key once no gateway here uses it.
func (t *Aggregator) endUse(now time.Duration, at uint64, k *key) {
	for _, o := range t.locals {
		if a := o.keys.get(at); a != nil && !a.withdrawn {
			return
		}
	}
	if !t.sharesAll(k) {
		t.unfollow(now, at, k)
	}
	t.ends(k)
}

// unfollow ends the sum of a key that the owner sends this agent no more. If the key is used here again, what others
// admitted meanwhile counts as far as they still see it as spent.
func (t *Aggregator) unfollow(now time.Duration, at uint64, k *key) {
	if k.source != nil {
		t.table.Discard(k.source.id, at, now.Seconds())
		t.table.Renew(at)
		t.follow(k, nil)
	}
	t.discardRests(now, k)
	k.next = nil
	t.note(now, at, k)
}

// small reports whether there are so few agents that each receives all keys but single ones, and owns them.
func (t *Aggregator) small() bool { return len(t.owners.Names) <= t.o.Everybody }

// sharesAll reports whether each agent receives all claims of a key; k may be nil.
func (t *Aggregator) sharesAll(k *key) bool { return t.small() && (k == nil || !k.single) }

// tellClaims sends the claims of all gateways here.
func (t *Aggregator) tellClaims(now time.Duration, at uint64, k *key, level delivery.Urgency) {
	for o := range t.localsOf(at) {
		t.tellClaim(now, o, at, k, level, false)
	}
}

// tellClaim sends the claim of a gateway to all agents that need it; again says that an earlier agent of the gateway
// knew it.
func (t *Aggregator) tellClaim(now time.Duration, o *local, at uint64, k *key, level delivery.Urgency, again bool) {
	if k.owner == "" {
		return
	}
	if a := o.keys.get(at); a != nil {
		a.sent, a.fell, a.owed = now, now, false
	}
	t.sendClaim(now, k.owner, o, at, k, level, again)
	if k.before != "" {
		t.sendClaim(now, k.before, o, at, k, level, again)
	}
	switch {
	case t.sharesAll(k):
		for _, name := range t.owners.Names[1:] {
			if name != k.before {
				t.sendClaim(now, name, o, at, k, level, again)
			}
		}
	case t.small():
		for g, takes := range t.owned.Users(at) {
			if !takes && g != t.self {
				t.sendClaim(now, g.Value(), o, at, k, level, again)
			}
		}
	}
}

// tellFall sends a claim that only falls to this agent as an owner, and to the owner from which other sites have it.
func (t *Aggregator) tellFall(now time.Duration, o *local, at uint64, k *key) {
	if k.owner == t.o.Agent {
		t.takeOwn(now, o, at, k, false)
	}
	a, owner := o.keys.get(at), t.owners.Of(at)
	if owner != t.o.Agent && now-a.fell >= ownersFall && t.mayBeAbroad(now, at, k) {
		a.fell = now
		t.sendClaim(now, owner, o, at, k, delivery.Spare, false)
	}
}

// sendClaim sends the claim of a gateway to one agent; again says that another agent was sent it before, and this one
// was not. A claim is Spare while the key's owner decides, but to an owner from which other sites have it.
func (t *Aggregator) sendClaim(
	now time.Duration, to string, o *local, at uint64, k *key, level delivery.Urgency, again bool,
) {
	item, a := delivery.Item{Key: at, Kind: delivery.Claim, From: o.number}, o.keys.get(at)
	if a != nil && a.Owned && (to != t.owners.Of(at) || !t.mayBeAbroad(now, at, k)) {
		level = delivery.Spare
	}
	switch {
	case o.presence == connected && !o.isListed(a): // it is sent once it is listed
	case to == t.o.Agent:
		t.takeOwn(now, o, at, k, again)
	case t.o.Tell == nil:
	case again:
		t.o.Tell.TellAgain(now, to, item, level)
	default:
		t.o.Tell.Tell(now, to, item, level)
	}
}

// wants reports whether an agent is to know what a gateway claims of a key.
func (t *Aggregator) wants(agent string, at uint64, k *key, a *announced) bool {
	return k != nil && a != nil && !a.withdrawn && k.owner != "" &&
		(agent == k.owner || agent == k.before || t.sharesAll(k) || t.small() && t.addsUp(agent, at))
}
