package claims

import (
	"math"

	"github.com/titrate/titrate/control/exchange"
)

// Sums returns the sums of a key over all live peers but except (the replica that asks; its own
// part is subtracted by leaving it out). Claims are R, A and U of package drc; Admitted is
// extrapolated for unreachable peers. Spent is the largest announced within Stale or, failing
// that, the largest; Own counts reachable peers only. Epoch changes when the key was evicted in
// between, and is 0 of a key that is not held.
func (t *Table) Sums(key uint64, except Peer, now float64) exchange.KeySum {
	return t.addUp(key, selection{except: except}, now, false).KeySum
}

// FlowSums is Sums of a flow, whose share is split by claims and in which nothing is counted.
// A peer that is unreachable for Stale cannot receive either, so it makes no room for others:
// its claim is Unsaturated, whatever it announced.
func (t *Table) FlowSums(key uint64, except Peer, now float64) exchange.KeySum {
	return t.addUp(key, selection{except: except}, now, true).KeySum
}

// selection says which peers are added up: all but one peer and those of one group, if any.
type selection struct {
	except Peer
	group  Group
	of     where
}

// where says at which sites a peer is.
type where uint8

const (
	anywhere where = iota
	atHome
	abroad
)

func (w where) has(p *peer) bool { return w == anywhere || (w == abroad) == p.abroad }

// of returns what stays of removed peers there, and the epoch of the count.
func (s *slot) of(w where) (admitted, assumed float64, epoch uint32) {
	switch w {
	case atHome:
		return s.base - s.abroad, s.assumed, s.home
	case abroad:
		return s.abroad, 0, s.away
	}
	return s.base, s.assumed, s.epoch
}

// addUp adds up what selected peers do with one key.
func (t *Table) addUp(key uint64, of selection, now float64, flow bool) (out Outside) {
	out.Key = key
	s := t.slotOf(key)
	if s == nil {
		return out
	}
	out.Admitted, out.Assumed, out.Epoch = s.of(of.of)
	fresh, most := false, 0.
	for i := s.head; i != none; {
		e := &t.entries[i]
		p := &t.peers[e.peer]
		i = e.next
		if uses := e.uses(p); !of.leavesOut(&out, e, p, uses) {
			fresh = t.addEntry(&out, e, now, uses, flow, fresh)
			if e.counts(p, now) {
				most = max(most, e.certain())
			}
		}
	}
	out.Admitted += most
	return out
}

// leavesOut reports whether a peer is not to be added up, and notes what it does with the key then.
func (of *selection) leavesOut(out *Outside, e *entry, p *peer, uses bool) bool {
	switch grouped := of.group != (Group{}); {
	case !of.of.has(p):
		out.Abroad = out.Abroad || p.abroad && uses
	case grouped && p.group == of.group:
		out.Used, out.Void = out.Used || uses, out.Void || e.void
	case p.id == of.except:
	default:
		return false
	}
	return true
}

// addEntry adds what one peer does. Of the count of an owner it adds what is assumed only; fresh is as for addSpent.
func (t *Table) addEntry(out *Outside, e *entry, now float64, uses, flow, fresh bool) bool {
	p := &t.peers[e.peer]
	if !uses && p.owns() {
		return fresh
	}
	quiet := now - p.heard
	stale := quiet >= p.staleAfter(t.p.Stale)
	count, assumed := t.count(e, p, now, uses, stale)
	if p.owns() {
		count = assumed
	}
	out.Admitted, out.Assumed = out.Admitted+count, out.Assumed+assumed
	switch {
	case uses:
		out.Others++
		out.Abroad = out.Abroad || p.abroad
		t.addUse(out, e, now, stale, flow)
	case e.reports(now): // and uses the key no more
		out.Gap = longer(out.Gap, e.gap)
	}
	return t.addSpent(&out.KeySum, e, now, uses && quiet < t.p.Forget, fresh)
}

// addUse adds the claim of a peer that uses the key. A stale one counts as none, of a flow as a claim that has ended.
func (t *Table) addUse(out *Outside, e *entry, now float64, stale, flow bool) {
	p := &t.peers[e.peer]
	if l := &e.lineage.Latest; !stale && !e.void {
		out.Own += min(l.Own, l.Admitted)
	}
	if now-p.heard < t.p.Forget {
		out.Gap = longer(out.Gap, e.silence(p, now, stale))
		out.addClaim(&e.lineage.Latest, flow && stale)
	}
}

// addClaim adds what a peer claims. A stale claim of a flow counts as a claim without further demand.
func (out *Outside) addClaim(l *Record, stale bool) {
	out.Claims += l.Claim
	if stale {
		out.Unsaturated += l.Claim
		return
	}
	out.Active, out.Unsaturated = out.Active+l.Active, out.Unsaturated+l.Unsaturated
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
	case e.reports(now):
		return e.gap
	case e.at < p.back && now-p.back < CatchUp && !p.drained && !math.IsInf(p.gap, 0):
		return p.back - now - p.gap // it is reachable again, but has not announced what it did: the silence goes on
	}
	return min(0, e.lineage.Latest.Gap)
}

// reports reports whether the peer of an entry has just announced what it did in a silence.
func (e *entry) reports(now float64) bool { return e.gap > 0 && now-e.late < exchange.Late }

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
