package aggregation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"github.com/titrate/titrate/services/agent/gossip/size"
)

// Other sites. Owners are chosen among the agents of one site. The owner of a key sends the owners at other sites
// the sum over the gateways of its site: one record for each key and pair of sites. The owner that receives it
// announces it within its own site, as if the other site were one more gateway here, its proxy.
//
//	gateways ──► owner at A ── Packet.sites ──► owner at B ── claims of the proxy of A ──► owners and agents of B
//
// A key is registered once at every other site, when gateways here begin to use it. Changes follow only while
// the other site uses it, too. The first record after that is a new count (Epoch): an earlier admission
// counts as far as it is still spent. Claims that fall are left to fall there (falls.go).
//
// While a site is cut off, its proxy goes on as it claimed last, for keepSplit at most. Each site keeps to what the
// others leave it. What comes after longer than T2 is a new count, too.

const (
	// siteBytes bounds what the agents of one site together send to another site, bytes/s, and siteRecord is the size
	// of a record.
	siteBytes, siteRecord = 48 << 10, 72
	// proxiesAtOnce bounds the keys of a site that is cut off whose counts go on in half a period.
	proxiesAtOnce = 256
	// keepSplit is the time after which a site that is cut off is taken for gone.
	keepSplit = 2 * time.Hour
)

// Site is another site with its agents.
type Site struct {
	Name   string
	Agents []string
}

// site has the state of another site.
type site struct {
	name   string
	owners owners
	proxy  *local
	uses   ordered[*siteUse]
	queue  [2][]uint64 // keys whose records are to be sent, those with much news apart
	turn   int         // of the queues
	checks [2][]keyAt  // keys of which a record is sent again if it does not hold, those without claims apart
	falls  []uint64    // keys whose claims fall there
	fallAt time.Duration
	credit float64 // bytes
	sentAt time.Duration

	heard   time.Duration // an agent of it was received last
	promise time.Duration
	silent  bool // none has been received for long
	next    int  // of uses, while that is so

	ended   time.Duration // its last agent left in order, or is of another site now; 0: it has not
	orphans bool          // the owner that claimed some of uses is not of the site any more
}

// siteUse is the use of a key at another site.
type siteUse struct {
	told   string // owner there that knows that gateways here use it; "": none
	said   falling
	queued urgency
	check  time.Duration // it is in checks until then; 0: it is not

	used  bool // gateways there use it, as from said in its packet seq
	from  agentLife
	seq   uint64
	epoch uint32
	began bool // the proxy announces it here
	exchange.KeyClaim
	flow bool
	at   time.Duration // the claim is as of then
	rates
	falls    bool          // it is in falls
	stands   bool          // the site was cut off since it spoke of the key
	orphaned time.Duration // since then from is not of the site any more; 0: it is
}

// SetSites sets the other sites; back lists the agents that have come since the last call. A key is registered again
// at an owner that is new to it. lost names sites of which an agent has failed: without agents such a site may only be
// cut off, and its proxy goes on. Another site without agents has ended.
func (t *Aggregator) SetSites(now time.Duration, others []Site, back []string, lost map[string]bool) {
	keep, news := map[string]bool{}, false
	for _, s := range others {
		keep[s.Name] = true
		at := t.sites[s.Name]
		if at == nil {
			at, news = t.newSite(now, s.Name), true
		}
		at.ended = 0
		if len(back) == 0 && slices.Equal(at.owners.names, s.Agents) {
			continue
		}
		at.owners = owners{}
		for _, name := range s.Agents {
			at.owners.add(name)
			if t.siteOf[name] == nil {
				t.disownAgent(now, name)
			}
			t.siteOf[name] = at
		}
		t.orphan(now, at)
		t.registerAgain(at, back)
	}
	for name, s := range t.sites {
		switch {
		case keep[name]:
		case lost[name]:
			s.owners = owners{}
		case s.ended == 0:
			t.endSite(now, s)
		}
	}
	if news {
		t.tellAllKeys(now)
	}
}

// newSite begins to know another site.
func (t *Aggregator) newSite(now time.Duration, name string) *site {
	id := process{"@" + name + "/" + t.o.Agent, t.o.Incarnation}
	s := &site{name: name, uses: newOrdered[*siteUse](), sentAt: now, heard: now}
	s.proxy = t.newLocal(now, id)
	s.proxy.site, s.proxy.linked, s.proxy.heard = name, now, now
	t.locals[id], t.localsByName = s.proxy, nil
	t.setAbroad(now, s.proxy.of.id)
	t.owned.SetGroup(s.proxy.of.id, t.self, now.Seconds())
	t.sites[name] = s
	return s
}

// setAbroad has the tables know that a peer stands for another site.
func (t *Aggregator) setAbroad(now time.Duration, id claims.Peer) {
	t.table.SetAbroad(id, now.Seconds())
	t.owned.SetAbroad(id, now.Seconds())
}

// registerAgain registers the keys in use at the owners that are new to them, and leaves the owners before.
func (t *Aggregator) registerAgain(s *site, back []string) {
	for i, key := range s.uses.keys {
		u, owner := s.uses.values[i], s.ownerOf(key)
		if owner != u.told || slices.Contains(back, owner) {
			s.put(key, u, inTurn)
		}
	}
}

