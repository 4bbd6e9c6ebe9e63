package claims

import (
	"iter"
	"math"
)

// Peer identifies a replica over its restarts; 0 is nobody.
type Peer uint64

// Params configures a Table.
type Params struct {
	Stale   float64 // T1, seconds unreachable until a peer's count is extrapolated; not positive: 1
	Forget  float64 // T2, seconds unreachable until its claims are dropped; at least Stale
	MaxKeys int     // most keys held; not positive: 65536
}

// Outcome is the result of applying a record.
type Outcome uint8

const (
	// Applied: the record is the newest of its peer and key, and brings news.
	Applied Outcome = iota
	// Renewed: it is the newest, and says what the one before said but for Spent.
	Renewed
	// Old: a newer one is known, or the very same.
	Old
	// Refused: the table is full and holds no idle key.
	Refused
)

const none = -1

// CatchUp is the time, in seconds, within which a peer that is reachable again announces all its
// changes. A key that it does not mention until then is unchanged, and its estimate is taken back.
const CatchUp = 1.

// relist is the time, in seconds, within which a peer that is reachable again lists the keys it uses.
const relist = 5.

// Table holds the latest records of all peers. Not safe for concurrent use.
type Table struct {
	p       Params
	keys    map[uint64]int32 // key → slot
	slots   []slot
	free    []int32 // unused slots
	hand    int     // clock hand over slots
	entries []entry
	spare   []int32 // unused entries
	index   map[Peer]int32
	recent  int32 // peer asked for last
	latest  int32 // slot asked for last
	peers   []peer
	unused  []int32 // of peers
	epoch   uint32

	absent      []int32 // peers that are
	absentUntil float64 // absent is right before that, unless forgetAbsent says otherwise
}

type slot struct {
	key     uint64
	base    float64 // counts of removed peers
	assumed float64 // part of base that was only assumed
	abroad  float64 // part of base of peers abroad
	touched float64
	head    int32 // first entry
	voids   int32 // entries that are void
	epoch   uint32
	home    uint32 // epoch of the count of this site's peers
	away    uint32 // and of those abroad
	used    bool
}

// entry is the state of a key at a peer. The fields that sums need are together at its beginning.
type entry struct {
	repaid  float64 // part of the count that does not count: it was refilled before its first record, or see sum.go
	at      float64 // when a newer record came last
	peer    int32
	next    int32 // of the key
	slot    int32
	follows int32   // the entry that came after this one last time; any, checked when used
	left    bool    // its peer no longer uses the key; the count stays
	void    bool    // its count is out of date, see Void
	takes   bool    // its group takes the owner's sum, see SetTakesSum
	epoch   uint32  // of an owner's count
	gap     float64 // the silence after which its peer said that it had admitted something meanwhile, seconds
	late    float64 // when it said so
	lineage Lineage
}

type peer struct {
	id         Peer
	heard      float64
	weight     float64
	generation uint64
	stale      float64 // its own T1, seconds; 0: that of the table
	gap, back  float64 // the last silence of T1 or longer: its length, and when it ended
	group      Group   // peers of one group are left out together
	last       int32   // entry applied last; any, checked when used
	held       int32   // entries
	drained    bool
	used       bool
	sums       bool // no replica, but an owner of keys, see SetOwner
	abroad     bool // it stands for another site, see SetAbroad
}

// setVoid notes whether the count of one of the slot's entries is out of date.
func (s *slot) setVoid(e *entry, is bool) {
	switch {
	case is && !e.void:
		s.voids++
	case e.void && !is:
		s.voids--
	}
	e.void = is
}

// hear notes that the peer is alive, and how long it was unreachable before.
func (p *peer) hear(now, stale float64) {
	if gap := now - p.heard; gap >= p.staleAfter(stale) {
		if p.heard-p.back < CatchUp { // it has not said yet what it did before
			gap += p.gap
		}
		p.gap, p.back = gap, now
	}
	p.heard = max(p.heard, now)
}

// staleAfter is T1 of the peer.
func (p *peer) staleAfter(stale float64) float64 {
	if p.stale > stale {
		return p.stale
	}
	return stale
}

