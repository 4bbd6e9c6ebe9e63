package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/e2e/fleet/demand"
	"github.com/titrate/titrate/lab/judge"
)

// Bounds of a fleet of several sites.
const (
	leastAbroad = .99 // of the crowd's keys are known at all sites
	// mostPair bounds the traffic from one site to another, bytes/s, with the headers of IP.
	mostPair = 100_000
	// mostKept is the part of the requests of a client of one site that may be refused while a site is cut off, %.
	mostKept = .5
	// mostOff bounds the difference between what a client above its limit gets and one bucket admits, %. It counts once
	// the client has asked for the time repaid.
	mostOff = 1.
	repaid  = 50 * time.Second
	// cutPart is the part of a limit's rate that sites may admit in addition while one is cut off. It allows for the
	// rate that none of them claimed at the beginning, and for the noise of claims.
	cutPart = .2
	// Where the burst is less than rate·δ, several sites may refuse lateWrongful of the requests below the limit. What
	// they admit above it may differ from one bucket by lateOff, %.
	lateWrongful, lateOff = .04, 10.
	// siteBytes and siteRecord are the product's bound on records between two sites, bytes/s, and a record's size.
	siteBytes, siteRecord = 48 << 10, 64
	// sitePackets is its bound on packets from one site to another, 1/s.
	sitePackets = 256
	// stateLag is three periods and a half, docs/how-to/two-regions.md.
	stateLag = 175 * time.Millisecond
)

// SitePhase are the figures of a phase of several sites.
type SitePhase struct {
	Steady  bool         `json:"steady"`           // nothing happens but the load
	Global  bool         `json:"global,omitempty"` // the clients' limits have the scope GLOBAL
	Delay   float64      `json:"delaySeconds"`
	Jitter  float64      `json:"jitterSeconds"`
	Loss    float64      `json:"loss"`
	Agreed  float64      `json:"agreedSeconds"` // from the event, or its end, until all agents know all others
	Known   float64      `json:"knownSeconds"`  // the same until all sites know all keys of the crowd
	Cut     float64      `json:"cutSeconds,omitempty"`
	Alone   int          `json:"gatewaysAlone,omitempty"` // without agents, that clients of all sites go to
	Clients []SiteClient `json:"clients"`
	// Pair is the traffic from one site to another, bytes/s with the headers of IP: mean of all pairs, and most.
	Pair      Figure  `json:"pairBytesPerSecond"`
	Keys      float64 `json:"keysAbroad"`       // part of the crowd's keys that are known at all sites
	Waiting   float64 `json:"waitingRecords"`   // at one agent, the most
	Lag       float64 `json:"lagSeconds"`       // δ between sites
	SiteDelay float64 `json:"siteDelaySeconds"` // τ within a site, the longest
	Requests  int     `json:"requests"`         // of all clients
	Refused   int     `json:"refused"`          // of the crowd; each refusal is wrong
	Decided   float64 `json:"decided"`          // part of the requests that owners decided, or gateways with the bucket
	Late      float64 `json:"lateSeconds"`      // by how much clients were late, the most
}

// SiteClient are the figures of a client.
type SiteClient struct {
	Name  string  `json:"name"`
	Rate  float64 `json:"rate"`
	Burst float64 `json:"burst"`
	Load  float64 `json:"load"`
	Sites int     `json:"sites"` // that it goes to
	Bound float64 `json:"excessBound"`
	demand.Figures
}

// traffic notes the differences of two looks.
func (s *SitePhase) traffic(before, after siteLook, seconds float64) {
	var list figures
	for i := range after.bytes {
		if n := after.bytes[i] - before.bytes[i]; n > 0 {
			list.add("pair", float64(n)/seconds)
		}
	}
	s.Pair = list.figure("pair")
	s.Requests, s.Refused = after.asked-before.asked, after.refused-before.refused
	s.Decided = 1 - float64(after.undecided-before.undecided)/float64(max(1, s.Requests))
}

// outcomes notes what the clients got, and their bounds.
func (f *fleet) outcomes(all []*demand.Client, s *SitePhase) {
	// Records that wait are late by their turn in the part of the budget that an agent has.
	turn := s.Waiting * siteRecord * float64(f.o.agents) / float64(f.o.sites) / siteBytes
	perSite := float64(f.o.agents) / float64(f.o.sites)
	beat := max(.05, perSite*perSite/sitePackets)
	s.Lag = s.Delay + s.Jitter + stateLag.Seconds() + beat + turn
	for _, c := range all {
		sites := 1
		if c.Site == demand.AllSites {
			sites = f.o.sites
		}
		s.Clients = append(s.Clients, SiteClient{Name: c.Name, Rate: c.Limit.Rate, Burst: c.Limit.Burst, Load: c.Load,
			Sites: sites, Bound: s.bound(c.Limit, sites), Figures: c.Log.Figures(c.Limit)})
	}
}

