package claims

import (
	"github.com/titrate/titrate/control/exchange"
)

// Held returns how many keys have a record of a peer.
func (t *Table) Held(id Peer) int {
	if pi, ok := t.index[id]; ok {
		return int(t.peers[pi].held)
	}
	return 0
}

// Holds reports whether a key is held.
func (t *Table) Holds(key uint64) bool {
	return t.slotOf(key) != nil
}

// Claimed reports whether any live peer claims a key. It stops at the first that does.
func (t *Table) Claimed(key uint64, now float64) bool {
	s := t.slotOf(key)
	return s != nil && t.claimed(s, now)
}

func (t *Table) claimed(s *slot, now float64) bool {
	for i := s.head; i != none; i = t.entries[i].next {
		e := &t.entries[i]
		if r := &e.lineage.Latest; (r.Claim > 0 || r.Active > 0) && t.claims(e, &t.peers[e.peer], now) {
			return true
		}
	}
	return false
}

// InUse reports whether Sums of a key over all peers has a claim, or something spent. It stops
// at the first claim.
func (t *Table) InUse(key uint64, now float64) bool {
	s := t.slotOf(key)
	if s == nil {
		return false
	}
	var sums exchange.KeySum
	fresh := false
	for i := s.head; i != none; i = t.entries[i].next {
		e := &t.entries[i]
		p := &t.peers[e.peer]
		if l := &e.lineage.Latest; (l.Claim > 0 || l.Active > 0) && t.claims(e, p, now) {
			return true
		}
		if e.uses(p) || !p.owns() {
			fresh = t.addSpent(&sums, e, now, t.claims(e, p, now), fresh)
		}
	}
	return sums.Spent > 0
}

// Has reports whether a key has a record of a peer. O(peers of the key).
func (t *Table) Has(id Peer, key uint64) bool { return t.entryOf(id, key) != nil }

// UsedBy reports whether a peer has a record of a key and has not left it.
func (t *Table) UsedBy(id Peer, key uint64) bool {
	e := t.entryOf(id, key)
	return e != nil && !e.left
}