// New returns an empty table.
func New(p Params) *Table {
	if !(p.Stale > 0) {
		p.Stale = 1
	}
	if !(p.Forget >= p.Stale) {
		p.Forget = p.Stale
	}
	if p.MaxKeys <= 0 {
		p.MaxKeys = 1 << 16
	}
	return &Table{p: p, keys: make(map[uint64]int32), index: make(map[Peer]int32)}
}

// Heard notes that a peer is alive, whatever it said. Call it for every message;
// Apply does it for records. A drained peer stays drained until it comes back
// with a higher generation.
func (t *Table) Heard(id Peer, now float64) {
	t.hear(&t.peers[t.peerIndex(id, now)], now)
}

// hear notes that a peer is alive.
func (t *Table) hear(p *peer, now float64) {
	if now-p.heard >= t.p.Forget {
		t.forgetAbsent()
	}
	p.hear(now, t.p.Stale)
}

// Back returns when the last silence of a peer of Stale or longer ended; 0: there was none.
func (t *Table) Back(id Peer) float64 {
	if pi, ok := t.index[id]; ok {
		return t.peers[pi].back
	}
	return 0
}

// Returns reports whether a silence of a peer of some length has ended within a time, both in seconds.
func (t *Table) Returns(id Peer, length, within, now float64) bool {
	pi, ok := t.index[id]
	return ok && t.peers[pi].gap >= length && now-t.peers[pi].back < within
}

// SetStale gives one peer a longer T1, because it promises to send less often: the
// longer of this and the table's T1 counts, in seconds.
func (t *Table) SetStale(id Peer, stale, now float64) { t.peers[t.peerIndex(id, now)].stale = stale }

// SetWeight gives a member its weight (1 until then; not positive: 1). A member known by
// its weight only is Absent until a message of it is received: its claims are unknown.
func (t *Table) SetWeight(id Peer, weight, now float64) {
	if !(weight > 0) {
		weight = 1
	}
	_, known := t.index[id]
	p := &t.peers[t.peerIndex(id, now)]
	if p.weight = weight; !known {
		p.heard = math.Inf(-1)
		t.forgetAbsent()
	}
}

// Drain withdraws all claims of a peer that says goodbye in the given
// generation. Its counts stay; it is neither extrapolated nor absent.
func (t *Table) Drain(id Peer, generation uint64, now float64) {
	p := &t.peers[t.peerIndex(id, now)]
	if generation < p.generation {
		return
	}
	t.forgetAbsent()
	p.heard, p.generation, p.drained = max(p.heard, now), generation, true
}

// Live notes that a process of a peer lives, which need not claim anything: it is not
// drained, and becomes Absent when nothing is received from the peer.
func (t *Table) Live(id Peer, generation uint64, now float64) {
	if p := &t.peers[t.peerIndex(id, now)]; generation > p.generation {
		p.generation, p.drained = generation, false
		t.forgetAbsent()
	}
}

// Remove drops a peer that is no longer a member: its claims go, its counts as
// they stand are folded into the keys. O(entries).
func (t *Table) Remove(id Peer, now float64) {
	pi, ok := t.index[id]
	if !ok {
		return
	}
	for s := 0; s < len(t.slots) && t.peers[pi].held > 0; s++ {
		if t.slots[s].used {
			t.unlink(&t.slots[s], pi, now)
		}
	}
	delete(t.index, id)
	t.peers[pi] = peer{}
	t.unused = append(t.unused, pi)
	t.forgetAbsent()
}

func (t *Table) unlink(s *slot, pi int32, now float64) {
	for link := &s.head; *link != none; link = &t.entries[*link].next {
		e := &t.entries[*link]
		if e.peer != pi {
			continue
		}
		p := &t.peers[pi]
		if !p.owns() {
			t.fold(s, e, p, now)
		}
		s.setVoid(e, false)
		t.peers[pi].held--
		e.peer = none
		t.spare = append(t.spare, *link)
		*link = e.next
		return
	}
}

// fold adds the count of an entry to those of removed peers.
func (t *Table) fold(s *slot, e *entry, p *peer, now float64) {
	count, assumed := t.count(e, p, now, e.uses(p), now-p.heard >= p.staleAfter(t.p.Stale))
	s.base, s.assumed = s.base+count, s.assumed+assumed
	if p.abroad {
		s.abroad += count
	}
	if s.base > maxBase {
		s.base, s.assumed, s.abroad = 0, 0, 0
		t.renewAll(s)
	}
}