// ownerOf returns the agent that owns a key at a site; "": none is known.
func (s *site) ownerOf(key uint64) string {
	if len(s.owners.names) == 0 {
		return ""
	}
	return s.owners.of(key)
}

// use returns what is known of a key at a site.
func (s *site) use(key uint64) *siteUse {
	u := s.uses.get(key)
	if u == nil {
		u = &siteUse{}
		s.uses.put(key, u)
	}
	return u
}

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
	if len(t.sites) == 0 || t.owners.of(key) != t.o.Agent {
		return
	}
	info := t.ours.get(key)
	a := t.owned.AtHome(key, now.Seconds(), info != nil && info.onlyFlow())
	home := a.Others > 0
	for _, s := range t.sites {
		u := s.uses.get(key)
		switch {
		case home && (u == nil || u.told == ""):
			s.put(key, s.use(key), inTurn)
		case u == nil:
		case home && u.used && u.said.departs(now, &a):
			s.put(key, u, u.said.presses(&a))
		case !home && u.told != "":
			s.put(key, u, inTurn)
		}
		if u != nil && u.began && !home {
			t.endProxy(now, s, key, u)
		}
	}
}

// usedAtHome reports whether gateways of this site use a key.
func (t *Aggregator) usedAtHome(now time.Duration, key uint64) bool {
	return t.owned.AtHome(key, now.Seconds(), false).Others > 0
}

// sendSites sends the other sites the records that wait, as far as the budget allows.
func (t *Aggregator) sendSites(now time.Duration) {
	for _, s := range t.sortedSites() {
		rate := float64(siteBytes) / float64(len(t.owners.names))
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
	if info != nil && t.owners.of(key) == t.o.Agent && s.ownerOf(key) == to {
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
		if s.silent = now >= silentFrom(t.o.Period, s.heard, s.promise)+t.delay; !s.silent {
			t.letFall(now, s)
			continue
		}
		s.proxy.seq++
		ends := now-s.heard >= keepSplit
		for range min(proxiesAtOnce, s.uses.len()) {
			s.next = (s.next + 1) % s.uses.len()
			u := s.uses.values[s.next]
			switch {
			case !u.began:
				continue
			case ends:
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

// sweepSites forgets keys that no site uses, and sites that have ended.
func (t *Aggregator) sweepSites(now time.Duration) {
	for _, s := range t.sortedSites() {
		if s.ended > 0 && now-s.ended > Linger {
			delete(t.sites, s.name)
			t.Forget(now, s.proxy.name, s.proxy.generation)
			continue
		}
		t.endOrphans(now, s)
		s.uses.pruneSome(max(1024, s.uses.len()/sweepCycle), func(_ uint64, u *siteUse) bool {
			return !u.used && !u.began && u.queued == notQueued && u.told == ""
		})
	}
}

// checkSites ends the proxies' claims of keys that this agent owns no more.
func (t *Aggregator) checkSites(now time.Duration) {
	for _, s := range t.sortedSites() {
		for i, key := range s.uses.keys {
			if u := s.uses.values[i]; u.used && t.owners.of(key) != t.o.Agent {
				u.used = false
				t.endProxy(now, s, key, u)
			}
		}
	}
	t.tellAllKeys(now)
}

// tellAllKeys has the other sites know of the keys that this agent owns now.
func (t *Aggregator) tellAllKeys(now time.Duration) {
	if len(t.sites) > 0 {
		for _, key := range t.ours.keys {
			t.tellSites(now, key)
		}
	}
}

func (t *Aggregator) sortedSites() []*site {
	if len(t.sites) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(t.sites), func(a, b *site) int { return cmp.Compare(a.name, b.name) })
}

// NoteAbroad has TakeAbroad return a key that is new here, if other sites may use it.
func (t *Aggregator) NoteAbroad(key uint64) {
	if len(t.sites) > 0 {
		t.noteAbroad(key)
	}
}

// noteAbroad notes that other sites' use of a key has changed.
func (t *Aggregator) noteAbroad(key uint64) {
	if t.owners.of(key) == t.o.Agent {
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

// Sites returns how many sites there are, with this one.
func (t *Aggregator) Sites() int {
	n := 1
	for _, s := range t.sites {
		if s.ended == 0 {
			n++
		}
	}
	return n
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

// dueAbroad returns when Advance or Gather has something to do for other sites.
func (t *Aggregator) dueAbroad() time.Duration {
	due := time.Duration(math.MaxInt64)
	for _, s := range t.sites {
		switch {
		case s.ended > 0:
			continue
		case s.silent || s.waiting() > 0:
			return 0
		}
		due = min(due, silentFrom(t.o.Period, s.heard, s.promise)+t.delay)
		if len(s.falls) > 0 {
			due = min(due, s.fallAt)
		}
		for _, list := range s.checks {
			if len(list) > 0 {
				due = min(due, list[0].at)
			}
		}
	}
	return due
}
