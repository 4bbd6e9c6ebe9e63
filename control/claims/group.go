package claims

import (
	"iter"
	"unique"

	"github.com/titrate/titrate/control/exchange"
)

// Group is the name of a group of peers. An owner of keys adds up what the peers of all groups
// but one claim: a group is the replicas of one agent, which adds up its own. The zero value
// is no group, and has no name.
type Group = unique.Handle[string]

// Outside sums up the use of one key by all peers outside a group.
type Outside struct {
	exchange.KeySum
	Others int  // how many peers use the key
	Used   bool // a peer of the group uses the key, see Uses
	Void   bool // a peer of the group has not spoken of it since its count was voided, see IsVoid
}

// SetGroup puts a peer in a group.
func (t *Table) SetGroup(id Peer, group Group, now float64) {
	t.peers[t.peerIndex(id, now)].group = group
}

// Leave notes that a peer no longer uses a key, as of a place in its records: its claim is
// withdrawn, its count stays. It reports whether that is news.
func (t *Table) Leave(id Peer, key, generation, seq uint64) bool {
	e := t.entryOf(id, key)
	if e == nil || e.left || e.lineage.Latest.Generation != generation || e.lineage.Latest.Seq > seq {
		return false
	}
	e.left = true
	return true
}

// Uses reports whether a peer of a group uses a key, and whether one of them takes the owner's sum, see SetTakesSum.
func (t *Table) Uses(group Group, key uint64) (uses, takes bool) {
	for g, is := range t.Users(key) {
		if g == group {
			uses, takes = true, takes || is
		}
	}
	return uses, takes
}

// Used reports whether any peer uses a key.
func (t *Table) Used(key uint64) bool {
	for e, p := range t.of(key) {
		if e.uses(p) {
			return true
		}
	}
	return false
}

// SetTakesSum notes whether the group of a peer takes the owner's sum of a key.
func (t *Table) SetTakesSum(id Peer, key uint64, is bool) {
	if e := t.entryOf(id, key); e != nil {
		e.takes = is
	}
}

// TakesSum reports what SetTakesSum has noted.
func (t *Table) TakesSum(id Peer, key uint64) bool {
	e := t.entryOf(id, key)
	return e != nil && e.takes
}

// Users yields the groups of the peers that use a key, some of them twice, and whether they take the owner's sum.
func (t *Table) Users(key uint64) iter.Seq2[Group, bool] {
	return func(yield func(Group, bool) bool) {
		for e, p := range t.of(key) {
			if e.uses(p) && p.group != (Group{}) && !yield(p.group, e.takes) {
				return
			}
		}
	}
}

// KeysOf returns the keys that a peer uses. O(keys of the table).
func (t *Table) KeysOf(id Peer) []uint64 {
	keys, _ := t.SomeKeysOf(id, 0, len(t.entries), len(t.entries))
	return keys
}

// SomeKeysOf returns the keys that a peer uses, n at most, in the order of the table from a place in it. It looks at
// some entries at most, and returns at how many: the next place is that much further. At the end it goes on at the
// beginning.
func (t *Table) SomeKeysOf(id Peer, from, most, n int) (keys []uint64, looked int) {
	pi, ok := t.index[id]
	if !ok || t.peers[pi].held == 0 {
		return nil, len(t.entries)
	}
	for most = min(most, len(t.entries)); looked < most && len(keys) < n; looked++ {
		if e := &t.entries[(from+looked)%len(t.entries)]; e.peer == pi && e.uses(&t.peers[pi]) {
			keys = append(keys, t.slots[e.slot].key)
		}
	}
	return keys, looked
}

// Entries is the number of places for the keys of peers in the table, free ones included.
func (t *Table) Entries() int { return len(t.entries) }

// Outside returns the sums of a key over all peers that are not in a group; flow: as FlowSums.
func (t *Table) Outside(key uint64, group Group, now float64, flow bool) Outside {
	return t.addUp(key, selection{group: group}, now, flow)
}

// keepSpent is the time, in seconds, for which a peer's last Spent of a key counts once the peer
// says no more of the key. It has left, or its process is gone.
const keepSpent = 15

