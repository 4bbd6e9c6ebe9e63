package aggregation

import (
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// The user's side of a key: the claims of the gateways here are sent to the key's owner, and the owner sends what all
// others claim. In the table that sum is the record of one more peer, the source. So it is assumed to go on while the
// owner is unreachable, and dropped after T2, like the claims of any replica.
//
// When another agent becomes the owner:
//
//  1. The claims here are sent to both, and the sum of the former owner holds.
//  2. It holds until the new one knows as many other replicas, or has spoken for [listen].
//  3. If the new one knows fewer, what its sum lacks of the claims of the former one stands
//     until it knows as many, for T2 at most. Some replicas may be cut off.
//  4. The count of the key restarts, with another epoch. What a ledger has charged stands,
//     and it takes the others' pool if that is emptier. So no count steps, and what others
//     admitted between the two sums is counted as far as one of them sees it as spent. So it
//     does when the new owner learns of a replica that says that its claim was known to an
//     owner before: it is not new, but registers late. The same holds for an agent that
//     starts again, which is a new owner of all keys of its gateways.
//     What was admitted less than a delay before, and came here by the former owner first,
//     counts twice: the new one is sent it later.
//  5. An owner that takes over again while it is remembered ([remember]), as after a cut, goes
//     on with its count: what others admitted meanwhile is in it, and is debt.

// remember is for how many T2 the count of a former owner is remembered: for as long as the owner itself remembers who
// has left a key.
const remember = 3

// listen is the time for which the sum of a former owner holds once the new one has sent one of fewer replicas. The
// others register there within two periods and the delay.
const listen = 250 * time.Millisecond

// use is this agent's state as a user of a key.
type use struct {
	owner  string    // at which the claims here are registered; "": none is
	before string    // the former owner, at which they are, too, as long as its sum holds
	source *source   // whose sum holds; nil: there was none
	others int       // how many replicas are in that sum
	next   *ownerSum // of the new owner, not in force yet
	rest   *rest     // of former owners, the latest one first; nil: there are none
}

// rest has a former owner's claims, as far as the new owner's sum lacks them, and the former owner's count.
type rest struct {
	key    uint64
	from   *source // the former owner, whose record in the table is what is left
	others int     // how many replicas it knew
	claims bool    // some of its claims stand
	turns  int     // each of a T2
	before *rest   // of an earlier owner
}

// isUsed reports whether a gateway here uses the key, or others of which an owner sends a sum.
func (u *use) isUsed() bool { return u.owner != "" || u.source != nil && u.others > 0 }

// turn is a rest that stands for another T2.
type turn struct {
	*rest
	ends time.Duration
}

// source is one life of an agent as the owner of keys.
type source struct {
	agentLife
	id   claims.Peer // in the table
	keys int         // for which its sum holds, or a rest of it

	heard, promise time.Duration // as of a remote
	silence        silence
}

// ownerSum is an owner's sum of a key.
type ownerSum struct {
	from *source
	seq  uint64 // of the packet
	kinds
	ask   bool          // for the claims here, whether they have changed or not
	since time.Duration // the owner has spoken of the key
	claims.Outside
}

// record is the sum as the table has it.
func (w *ownerSum) record() claims.Record {
	return claims.Record{KeyClaim: exchange.KeyClaim{Key: w.Key, Claim: w.Claims, Active: w.Active,
		Unsaturated: w.Unsaturated, Admitted: w.Admitted, Spent: w.Spent, Own: w.Own},
		Gap: w.Gap, Assumed: w.Assumed, Generation: 1, Seq: w.seq}
}

// source returns one life of an agent as an owner.
func (t *Aggregator) source(now time.Duration, agent string, life uint64) *source {
	at := agentLife{agent, life}
	s := t.sources[at]
	if s == nil {
		t.last++
		s = &source{agentLife: at, id: t.last}
		t.silent = 0
		t.sources[at] = s
		t.table.SetOwner(s.id, now.Seconds())
	}
	return s
}

// follow has the sum of a source hold for a key; nil: that of none.
func (t *Aggregator) follow(k *key, s *source) {
	if k.source != nil {
		k.source.keys--
	}
	k.source = s
	if s != nil {
		s.keys++
	}
}

// dropSources forgets owners whose sums hold for no key any more.
func (t *Aggregator) dropSources(now time.Duration) {
	if len(t.waiting) > 0 {
		return // of an owner whose sum is about to hold
	}
	for at, s := range t.sources {
		if s.keys == 0 && s != t.own {
			t.table.Remove(s.id, now.Seconds())
			delete(t.sources, at)
		}
	}
}

// ReceiveSums takes what another agent says of the keys that it owns, in the packet seq.
func (t *Aggregator) ReceiveSums(now time.Duration, from Sender, seq uint64, sums []*gossipv1.Sum) {
	s := t.sources[agentLife{from.Agent, from.Life}]
	if s == nil && len(sums) == 0 {
		return
	}
	s = t.source(now, from.Agent, from.Life)
	t.table.Heard(s.id, now.Seconds()) // by what it promised before
	t.table.SetStale(s.id, mayStaySilent(from.Promise).Seconds(), now.Seconds())
	s.heard, s.promise = now, from.Promise
	t.silent = min(t.silent, silentFrom(t.o.Period, now, from.Promise))
	if s.silence.on || t.table.Back(s.id) > s.silence.back {
		t.silent = now
	}
	for _, m := range sums {
		w := ownerSum{from: s, seq: seq, kinds: kindOf(m.GetFlow()), ask: m.GetAsk(), since: now}
		w.Key, w.Claims, w.Active = m.GetKey(), float64(m.GetClaims()), float64(m.GetActive())
		w.Unsaturated, w.Admitted, w.Spent = float64(m.GetUnsaturated()), m.GetAdmitted(), float64(m.GetSpent())
		w.Own, w.Gap, w.Assumed = float64(m.GetOwn()), float64(m.GetGap()), m.GetAssumed()
		w.Others, w.Epoch, w.Abroad = int(m.GetOthers()), m.GetEpoch(), m.GetAbroad()
		t.takeSum(now, &w)
	}
}

// mayStaySilent returns the time without a packet after which an agent is assumed to have gone on at its claims: it has
// missed one promised packet then.
func mayStaySilent(promise time.Duration) time.Duration { return promise + promise/2 }

// silentFrom returns the time from which a peer last received at a time is treated as unreachable.
func silentFrom(period, heard, promise time.Duration) time.Duration {
	return heard + max(stale(period), mayStaySilent(promise))
}

// takeSum takes what an owner says of a key.
func (t *Aggregator) takeSum(now time.Duration, w *ownerSum) {
	if w.record().ValidateSum() != nil {
		t.refused++
		return
	}
	k := t.keys.get(w.Key)
	switch {
	case (k == nil || k.owner == "") && w.from != t.own:
		t.refuseSum(now, w)
		return
	case (k == nil || k.source != w.from) && w.from.agent != t.ownerOf(w.Key, k):
		return // a late sum of a former owner
	case k == nil || k.source == nil || k.source == w.from || w.Others >= k.others:
		t.install(now, k, w)
		return
	case k.next == nil || k.next.from != w.from:
		t.waiting = append(t.waiting, w.Key)
	case k.next.seq > w.seq:
		return
	default:
		w.since = k.next.since
	}
	next := *w
	k.next = &next
}

// refuseSum informs an owner that no gateway here uses a key: the message at the end of the use was lost, if memberlist
// took the owner for dead then.
func (t *Aggregator) refuseSum(now time.Duration, w *ownerSum) {
	for _, o := range t.sortedLocals() {
		if a := o.keys.get(w.Key); a == nil || !a.withdrawn || now-a.at > Linger { // else it is on its way
			t.sendClaim(now, w.from.agent, o, w.Key, nil, delivery.Normal, false)
		}
	}
}

// ownerOf is the agent that owns a key, as far as is known here; k may be nil.
func (t *Aggregator) ownerOf(at uint64, k *key) string {
	switch {
	case k != nil && k.owner != "":
		return k.owner
	case t.sharesAll(k):
		return t.o.Agent // as every other agent is
	}
	return t.owners.Of(at)
}

// installWaiting has the sums of new owners hold that have waited for long enough.
func (t *Aggregator) installWaiting(now time.Duration) {
	for len(t.waiting) > 0 {
		k := t.keys.get(t.waiting[0])
		if k != nil && k.next != nil && now-k.next.since < listen {
			return
		}
		t.waiting = t.waiting[1:]
		if k != nil && k.next != nil {
			t.install(now, k, k.next)
		}
	}
}

// install has an owner's sum hold; k is nil for a key that is not known here.
func (t *Aggregator) install(now time.Duration, k *key, w *ownerSum) {
	if !t.accepts(now, k, w) {
		return
	}
	if k == nil {
		k = t.keyOf(w.Key, w.kinds)
	}
	k.kinds |= w.kinds
	if k.source != w.from {
		t.change(now, k, w)
	}
	k.others, k.next, k.abroad = w.Others, nil, w.Abroad
	if k.rest != nil && k.others >= k.rest.others {
		t.endClaims(k.rest)
	}
	t.note(now, w.Key, k)
	t.fresh = t.fresh || !t.sharesAll(k)
	t.leaveFormer(now, w.Key, k)
	alone := w.Others == 0 && !t.sharesAll(k) && !t.usedAbroad(now, w.Key)
	if w.ask || k.alone && !alone { // what was not sent meanwhile
		t.tellClaims(now, w.Key, k, delivery.Urgent)
	}
	k.alone = alone
}

// accepts adds an owner's sum to the table, and reports whether the sum is news.
func (t *Aggregator) accepts(now time.Duration, k *key, w *ownerSum) bool {
	outcome, err := t.table.ApplySum(w.from.id, now.Seconds(), w.record(), w.Epoch)
	if err != nil || outcome == claims.Refused {
		t.refused++
		return false
	}
	return outcome != claims.Old || k == nil || k.source != w.from
}

// change goes from the sum of one owner to that of another, see above.
func (t *Aggregator) change(now time.Duration, k *key, w *ownerSum) {
	former := k.source
	if former != nil {
		former.keys++ // for what is left of its sum
	}
	t.follow(k, w.from)
	k.forgetRest(w.from) // it is the owner again
	if former == nil {
		if k.again { // its gateway was sent this sum's content before
			t.table.Renew(w.Key)
			k.again = false
		}
		return
	}
	t.endClaims(k.rest)
	k.rest = &rest{key: w.Key, from: former, others: k.others, claims: true, before: k.rest}
	if w.Others >= k.others || !t.table.Reduce(former.id, w.Key, w.record().KeyClaim) {
		t.endClaims(k.rest)
	}
	t.rests = append(t.rests, turn{k.rest, now + t.o.T2})
}

// endClaims ends the claims of a former owner's sum; r may be nil.
func (t *Aggregator) endClaims(r *rest) {
	if r != nil && r.claims {
		t.table.EndSum(r.from.id, r.key)
		r.claims = false
	}
}

// forgetRest forgets what is left of the sum of a former owner, nil: of all. The table still has the record.
func (u *use) forgetRest(of *source) {
	for at := &u.rest; *at != nil; {
		if r := *at; of == nil || r.from == of {
			r.from.keys--
			*at = r.before
		} else {
			at = &r.before
		}
	}
}

// discardRests forgets former owners' sums.
func (t *Aggregator) discardRests(now time.Duration, k *key) {
	for r := k.rest; r != nil; r = r.before {
		t.table.Discard(r.from.id, r.key, now.Seconds())
	}
	k.forgetRest(nil)
}

// endRests ends what has stood for long enough. While a former owner is unreachable what was assumed of it stands: the
// table drops its claims.
func (t *Aggregator) endRests(now time.Duration) {
	for len(t.rests) > 0 && t.rests[0].ends <= now {
		r := t.rests[0].rest
		t.rests = t.rests[1:]
		k := t.keys.get(r.key)
		if k == nil || !k.has(r) {
			continue
		}
		if r.turns++; r.turns < remember {
			t.rests = append(t.rests, turn{r, now + t.o.T2})
			if !r.claims || r.from.silence.on {
				continue
			}
			t.endClaims(r)
		} else {
			t.table.Discard(r.from.id, r.key, now.Seconds())
			k.forgetRest(r.from)
			if !r.claims {
				continue
			}
			t.table.Renew(r.key)
		}
		t.note(now, r.key, k)
	}
}

// has reports whether a rest is one of the key's.
func (u *use) has(r *rest) bool {
	for at := u.rest; at != nil; at = at.before {
		if at == r {
			return true
		}
	}
	return false
}

// leaveFormer withdraws the claims at the owner before, once the sum of the new one holds.
func (t *Aggregator) leaveFormer(now time.Duration, at uint64, k *key) {
	if k.before == "" || k.source.agent != k.owner {
		return
	}
	former := k.before
	k.before = ""
	for o := range t.localsOf(at) {
		o.seq++ // the withdrawal is newer than the claim
		t.sendClaim(now, former, o, at, k, delivery.Normal, true)
	}
}
