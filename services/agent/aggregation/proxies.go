package aggregation

import (
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// The use of other sites here: the records that come from there, and the proxies that announce them within this site.

// ReceiveSites takes what an agent of another site says of its site's use of keys that this agent owns here, in the
// packet seq.
func (t *Aggregator) ReceiveSites(now time.Duration, from Sender, seq uint64, sums []*gossipv1.Sum) {
	s := t.siteOf[from.Agent]
	if s == nil {
		return
	}
	gap := now - s.heard
	if s.silent && gap >= t.o.T2 {
		for _, u := range s.uses.values {
			u.epoch = 0 // what comes now is a new count
		}
	}
	if s.silent {
		s.askAgain()
	}
	s.heard, s.promise, s.silent = now, from.Promise, false
	s.proxy.seq++
	for _, m := range sums {
		t.receiveSite(now, s, agentLife{from.Agent, from.Life}, seq, m)
	}
}

func (t *Aggregator) receiveSite(now time.Duration, s *site, from agentLife, seq uint64, m *gossipv1.Sum) {
	c := exchange.KeyClaim{Key: m.GetKey(), Claim: float64(m.GetClaims()), Active: float64(m.GetActive()),
		Unsaturated: float64(m.GetUnsaturated()), Admitted: m.GetAdmitted(), Spent: float64(m.GetSpent()),
		Own: float64(m.GetOwn())}
	falls := rates{float64(m.GetFall()), float64(m.GetRefill())}
	if (claims.Record{KeyClaim: c}).ValidateSum() != nil || !falls.valid() ||
		s.uses.get(c.Key) == nil && s.uses.len() >= t.o.MaxKeys {
		t.refused++
		return
	}
	u, left := s.use(c.Key), m.GetOthers() == 0
	switch {
	case u.from == from && seq <= u.seq, u.from != from && left:
		return // late, or of an owner before
	case left:
		u.seq, u.used = seq, false
		t.endProxy(now, s, c.Key, u)
		return
	}
	again := !u.used || !u.began || u.from != from || u.epoch != m.GetEpoch()
	answer := m.GetAsk() || !u.used
	u.from, u.seq, u.epoch, u.used = from, seq, m.GetEpoch(), true
	u.KeyClaim, u.flow, u.at, u.rates, u.stands, u.orphaned = c, m.GetFlow(), now, falls, false, 0
	if !t.usedAtHome(now, c.Key) {
		return
	}
	if answer {
		s.put(c.Key, u, inTurn)
	}
	u.began = t.announceProxy(now, s, u, again)
	s.willFall(u)
}

// announceProxy announces within this site what another one claims; again: its count cannot be compared with the one
// before.
func (t *Aggregator) announceProxy(now time.Duration, s *site, u *siteUse, again bool) bool {
	t.noteAbroad(u.Key)
	u.Owned = t.o.Decides != nil && t.o.Decides(u.Key)
	u.Exact = u.Owned
	return t.announceAs(now, s.proxy, announced{KeyClaim: u.KeyClaim, flow: u.flow}, again)
}

// endProxy ends what a proxy claims of a key.
func (t *Aggregator) endProxy(now time.Duration, s *site, key uint64, u *siteUse) {
	if u.began {
		u.began = false
		s.proxy.seq++
		t.withdraw(now, s.proxy, key)
		t.noteAbroad(key)
	}
}

// goOnAbroad has the proxies of sites that are cut off go on as they claimed last.
func (t *Aggregator) goOnAbroad(now time.Duration) {
	for _, s := range t.sortedSites() {
		if s.ended > 0 {
			continue
		}
		s.silent = now >= silentFrom(t.o.Period, s.heard, s.promise)+t.delay
		s.gone = s.silent && now-s.heard >= min(keepSplit, max(t.o.T2, keepAs*(s.heard-s.since)))
		if !s.silent {
			t.letFall(now, s)
			continue
		}
		s.proxy.seq++
		for range min(proxiesAtOnce, s.uses.len()) {
			s.next = (s.next + 1) % s.uses.len()
			u := s.uses.values[s.next]
			switch {
			case !u.began:
				continue
			case s.gone:
				u.used = false
				t.endProxy(now, s, u.Key, u)
				continue
			case u.Claim == 0 && u.fall == 0:
				continue
			}
			s.stand(u)
			u.Admitted += u.Claim * (now - max(u.at, s.heard)).Seconds()
			u.at = now
			t.announceProxy(now, s, u, false)
		}
	}
}

// NoteAbroad has TakeAbroad return a key that is new here, if other sites may use it.
func (t *Aggregator) NoteAbroad(key uint64) {
	if len(t.sites) > 0 {
		t.noteAbroad(key)
	}
}

// noteAbroad notes that other sites' use of a key has changed.
func (t *Aggregator) noteAbroad(key uint64) {
	if t.owners.Of(key) == t.o.Agent {
		t.abroad = append(t.abroad, key)
	}
}

// TakeAbroad returns the keys owned here whose use at other sites has changed since the last call.
func (t *Aggregator) TakeAbroad() []uint64 {
	keys := t.abroad
	t.abroad = nil
	return keys
}

// Abroad returns the sums of a key over the other sites; not ok: they do not use it.
func (t *Aggregator) Abroad(key uint64, now time.Duration) (s exchange.KeySum, ok bool) {
	if len(t.sites) == 0 {
		return s, false
	}
	a := t.owned.Abroad(key, now.Seconds())
	return a.KeySum, a.Others > 0
}

// usedAbroad reports whether this agent knows that other sites use a key.
func (t *Aggregator) usedAbroad(now time.Duration, key uint64) bool {
	_, used := t.Abroad(key, now)
	return used
}

// mayBeAbroad reports whether this agent, or the key's owner, knows that other sites use a key; k may be nil.
func (t *Aggregator) mayBeAbroad(now time.Duration, at uint64, k *key) bool {
	return k != nil && k.abroad || t.usedAbroad(now, at)
}
