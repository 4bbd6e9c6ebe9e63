package claims

import (
	"iter"
	"math"

	"github.com/titrate/titrate/control/exchange"
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
	touched float64
	head    int32 // first entry
	voids   int32 // entries that are void
	epoch   uint32
	used    bool
}

// entry is the state of a key at a peer. The fields that sums need are together at its beginning.
type entry struct {
	repaid  float64 // part of the count that does not count: it was refilled before its first record
	at      float64 // when a newer record came last
	peer    int32
	next    int32 // of the key
	slot    int32
	follows int32   // the entry that came after this one last time; any, checked when used
	left    bool    // its peer no longer uses the key; the count stays
	void    bool    // its count is out of date, see Void
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
		count, assumed := t.count(e, p, now, e.uses(p), now-p.heard >= p.staleAfter(t.p.Stale))
		s.base, s.assumed = s.base+count, s.assumed+assumed
		if s.base > MaxCount {
			s.base, s.assumed = 0, 0
			t.renew(s)
		}
		s.setVoid(e, false)
		t.peers[pi].held--
		e.peer = none
		t.spare = append(t.spare, *link)
		*link = e.next
		return
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
	switch began := fresh && e.next != none && e.gap > 0; { // while its peer was unreachable
	case (fresh || e.void) && !began:
		e.repaid = got - min(got, r.Own)
	case !fresh && e.at < p.back && p.gap >= t.p.Forget: // its claims were dropped: others had all of the limit
		e.repaid = max(e.repaid, got-expected-r.Own)
	}
	if got-e.repaid > MaxCount && !p.sums { // an owner's sum begins anew by itself, and falls then
		e.repaid = got
		t.renew(s)
	}
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

// Sums returns the sums of a key over all live peers but except (the replica that asks; its own
// part is subtracted by leaving it out). Claims are R, A and U of package drc; Admitted is
// extrapolated for unreachable peers. Spent is the largest announced within Stale or, failing
// that, the largest; Own counts reachable peers only. Epoch changes when the key was evicted in
// between, and is 0 of a key that is not held.
func (t *Table) Sums(key uint64, except Peer, now float64) exchange.KeySum {
	return t.addUp(key, except, Group{}, now, false).KeySum
}

// FlowSums is Sums of a flow, whose share is split by claims and in which nothing is counted.
// A peer that is unreachable for Stale cannot receive either, so it makes no room for others:
// its claim is Unsaturated, whatever it announced.
func (t *Table) FlowSums(key uint64, except Peer, now float64) exchange.KeySum {
	return t.addUp(key, except, Group{}, now, true).KeySum
}

// addUp adds up what all peers do with one key, but for one peer and those of one group, if any.
func (t *Table) addUp(key uint64, except Peer, group Group, now float64, flow bool) (out Outside) {
	out.Key = key
	s := t.slotOf(key)
	if s == nil {
		return out
	}
	out.Admitted, out.Assumed, out.Epoch = s.base, s.assumed, s.epoch
	fresh, grouped := false, group != Group{}
	for i := s.head; i != none; {
		e := &t.entries[i]
		p := &t.peers[e.peer]
		i = e.next
		uses := e.uses(p)
		switch {
		case grouped && p.group == group:
			out.Used, out.Void = out.Used || uses, out.Void || e.void
			continue
		case p.id == except:
			continue
		case grouped && uses:
			out.Others++
		}
		quiet := now - p.heard
		stale := quiet >= p.staleAfter(t.p.Stale)
		count, assumed := t.count(e, p, now, uses, stale)
		out.Admitted, out.Assumed = out.Admitted+count, out.Assumed+assumed
		fresh = t.addSpent(&out.KeySum, e, now, uses && quiet < t.p.Forget, fresh)
		l := &e.lineage.Latest
		if uses && !stale && !e.void {
			out.Own += min(l.Own, l.Admitted)
		}
		if uses && quiet < t.p.Forget {
			out.Gap = longer(out.Gap, e.silence(p, now, stale))
			out.Claims += l.Claim
			if flow && stale {
				out.Unsaturated += l.Claim
			} else {
				out.Active, out.Unsaturated = out.Active+l.Active, out.Unsaturated+l.Unsaturated
			}
		}
	}
	return out
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

// expected returns the count of an entry plus the estimate of what its peer admitted while it was
// unreachable, and the part that is estimated. The estimate counts until the peer sends a record
// of the key again.
func (t *Table) expected(e *entry, p *peer, now float64) (n, assumed float64) {
	n, assumed = max(0, e.lineage.Admitted()-e.repaid), e.lineage.Latest.Assumed
	if e.at < p.back && now-p.back < CatchUp && !p.drained { // the first record since its silence
		more := min(e.lineage.Latest.Claim*min(p.gap, p.back-e.at, t.p.Forget), MaxCount)
		n, assumed = n+more, assumed+more
	}
	return n, assumed
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

// silence returns for how long the peer of an entry was unreachable before it announced, just now, that
// it had admitted something meanwhile. It is negative while the peer does not announce what it does,
// for as long. It is 0 in neither case. Within one silence no 0 comes in between: a ledger would take
// the rest for another silence.
func (e *entry) silence(p *peer, now float64, stale bool) float64 {
	switch {
	case e.void:
		return 0
	case stale:
		return p.heard - now
	case e.gap > 0 && now-e.late < exchange.Late:
		return e.gap
	case e.at < p.back && now-p.back < CatchUp && !p.drained && !math.IsInf(p.gap, 0):
		return p.back - now - p.gap // it is reachable again, but has not announced what it did: the silence goes on
	}
	return min(0, e.lineage.Latest.Gap)
}

// longer returns the longer of two silences, see exchange.KeySum. A silence that has ended (> 0) takes
// precedence over a silence that lasts (< 0).
func longer(a, b float64) float64 {
	if a > 0 || b > 0 {
		return max(a, b)
	}
	return min(a, b)
}

// uses reports whether the peer of an entry uses its key: it has not left it, is not
// drained, and has not restarted since.
func (e *entry) uses(p *peer) bool {
	return !p.drained && !e.left && e.lineage.Latest.Generation == p.generation
}

// claims reports whether the claim of an entry still counts: the peer is not forgotten.
func (t *Table) claims(e *entry, p *peer, now float64) bool {
	return e.uses(p) && now-p.heard < t.p.Forget
}

// count is an entry's cumulative count, extrapolated while its peer is unreachable (stale). After that
// it is extrapolated until the peer speaks of the key again, for CatchUp at most. uses is as in
// [entry.uses]. assumed is the part that the peer has not announced.
func (t *Table) count(e *entry, p *peer, now float64, uses, stale bool) (n, assumed float64) {
	switch {
	case e.void:
		return 0, 0
	case !uses:
		return max(0, e.lineage.Admitted()-e.repaid), e.lineage.Latest.Assumed
	}
	n, assumed = t.expected(e, p, now)
	if stale {
		more := min(e.lineage.Latest.Claim*min(now-p.heard, t.p.Forget), MaxCount)
		n, assumed = n+more, assumed+more
	}
	return n, assumed
}

// Absent sums the weights of members unreachable for longer than Forget, or never received. It is
// O(absent members), and O(peers) when their number may have changed.
func (t *Table) Absent(except Peer, now float64) float64 {
	if now >= t.absentUntil {
		t.findAbsent(now)
	}
	w := 0.0
	for _, i := range t.absent {
		if p := &t.peers[i]; p.id != except {
			w += p.weight
		}
	}
	return w
}

// findAbsent finds the absent peers, and the time until which no other peer can become absent.
func (t *Table) findAbsent(now float64) {
	const margin = 1e-6 // of rounding
	t.absent, t.absentUntil = t.absent[:0], math.Inf(1)
	for i := range t.peers {
		switch p := &t.peers[i]; {
		case !p.used || p.drained:
		case now-p.heard >= t.p.Forget:
			t.absent = append(t.absent, int32(i))
		default:
			t.absentUntil = min(t.absentUntil, p.heard+t.p.Forget-margin)
		}
	}
}

// forgetAbsent has the next Absent look at all peers.
func (t *Table) forgetAbsent() { t.absentUntil = math.Inf(-1) }

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
		fresh = t.addSpent(&sums, e, now, t.claims(e, p, now), fresh)
	}
	return sums.Spent > 0
}

// Has reports whether a key has a record of a peer. O(peers of the key).
func (t *Table) Has(id Peer, key uint64) bool { return t.entryOf(id, key) != nil }
