package claims

import (
	"math"

	"github.com/titrate/titrate/control/exchange"
)

// Owners' sums. The owner of a key adds up the replicas' claims, and its sum is one more peer's record. When another
// owner follows, the former one's count is remembered. Both count the same admissions, each from a number of its own.
// So of each count a constant is left out. For a while (relist) the largest of these counts is the key's: it takes no
// step when an owner takes over again that lacks the latest claims. A new owner's count can't be compared with the
// counts before: it begins with a new Epoch.

// SetOwner makes a peer an owner of keys instead of a replica: its records are sums over replicas, and the owner has
// judged each of the replicas. It never counts as absent.
func (t *Table) SetOwner(id Peer, now float64) {
	p := &t.peers[t.peerIndex(id, now)]
	p.weight, p.sums = 0, true
}

// owns reports whether the peer is an owner of keys of this site.
func (p *peer) owns() bool { return p.sums && !p.abroad }

// certain returns an owner's count as it compares with other owners' counts, without what is only assumed.
func (e *entry) certain() float64 { return e.lineage.Admitted() - e.lineage.Latest.Assumed - e.repaid }

// counts reports whether the count of an owner's entry counts: it owns the key, or did lately.
func (e *entry) counts(p *peer, now float64) bool { return p.owns() && (!e.left || now-e.at < relist) }

// ApplySum is Apply for an owner's sum, whose count has an epoch of the owner. The key has a new Epoch if the sum can't
// be compared with the sums of owners before.
func (t *Table) ApplySum(id Peer, now float64, r Record, epoch uint32) (Outcome, error) {
	e := t.entryOf(id, r.Key)
	goesOn := e != nil && e.epoch == epoch && !math.IsInf(e.repaid, 1)
	before, others := 0., false
	if !goesOn {
		before, others = t.counted(r.Key, now)
	}
	outcome, err := t.Apply(id, now, r)
	if err != nil || outcome == Refused {
		return outcome, err
	}
	e = t.entryOf(id, r.Key)
	e.left = false
	if goesOn || outcome == Old {
		return outcome, nil
	}
	e.repaid, e.epoch = 0, epoch
	if others {
		t.beginAgain(e, e.certain()-before)
	}
	return outcome, nil
}

// beginAgain begins another count of a key with the sum of an entry, which is that much above the largest before it.
func (t *Table) beginAgain(with *entry, step float64) {
	for e, p := range t.of(t.slots[with.slot].key) {
		if e == with || !p.owns() {
			continue
		}
		if e.repaid -= step; math.Abs(e.repaid) > maxBase { // too far off to be compared
			e.repaid = math.Inf(1)
		}
	}
	t.renew(&t.slots[with.slot])
}

// counted is the largest count of a key that an owner has; ok says whether any owner has one.
func (t *Table) counted(key uint64, now float64) (most float64, ok bool) {
	for e, p := range t.of(key) {
		if ok = ok || p.owns(); e.counts(p, now) {
			most = max(most, e.certain())
		}
	}
	return most, ok
}

// EndSum ends what an owner claims of a key that another one owns now. Its count is remembered.
func (t *Table) EndSum(id Peer, key uint64) {
	if e := t.entryOf(id, key); e != nil {
		e.left = true
	}
}

// Reduce takes from what a peer claims of a key what others claim now; numbers below 0 count
// as 0. It reports whether anything is left.
func (t *Table) Reduce(id Peer, key uint64, by exchange.KeyClaim) bool {
	e := t.entryOf(id, key)
	if e == nil {
		return false
	}
	l := &e.lineage.Latest
	l.Admitted, l.Assumed = max(0, l.Admitted-l.Assumed), 0
	l.Claim, l.Active = max(0, l.Claim-by.Claim), max(0, l.Active-by.Active)
	l.Unsaturated, l.Own = max(0, l.Unsaturated-by.Unsaturated), max(0, l.Own-by.Own)
	return l.Claim > 0 || l.Active > 0
}