// bound returns the excess that a client may have at so many sites: within a site 1 + 8·r·τ, and for each other site
// one burst more, and what all admit within δ. With the scope GLOBAL it is 1 + 8·r·τ of the way between sites, unless
// something happens. Requests are admitted late by as much as this program is.
func (s *SitePhase) bound(l demand.Limit, sites int) float64 {
	limit := judge.Limit{Rate: l.Rate, Burst: l.Burst}
	b := limit.ExactSlack(time.Duration(s.SiteDelay*float64(time.Second))) + l.Rate*s.Late
	switch {
	case s.Global && s.Steady && s.Cut == 0:
		return limit.ExactSlack(time.Duration((s.SiteDelay+s.Delay+s.Jitter)*float64(time.Second))) + l.Rate*s.Late
	case sites > 1:
		b += float64(sites-1+s.Alone)*l.Burst + l.Rate*s.Lag + cutPart*l.Rate*s.Cut
	}
	if !s.Steady { // a gateway without an agent has a ledger
		b += l.Burst
	}
	return b
}

func (r *Result) judgeSites(p *Phase) {
	s := p.Sites
	r.atMost("all agents know each other", p.Name, s.Agreed, p.Bound, "s", "some do not, or have no gateway")
	r.atMost("all sites know the keys of the others", p.Name, s.Known,
		toKnow(time.Duration(p.Bound*float64(time.Second)), r.Keys).Seconds(), "s", "")
	r.atMost("clients' keys that another site does not know", p.Name, 100*(1-s.Keys), 100*(1-leastAbroad), "%", "")
	r.atMost("from one site to another", p.Name, s.Pair.Most, mostPair, "B/s", "")
	if s.Cut == 0 { // a client that goes to all sites may be refused what a site that is cut off claimed last
		r.atMost("clients of the crowd, requests refused", p.Name, float64(s.Refused), 0, "requests", "")
	}
	if s.Steady && !s.proves() {
		r.Void = cmp.Or(r.Void, fmt.Sprintf("the machine is too slow for %d agents and %d keys: in the phase %s "+
			"clients were up to %.0f ms late, and packets within a site took up to %.0f ms, so that a burst too much "+
			"would pass unnoticed", r.Agents, r.Keys, p.Name, 1000*s.Late, 1000*s.SiteDelay))
		return
	}
	for i := range s.Clients {
		c := &s.Clients[i]
		name := fmt.Sprintf("%s, %g/s: ", c.Name, c.Rate)
		r.atMost(name+"excess over rate·t + burst", p.Name, c.Excess, c.Bound, "requests", "")
		if s.Global && c.Burst < 8*c.Rate*(s.Delay+s.Jitter) { // apply warns: no more is promised
			continue
		}
		wrongful, off := 0., mostOff
		if c.Sites > 1 && c.Burst < c.Rate*s.Lag { // docs/how-to/two-regions.md
			wrongful, off = lateWrongful*float64(c.Offered), lateOff
		}
		r.atMost(name+"refused wrongly", p.Name, float64(c.Wrongful), wrongful, "requests", "")
		if s.Cut > 0 && c.Sites == 1 {
			r.atMost(name+"refused", p.Name, 100*c.Refused(), mostKept, "%", "")
		}
		if s.Steady && c.Load > 1 && p.Seconds >= repaid.Seconds() {
			r.atMost(name+"off what one bucket admits", p.Name, 100*abs(c.Ratio()-1), off, "%", "")
		}
		if c.Offered == 0 {
			r.Void = fmt.Sprintf("client %s sent nothing in the phase %s", c.Name, p.Name)
		}
	}
}

// proves reports whether the excess of a client of one site is bound by less than its burst: two buckets in the site
// would be noticed. With the scope GLOBAL a bucket at each site would be.
func (s *SitePhase) proves() bool {
	return slices.ContainsFunc(s.Clients, func(c SiteClient) bool {
		return (c.Sites == 1 || s.Global) && c.Bound < float64(max(1, c.Sites-1))*c.Burst
	})
}