// addSpent takes in what one entry sees as spent; claims as [Table.claims], fresh says that an
// entry received within T1 was taken in. A reachable peer knows what the unreachable ones spent,
// and that it was refilled.
func (t *Table) addSpent(out *exchange.KeySum, e *entry, now float64, claims, fresh bool) bool {
	age := now - e.at
	if e.void || !claims && age >= keepSpent {
		return fresh
	}
	switch young := age < t.p.Stale; {
	case young && !fresh:
		out.Spent, fresh = e.lineage.Latest.Spent, true
	case young == fresh:
		out.Spent = max(out.Spent, e.lineage.Latest.Spent)
	}
	return fresh
}

// entryOf returns the entry of a key at a peer, nil if there is none. A peer names its keys in
// the same order each time, so the entry is mostly the next one of last time.
func (t *Table) entryOf(id Peer, key uint64) *entry {
	pi, ok := t.indexOf(id)
	if !ok {
		return nil
	}
	if last := t.peers[pi].last; int(last) < len(t.entries) {
		for _, ei := range [...]int32{last, t.entries[last].follows} {
			if t.belongs(ei, pi, key) {
				return &t.entries[ei]
			}
		}
	}
	s := t.slotOf(key)
	if s == nil {
		return nil
	}
	for i := s.head; i != none; i = t.entries[i].next {
		if e := &t.entries[i]; e.peer == pi {
			return e
		}
	}
	return nil
}

// EndClaims ends all claims of a peer that will send no more of them; its counts stay.
func (t *Table) EndClaims(id Peer) {
	pi, ok := t.index[id]
	if !ok || t.peers[pi].held == 0 {
		return
	}
	for i := range t.entries {
		if e := &t.entries[i]; e.peer == pi {
			e.left = true
		}
	}
}

// Void voids the counts of the peers that use a key and have sent no record of it within Stale:
// they were not asked to send changes. When such a peer sends a record again, its admitted cost
// counts only as far as the peer still sees it as spent, as in a first record.
func (t *Table) Void(key uint64, now float64) {
	s := t.slotOf(key)
	for e, p := range t.of(key) {
		if now-e.at >= t.p.Stale && e.uses(p) {
			s.setVoid(e, true)
		}
	}
}

// IsVoid reports whether a peer of a group has not spoken of a key since its count was voided.
func (t *Table) IsVoid(group Group, key uint64) bool {
	if s := t.slotOf(key); s == nil || s.voids == 0 {
		return false
	}
	for e, p := range t.of(key) {
		if e.void && p.group == group {
			return true
		}
	}
	return false
}

// SetAbroad makes a peer stand for all replicas of another site: its records are sums, and it never counts as absent.
func (t *Table) SetAbroad(id Peer, now float64) {
	t.SetOwner(id, now)
	t.peers[t.peerIndex(id, now)].abroad = true
}

// AtHome returns the sums of a key over all peers of this site, and Abroad those over the other sites; flow: as
// FlowSums. Others counts the peers that use the key.
func (t *Table) AtHome(key uint64, now float64, flow bool) Outside {
	return t.addUp(key, selection{of: atHome}, now, flow)
}

// Abroad is described at AtHome.
func (t *Table) Abroad(key uint64, now float64) Outside {
	return t.addUp(key, selection{of: abroad}, now, false)
}

// Discard forgets what a peer said of a key, its count as well.
func (t *Table) Discard(id Peer, key uint64, now float64) {
	if e := t.entryOf(id, key); e != nil {
		s := &t.slots[e.slot]
		base, assumed, abroad := s.base, s.assumed, s.abroad
		t.unlink(s, t.index[id], now)
		s.base, s.assumed, s.abroad = base, assumed, abroad
	}
}

// Renew gives a key, and the count of this site, a new Epoch: it cannot be compared with the one before.
func (t *Table) Renew(key uint64) {
	if s := t.slotOf(key); s != nil {
		t.renew(s)
	}
}

func (t *Table) renew(s *slot) {
	t.nextEpoch()
	s.epoch, s.home = t.epoch, t.epoch
}

func (t *Table) renewAll(s *slot) {
	t.renew(s)
	s.away = t.epoch
}

func (t *Table) nextEpoch() { t.epoch = max(1, t.epoch+1) }

// RenewAbroad gives the count of the other sites a new Epoch, as Renew does. That of this site goes on.
func (t *Table) RenewAbroad(key uint64) {
	if s := t.slotOf(key); s != nil {
		t.nextEpoch()
		s.epoch, s.away = t.epoch, t.epoch
	}
}
