package aggregation

import (
	"time"

	"github.com/titrate/titrate/control/claims"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"github.com/titrate/titrate/services/agent/gossip/size"
	"github.com/titrate/titrate/services/agent/owners"
)

// The records that the owner of a key sends the owners at other sites, within a budget.

// urgency says in which queue a record waits.
type urgency uint8

const (
	notQueued urgency = iota
	inTurn
	soonest
)

// put queues the record of a key.
func (s *site) put(key uint64, u *siteUse, level urgency) {
	if u.queued < level {
		u.queued = level
		s.queue[level-1] = append(s.queue[level-1], key)
	}
}

// take returns the next key to be sent, which waits no more; nil: none waits. Keys with much news come first, but for
// one of four.
func (s *site) take() (key uint64, u *siteUse) {
	for s.waiting() > 0 {
		s.turn++
		q := &s.queue[soonest-1]
		if len(*q) == 0 || s.turn%4 == 0 && len(s.queue[inTurn-1]) > 0 {
			q = &s.queue[inTurn-1]
		}
		key = (*q)[0]
		*q = (*q)[1:]
		if u = s.use(key); u.queued != notQueued { // else it was sent from the other queue
			u.queued = notQueued
			return key, u
		}
	}
	return 0, nil
}

// waiting counts the keys to be sent.
func (s *site) waiting() int { return len(s.queue[0]) + len(s.queue[1]) }

// tellSites has the other sites know of a change of what gateways here claim of a key that this agent owns.
func (t *Aggregator) tellSites(now time.Duration, key uint64) {
	if len(t.sites) == 0 || t.owners.Of(key) != t.o.Agent {
		return
	}
	info := t.ours.get(key)
	a := t.owned.AtHome(key, now.Seconds(), info != nil && info.onlyFlow())
	for _, s := range t.sites {
		s.queueHome(now, key, &a)
		if u := s.uses.get(key); u != nil && u.began && a.Others == 0 {
			t.endProxy(now, s, key, u)
		}
	}
}

// queueHome queues the record of a key if the site lacks what gateways here claim now.
func (s *site) queueHome(now time.Duration, key uint64, a *claims.Outside) {
	u := s.uses.get(key)
	switch home := a.Others > 0; {
	case home && (u == nil || u.told == ""):
		s.put(key, s.use(key), inTurn)
	case u == nil:
	case home && u.used && u.said.departs(now, a):
		s.put(key, u, u.said.presses(a))
	case !home && u.told != "":
		s.put(key, u, inTurn)
	}
}

// usedAtHome reports whether gateways of this site use a key.
func (t *Aggregator) usedAtHome(now time.Duration, key uint64) bool {
	return t.owned.AtHome(key, now.Seconds(), false).Others > 0
}

// checkSites ends the proxies' claims of keys that this agent owns no more. It has the other sites know of keys that it
// owns now and did not before.
func (t *Aggregator) checkSites(now time.Duration, before *owners.Agents) {
	for _, s := range t.sortedSites() {
		for i, key := range s.uses.keys {
			if u := s.uses.values[i]; u.used && t.owners.Of(key) != t.o.Agent {
				u.used = false
				t.endProxy(now, s, key, u)
			}
		}
	}
	t.tellKeys(now, func(key uint64) bool { return before.Of(key) != t.o.Agent })
}

// tellKeys has the other sites know of some of the keys that this agent owns.
func (t *Aggregator) tellKeys(now time.Duration, some func(key uint64) bool) {
	if len(t.sites) > 0 {
		for _, key := range t.ours.keys {
			if some(key) {
				t.tellSites(now, key)
			}
		}
	}
}

// sendSites sends the other sites the records that wait, as far as the budget allows.
func (t *Aggregator) sendSites(now time.Duration) {
	for _, s := range t.sortedSites() {
		rate := float64(siteBytes) / float64(len(t.owners.Names))
		s.credit = min(s.credit+rate*(now-s.sentAt).Seconds(), max(rate/4, siteRecord))
		s.sentAt = now
		t.checkFalls(now, s)
		for s.credit >= siteRecord {
			key, u := s.take()
			if u == nil {
				break
			}
			to := s.ownerOf(key)
			if u.told != "" && u.told != to { // it owns the key no more
				t.sendSite(now, u.told, key)
				u.told, u.said = "", falling{}
			}
			if to != "" && (u.told != "" || t.usedAtHome(now, key)) {
				t.sendSite(now, to, key)
				s.credit -= siteRecord
			}
		}
	}
}

func (t *Aggregator) sendSite(now time.Duration, to string, key uint64) {
	if t.o.Tell != nil {
		t.o.Tell.Tell(now, to, delivery.Item{Key: key, Kind: delivery.Site}, delivery.Normal)
	}
}

// putSite adds to a packet what gateways here claim of a key. A repeated record is no newer one for checkFalls, since
// the peer may have received the first one alone.
func (t *Aggregator) putSite(now time.Duration, m *gossipv1.Packet, to string, item delivery.Taken) int {
	s, key := t.siteOf[to], item.Key
	if s == nil {
		return 0
	}
	u, info, out := s.use(key), t.ours.get(key), t.newSum()
	*out = gossipv1.Sum{Key: key}
	next := falling{}
	if info != nil && t.owners.Of(key) == t.o.Agent && s.ownerOf(key) == to {
		a := t.owned.AtHome(key, now.Seconds(), info.onlyFlow())
		out.Flow, out.Claims, out.Active = info.onlyFlow(), float32(a.Claims), float32(a.Active)
		out.Unsaturated, out.Admitted, out.Spent = float32(a.Unsaturated), a.Admitted, float32(a.Spent)
		out.Own, out.Others, out.Epoch = float32(a.Own), uint32(a.Others), a.Epoch
		out.Ask = !u.began || u.stands
		if next = u.said.next(now, &a); item.Repeated {
			next.rates = u.said.rates
		}
		out.Fall, out.Refill = float32(next.fall), float32(next.refill)
	}
	switch {
	case item.Repeated:
	case out.Others > 0:
		u.told, u.said = to, next
		s.checkAgain(now, key, u)
	case u.told == to:
		u.told, u.said = "", falling{}
	}
	m.Sites = append(m.Sites, out)
	return size.Sum(out)
}