// Apply merges a record received from a peer at now. The error says which number
// of the record no peer may send; the table is then unchanged.
func (t *Table) Apply(id Peer, now float64, r Record) (Outcome, error) {
	pi := t.peerIndex(id, now)
	peers := 1.
	if t.peers[pi].sums {
		peers = maxPeers
	}
	if err := r.validate(peers); err != nil {
		return Refused, err
	}
	ei, fresh, ok := t.find(pi, r.Key, now)
	if !ok {
		return Refused, nil
	}
	p := &t.peers[pi]
	if r.Generation > p.generation {
		p.generation, p.drained = r.Generation, false
		t.forgetAbsent()
	}
	t.hear(p, now)
	e := &t.entries[ei]
	s := &t.slots[e.slot]
	s.touched = max(s.touched, now)
	news := fresh || e.void || news(&e.lineage.Latest, &r)
	was := e.lineage.Admitted()
	expected, _ := t.expected(e, p, now)
	if !e.lineage.Merge(&r) {
		return Old, nil
	}
	got := e.lineage.Admitted()
	if gap := e.gapBefore(p, now, fresh, got > was); gap > 0 {
		e.gap, e.late = gap, now
	}
	t.repay(p, s, e, fresh, got-expected, r.Own)
	e.at, e.left = max(e.at, now), false
	s.setVoid(e, false)
	if !news {
		return Renewed, nil
	}
	return Applied, nil
}

// news reports whether a record says more than that the one before still holds.
func news(a, b *Record) bool {
	return a.Generation != b.Generation || a.Admitted != b.Admitted || a.Claim != b.Claim || a.Active != b.Active
}

// repay sets the part of an entry's count that does not count here: what its peer admitted before its claim was known,
// less what was its own. gained is the count beyond the expected one.
func (t *Table) repay(p *peer, s *slot, e *entry, fresh bool, gained, own float64) {
	got := e.lineage.Admitted()
	switch began := fresh && e.next != none && e.gap > 0; { // while its peer was unreachable
	case (fresh || e.void) && !began && !p.owns(): // an owner has judged each replica
		e.repaid = got - min(got, own)
	case !fresh && e.at < p.back && p.gap >= t.p.Forget: // its claims were dropped: others had all of the limit
		e.repaid = max(e.repaid, gained-own)
	}
	if got-e.repaid > MaxCount && !p.sums { // an owner's sum begins anew by itself, and falls then
		e.repaid = got
		t.renewAll(s)
	}
}

// slotOf is the slot of a key, nil if the key is not held.
func (t *Table) slotOf(key uint64) *slot {
	if l := int(t.latest); l < len(t.slots) && t.slots[l].key == key && t.slots[l].used {
		return &t.slots[l]
	}
	i, ok := t.keys[key]
	if !ok {
		return nil
	}
	t.latest = i
	return &t.slots[i]
}

// of are the entries of a key with their peers; none of a key that is not held.
func (t *Table) of(key uint64) iter.Seq2[*entry, *peer] {
	return func(yield func(*entry, *peer) bool) {
		s := t.slotOf(key)
		if s == nil {
			return
		}
		for i := s.head; i != none; i = t.entries[i].next {
			if e := &t.entries[i]; !yield(e, &t.peers[e.peer]) {
				return
			}
		}
	}
}

// gapBefore returns for how long the peer of an entry has not announced what it did, if it was
// unreachable in that time and has admitted something; else 0. Its first record afterwards may come
// late: an unreachable peer, which receives nothing either, tries again less often.
func (e *entry) gapBefore(p *peer, now float64, fresh, more bool) float64 {
	gap := max(0, e.lineage.Latest.Gap)
	since := p.gap + now - p.back
	switch {
	case math.IsInf(p.gap, 0):
	case fresh && !p.sums && p.gap > 0 && now-p.back < relist:
		gap = max(gap, since)
	case !fresh && more && e.at < p.back:
		gap = max(gap, min(since, now-e.at))
	}
	return gap
}
