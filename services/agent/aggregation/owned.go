package aggregation

import (
	"time"
	"unique"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// The owner's side of a key. It has the claims of all replicas that use it, here and at
// other agents, and the sums over them, one for each agent without its own replicas. An
// agent is the owner of what is registered at it, whatever it takes for the list of agents
// itself.

// tellAtOnce bounds the keys of replicas that become unreachable, or are back, whose sums are sent in half a period.
// Those of more keys are sent in turn. leastAtOnce is the number for each replica. An agent that sent all at once would
// itself send nothing else meanwhile, and be taken for unreachable: on a busy machine all others are late at once.
// searched is the number of the table's entries that are searched for each.
const (
	tellAtOnce  = 256
	leastAtOnce = 8
	searched    = 32
)

// ownedKey is the state of a key that this agent owns, besides the table's.
type ownedKey struct {
	kinds
	touched time.Duration // a record came last
	moved   bool          // counts were voided for a claim that another owner knew before
	news    bool          // its users are to be sent the new sum
	ownNews bool          // and this agent itself
	compare bool          // its users are to compare their pools soon
	taken   bool          // another agent takes its sum, or did
	from    claims.Group  // the agent from which the news came, or several
}

// named is a group with its name.
type named struct {
	name string
	claims.Group
}

// group is the group of an agent's gateways. It is asked for one agent many times in a row.
func (t *Aggregator) group(agent string) claims.Group {
	if agent != t.named.name || t.named.Group == several {
		t.named = named{agent, unique.Make(agent)}
	}
	return t.named.Group
}

// takeOwn takes the claim of a gateway here, for a key that this agent owns.
func (t *Aggregator) takeOwn(now time.Duration, o *local, at uint64, k *key, again bool) {
	a := o.keys.get(at)
	r := claims.Record{Generation: o.tableGeneration, Seq: o.seq}
	r.Key = at
	if a != nil {
		r = a.record(o)
		a.noteTold(now)
	}
	t.takeClaim(now, o.of.id, t.self, told{flow: isFlow(a, k), left: !t.wants(t.o.Agent, at, k, a),
		ask: k.source != t.own, abroad: o.site != "", known: again, Record: r})
}

// isFlow reports whether a claim is one of a flow: as the gateway says, or else as all others say.
func isFlow(a *announced, k *key) bool {
	if a != nil {
		return a.flow
	}
	return k != nil && k.onlyFlow()
}

// told is a replica's report of a key.
type told struct {
	flow   bool
	left   bool // it does not use the key any more here; it may then have counted nothing
	abroad bool // it stands for another site
	ask    bool // its agent wants the sum, whether it has changed or not
	takes  bool // its agent takes the sum; otherwise it adds up the claims of all itself
	// known: another owner, or an earlier life of this agent, was sent the claim before.
	known bool
	claims.Record
}

// applyOwned merges a record of a key that this agent owns, and counts it if it is refused.
func (t *Aggregator) applyOwned(now time.Duration, id claims.Peer, r claims.Record) claims.Outcome {
	outcome, err := t.owned.Apply(id, now.Seconds(), r)
	if err != nil {
		outcome = claims.Refused
	}
	if outcome == claims.Refused {
		t.refused++
	}
	return outcome
}

// touch returns the state of a key that this agent owns and of which a record came.
func (t *Aggregator) touch(now time.Duration, r *told) *ownedKey {
	info := t.ours.get(r.Key)
	if info == nil {
		info = &ownedKey{}
		t.ours.put(r.Key, info)
	}
	info.touched = now
	if !r.left {
		info.kinds |= kindOf(r.flow)
	}
	return info
}

// notAlone has the only agent that used a key send all its counts, when another agent comes. It reports whether the
// counts of the agents of a group are void until then.
func (t *Aggregator) notAlone(now time.Duration, of claims.Group, r *told, fresh bool) (void bool) {
	void = t.owned.IsVoid(of, r.Key)
	if fresh && !r.left && !t.only() {
		t.voidLone(now, of, r)
	}
	return void
}

// ownsAgain reports whether another owner was sent claims of a replica that this one was not.
func (t *Aggregator) ownsAgain(id claims.Peer, r *told) bool {
	return r.known && (r.abroad || !t.owned.UsedBy(id, r.Key))
}

// takeClaim takes the claim of a replica of a key that this agent owns.
func (t *Aggregator) takeClaim(now time.Duration, id claims.Peer, of claims.Group, r told) {
	known := t.owned.Has(id, r.Key)
	if r.left && !known {
		return
	}
	fresh, again := !known || r.ask, t.ownsAgain(id, &r)
	void := t.notAlone(now, of, &r, fresh)
	outcome, left := t.enter(now, id, &r)
	if outcome == claims.Refused {
		return
	}
	fresh = fresh || left
	info := t.touch(now, &r)
	t.noteTaker(now, id, of, &r, outcome != claims.Old, fresh)
	if outcome == claims.Applied && (again || void && info.moved) {
		t.renew(&r)
		of = several // its own sum has another epoch, too
	}
	t.noteReturn(now, id, outcome, info, &r)
	switch {
	case fresh || outcome == claims.Applied:
		t.tellUsers(now, r.Key, of, fresh)
	case outcome == claims.Renewed && of != t.self:
		t.noteOwn(r.Key, info) // others learn what is spent with the next news
	}
	if !r.abroad {
		t.tellSites(now, r.Key)
	}
}

// noteTaker notes whether an agent takes the sum of a key. An agent that begins to add up the claims of all,
// or ends that, is sent the claims here, or their end, if they are not sent to all.
func (t *Aggregator) noteTaker(now time.Duration, id claims.Peer, of claims.Group, r *told, news, fresh bool) {
	took := t.owned.TakesSum(id, r.Key)
	if !news || of == t.self || took && r.left {
		return
	}
	t.owned.SetTakesSum(id, r.Key, r.takes)
	k, user := t.ours.get(r.Key), t.keys.get(r.Key)
	first := r.takes && !k.taken
	k.taken = k.taken || first
	switch {
	case user == nil, !t.small(), t.only():
	case first && user.owner == "":
		t.unfollow(now, r.Key, user)
	case !r.takes && user.single && (fresh || took):
		t.tellAgent(now, of.Value(), r.Key, user, delivery.Normal)
	}
}

// renew begins another count of a key.
func (t *Aggregator) renew(r *told) {
	if r.abroad {
		t.owned.RenewAbroad(r.Key)
	} else {
		t.owned.Renew(r.Key)
	}
}

// enter puts a claim, or its end, into the table of owned keys. left: the replica does not use the key any more.
func (t *Aggregator) enter(now time.Duration, id claims.Peer, r *told) (outcome claims.Outcome, left bool) {
	outcome = claims.Applied
	if !r.left || r.Admitted > 0 {
		outcome = t.applyOwned(now, id, r.Record)
	}
	if outcome != claims.Refused && r.left && t.owned.Leave(id, r.Key, r.Generation, r.Seq) {
		return claims.Applied, true
	}
	return outcome, false
}

// voidLone voids the counts of the only agent that used a key, when another agent begins to use it: an agent that is
// alone does not send changes. The first agent is asked for all counts now. They are news to the second agent if it has
// not used the key before, but not if it only comes from another owner.
func (t *Aggregator) voidLone(now time.Duration, comes claims.Group, r *told) {
	var lone claims.Group
	for g, takes := range t.owned.Users(r.Key) {
		if g == comes || !takes && g != t.self || lone != several && g != lone {
			return
		}
		lone = g
	}
	t.owned.Void(r.Key, now.Seconds())
	if info := t.ours.get(r.Key); info != nil {
		info.moved = r.known
	}
}

// several is no agent: a change came from more than one, or from none.
var several claims.Group

// tellUsers sends a key's new sums to its users, except agents that add up the claims themselves: at once if the claim
// is fresh, else with the next packets. The agent that sent the change gets the sum only if its claim is fresh: its own
// sum has not changed.
func (t *Aggregator) tellUsers(now time.Duration, key uint64, from claims.Group, fresh bool) {
	info := t.ours.get(key)
	if info == nil {
		return
	}
	if fresh {
		if t.tellTakers(now, key, several, true) {
			t.tellSelf(now, key)
		}
		return
	}
	switch {
	case !info.taken:
	case !info.news:
		info.news, info.from = true, from
		t.news = append(t.news, key)
	case info.from != from:
		info.from = several
	}
	if from != t.self {
		t.noteOwn(key, info)
	}
}

// tellTakers sends a key's sums to the other agents that take them, except one. It reports whether this agent needs
// them, too.
func (t *Aggregator) tellTakers(now time.Duration, key uint64, but claims.Group, urgent bool) (self bool) {
	info := t.ours.get(key)
	if info == nil {
		return false
	}
	info.taken = false
	for g, takes := range t.owned.Users(key) {
		self, info.taken = self || g == t.self, info.taken || takes
		if takes && g != but && t.o.Tell != nil {
			t.o.Tell.Tell(now, g.Value(), delivery.Item{Key: key, Kind: delivery.Sum}, soon(urgent))
		}
	}
	return self || t.needsAll(info)
}

// needsAll reports whether this agent adds up a key for its gateways, whether they use it or not.
func (t *Aggregator) needsAll(k *ownedKey) bool {
	return t.small() && (!k.taken || t.only())
}

// only reports whether this agent knows of no other.
func (t *Aggregator) only() bool { return len(t.owners.Names) == 1 }

// Gather queues, for their users, the keys whose sums have changed since its last call. So a key that many agents
// change within half a period costs each user one note.
func (t *Aggregator) Gather(now time.Duration) {
	for _, key := range t.news {
		if info := t.ours.get(key); info != nil && info.news {
			info.news = false
			t.tellTakers(now, key, info.from, false)
		}
	}
	t.news = t.news[:0]
	t.sendSites(now)
}

// noteOwn notes that the gateways here are to know the new sum of a key that is owned here.
func (t *Aggregator) noteOwn(key uint64, info *ownedKey) {
	if !info.ownNews {
		info.ownNews = true
		t.ownNews = append(t.ownNews, key)
	}
}

// tellOwn has the gateways here know the sums that noteOwn has noted.
func (t *Aggregator) tellOwn(now time.Duration) {
	n := len(t.ownNews)
	for _, key := range t.ownNews[:n] {
		if info := t.ours.get(key); info != nil && info.ownNews {
			info.ownNews = false
			t.tellSelf(now, key)
		}
	}
	t.ownNews = append(t.ownNews[:0], t.ownNews[n:]...) // a claim that the owner asked for is news again
}

// tellSelf has this agent's own gateways know the new sum of a key that it owns, if they use it.
func (t *Aggregator) tellSelf(now time.Duration, key uint64) {
	info, k := t.ours.get(key), t.keys.get(key)
	if info == nil || (k == nil || k.owner == "") && !t.small() {
		return
	}
	w := ownerSum{from: t.own, kinds: max(info.kinds, ofLimit), since: now,
		Outside: t.owned.Outside(key, t.self, now.Seconds(), info.onlyFlow())}
	if w.Used || t.needsAll(info) {
		t.ownSeq++
		w.seq, w.ask = t.ownSeq, w.Void
		t.takeSum(now, &w)
	}
}

// Advance does what time brings; call it each half period. It costs nothing for keys that
// do not change.
func (t *Aggregator) Advance(now time.Duration) {
	t.hearLocals(now)
	t.installWaiting(now)
	t.endRests(now)
	if now >= t.silent {
		t.goOn(now)
	}
	t.goOnAbroad(now)
	t.comparePools(now)
	t.tellOwn(now)
}

// Due returns when Advance or Sums must run next: 0 is at once, math.MaxInt64 not before an event.
func (t *Aggregator) Due() time.Duration {
	if !t.hasMajority || t.fresh || len(t.waiting) > 0 {
		return 0
	}
	// News for the gateways here goes with the sums of each period, where all agents add up for themselves.
	if len(t.news) > 0 || len(t.ownNews) > 0 && !t.small() {
		return 0
	}
	at := min(t.silent, t.recount, t.dueAbroad())
	if len(t.comparisons) > 0 {
		at = min(at, t.comparisons[0].at)
	}
	if len(t.rests) > 0 {
		at = min(at, t.rests[0].ends)
	}
	return at
}

// sweepOwned forgets keys that nobody uses any more.
func (t *Aggregator) sweepOwned(now time.Duration) {
	t.ours.pruneSome(max(1024, t.ours.len()/sweepCycle), func(key uint64, k *ownedKey) bool {
		if t.owned.Holds(key) && (now-k.touched < forgetKey || t.owned.Used(key)) {
			return false
		}
		t.owned.Evict(key)
		if own := t.keys.get(key); own != nil && own.source == t.own { // its next count restarts
			t.table.Discard(t.own.id, key, now.Seconds())
			t.table.Renew(key)
			t.follow(own, nil)
			t.note(now, key, own)
		}
		return true
	})
}

// Fresh reports whether sums have changed since it was asked last.
func (t *Aggregator) Fresh() bool {
	fresh := t.fresh
	t.fresh = false
	return fresh
}
