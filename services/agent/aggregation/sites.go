package aggregation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/owners"
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
// While a site is cut off, its proxy goes on as it claimed last, for five times as long as the site was known, and for
// keepSplit at most. Each site keeps to what the others leave it. What comes after longer than T2 is a new count, too.

const (
	// siteBytes bounds what the agents of one site together send to another site, bytes/s, and siteRecord is the size
	// of a record.
	siteBytes, siteRecord = 48 << 10, 72
	// proxiesAtOnce bounds the keys of a site that is cut off whose counts go on in half a period.
	proxiesAtOnce = 256
	// keepSplit is the time after which a site that is cut off is taken for gone, keepAs the same as a multiple of its
	// presence. An agent that was here for seconds must not take from the others for hours.
	keepSplit, keepAs = 2 * time.Hour, 5
)

// Site is another site with its agents.
type Site struct {
	Name   string
	Agents []string
}

// site has the state of another site.
type site struct {
	name   string
	owners owners.Agents
	proxy  *local
	uses   ordered[*siteUse]
	queue  [2][]uint64 // keys whose records are to be sent, those with much news apart
	turn   int         // of the queues
	checks [2][]keyAt  // keys of which a record is sent again if it does not hold, those without claims apart
	falls  []uint64    // keys whose claims fall there
	fallAt time.Duration
	credit float64 // bytes
	sentAt time.Duration

	since   time.Duration // it is known
	heard   time.Duration // an agent of it was received last
	promise time.Duration
	silent  bool // none has been received for long
	gone    bool // for so long that it counts no more
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
		if len(back) == 0 && slices.Equal(at.owners.Names, s.Agents) {
			continue
		}
		at.owners = owners.Agents{}
		for _, name := range s.Agents {
			at.owners.Add(name)
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
			s.owners = owners.Agents{}
		case s.ended == 0:
			t.endSite(now, s)
		}
	}
	if news {
		t.tellKeys(now, func(uint64) bool { return true })
	}
}

// newSite begins to know another site.
func (t *Aggregator) newSite(now time.Duration, name string) *site {
	id := process{"@" + name + "/" + t.o.Agent, t.o.Incarnation}
	s := &site{name: name, uses: newOrdered[*siteUse](), sentAt: now, since: now, heard: now}
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
	if len(s.owners.Names) == 0 {
		return ""
	}
	return s.owners.Of(key)
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

func (t *Aggregator) sortedSites() []*site {
	if len(t.sites) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(t.sites), func(a, b *site) int { return cmp.Compare(a.name, b.name) })
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
