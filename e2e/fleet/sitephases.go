package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/fleet/demand"
	"github.com/titrate/titrate/e2e/fleet/wan"
)

// usual is the way between sites where a phase states none.
var usual = wan.Link{Delay: 40 * time.Millisecond, Jitter: 4 * time.Millisecond, Loss: .01}

// way is a link of so much one way, with a tenth more at random.
func way(delay time.Duration, loss float64) *wan.Link {
	return &wan.Link{Delay: delay, Jitter: delay / 10, Loss: loss}
}

// sitePhases in their order. In the first four the links between sites are so long or lose so much.
var sitePhases = []phase{
	{name: "12.5ms", event: nothing, link: way(12500*time.Microsecond, .01), clients: ofAllLimits},
	{name: "40ms", event: nothing, link: way(40*time.Millisecond, .01), clients: ofAllLimits},
	{name: "125ms", event: nothing, link: way(125*time.Millisecond, .01), clients: ofAllLimits},
	{name: "loss", event: nothing, link: way(40*time.Millisecond, .05), clients: ofAllLimits},
	{name: "join", event: (*fleet).joinExact, clients: ofOneLimit},
	{name: "leave", event: (*fleet).leaveExact, clients: ofOneLimit},
	{name: "kill", event: (*fleet).killExact, clients: ofOneLimit},
	{name: "restart", event: (*fleet).restartExact, clients: ofOneLimit},
	{name: "cut", event: (*fleet).cutSite, clients: (*fleet).besideACut},
	{name: "rolling-update", event: (*fleet).updateSites, clients: ofOneLimit},
	{name: "kill-site", event: (*fleet).killSite, clients: besideAKill, alone: probed},
	{name: "restart-site", event: (*fleet).restartSite, clients: besideAKill, alone: probed},
}

func nothing(*fleet, context.Context) (time.Time, error) { return time.Now(), nil }

// Names of clients: what they ask for, and where.
const (
	isBelow = "below" // at all sites, less than the limit
	isAbove = "above" // at all sites, more
	isHome  = "home"  // at one site, more
	isKept  = "kept"  // at the site that is cut off, less
	isOther = "other" // at another site, less
)

// The parts of their limit that clients ask for.
const (
	lightLoad = .6
	homeLoad  = .8 // at one site
	heavyLoad = 1.5
)

// threeKinds are a client below the limit, one above it, and one above it at one site.
func threeKinds(l demand.Limit) []*demand.Client {
	return []*demand.Client{
		{Name: isBelow, Limit: l, Load: lightLoad, Site: demand.AllSites},
		{Name: isAbove, Limit: l, Load: heavyLoad, Site: demand.AllSites},
		{Name: isHome, Limit: l, Load: heavyLoad},
	}
}

func ofAllLimits(*fleet) (all []*demand.Client) {
	for _, l := range []demand.Limit{slow, middle, fast} {
		all = append(all, threeKinds(l)...)
	}
	return all
}

func ofOneLimit(*fleet) []*demand.Client { return threeKinds(middle) }

// besideACut are the clients while a site is cut off.
func (f *fleet) besideACut() []*demand.Client {
	return []*demand.Client{
		{Name: isKept, Limit: middle, Load: homeLoad, Site: f.lastSite()},
		{Name: isOther, Limit: middle, Load: homeLoad},
		{Name: isBelow, Limit: middle, Load: lightLoad, Site: demand.AllSites},
		{Name: isAbove, Limit: middle, Load: heavyLoad, Site: demand.AllSites},
	}
}

// besideAKill are the clients while all agents of the last site are killed, or start. Gateways there decide alone.
func besideAKill(*fleet) []*demand.Client {
	return []*demand.Client{
		{Name: isOther, Limit: middle, Load: homeLoad},
		{Name: isBelow, Limit: middle, Load: lightLoad, Site: demand.AllSites},
		{Name: isAbove, Limit: middle, Load: heavyLoad, Site: demand.AllSites},
	}
}

// updateSites ends and starts all agents, one after the other, site by site.
func (f *fleet) updateSites(ctx context.Context) (time.Time, error) {
	all := f.running(false)
	slices.SortStableFunc(all, func(a, b *member) int { return cmp.Compare(a.site, b.site) })
	return f.update(ctx, all)
}

// ofLastSite are the members of the last site whose agents run, or do not.
func (f *fleet) ofLastSite(running bool) (all []*member) {
	for _, m := range f.members {
		if m.site == f.lastSite() && m.running == running && m.exact != nil {
			all = append(all, m)
		}
	}
	return all
}

// killSite kills all agents of the last site at once. Their gateways keep running.
func (f *fleet) killSite(ctx context.Context) (time.Time, error) {
	all := f.ofLastSite(true)
	for _, m := range all {
		if err := f.goes(ctx, m); err != nil {
			return time.Time{}, err
		}
	}
	return time.Now(), each(all, func(m *member) error { m.agent.Kill(); return nil })
}

// restartSite starts these agents, all at once.
func (f *fleet) restartSite(ctx context.Context) (time.Time, error) {
	err := each(f.ofLastSite(false), func(m *member) error { return f.startAgain(ctx, m) })
	return time.Now(), err
}

func (f *fleet) lastSite() int { return f.o.sites - 1 }

// warm is the time of the clients before the cut.
const warm = 5 * time.Second

// cutSite cuts the last site off for a while. It returns when the cut ended.
func (f *fleet) cutSite(ctx context.Context) (time.Time, error) {
	if err := rig.Sleep(ctx, warm); err != nil {
		return time.Time{}, context.Cause(ctx)
	}
	f.sites.net.Cut(f.lastSite())
	err := rig.Sleep(ctx, f.o.cut)
	f.sites.net.Join()
	return time.Now(), err
}

// siteLook are the counts until now.
type siteLook struct {
	look
	bytes                     []int64
	asked, refused, undecided int
}

func (f *fleet) lookSites(ctx context.Context) (l siteLook, err error) {
	if l.look, err = f.look(ctx); err != nil {
		return l, err
	}
	l.bytes = f.sites.net.Bytes()
	l.asked, l.refused = int(f.sites.asked.Load()), int(f.sites.refused.Load())
	for _, m := range f.members {
		if m.exact != nil {
			l.undecided += int(m.exact.Counts().Ledger)
		}
	}
	return l, nil
}

// playSites goes through one phase. Its clients are new to all sites.
func (f *fleet) playSites(ctx context.Context, p phase) (r Phase, err error) {
	link := usual
	if p.link != nil {
		link = *p.link
	}
	f.sites.net.SetLink(link)
	f.sites.late.Store(0)
	before, err := f.lookSites(ctx)
	if err != nil {
		return r, err
	}
	all := p.clients(f)
	for _, c := range all {
		c.Name += "-" + p.name
	}
	asking := f.startClients(ctx, all)
	defer asking.end()
	began, err := p.event(f, ctx)
	if err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	s := &SitePhase{Delay: link.Delay.Seconds(), Jitter: link.Jitter.Seconds(), Loss: link.Loss, Steady: p.link != nil,
		Global: f.o.global}
	r = Phase{Name: p.name, Bound: f.o.within.Seconds(), Sites: s}
	if s.Agreed, err = f.agreeExact(ctx, began); err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	if s.Known, err = f.knownAbroad(ctx, began); err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	hold := f.o.hold
	if p.link != nil {
		hold = f.o.steady
	}
	if err := f.watchSites(ctx, hold, s); err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	if err := asking.stop(ctx); err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	after, err := f.lookSites(ctx)
	if err != nil {
		return r, err
	}
	f.costs(before.usage, after.usage, &r)
	s.traffic(before, after, r.Seconds)
	s.Keys = f.keysAbroad(after.usage)
	s.Late = time.Duration(f.sites.late.Load()).Seconds()
	switch {
	case p.name == "cut":
		s.Cut = f.o.cut.Seconds()
	case p.alone > 0:
		s.Cut, s.Alone = r.Seconds, p.alone
	}
	f.outcomes(all, s)
	return r, f.sound()
}

// watchEvery is the time between two looks at delays.
const watchEvery = 2 * time.Second

// watchSites notes delays and waiting records for a while.
func (f *fleet) watchSites(ctx context.Context, hold time.Duration, s *SitePhase) error {
	for end := time.Now().Add(hold); ; {
		d, err := f.siteDelay(ctx)
		if err != nil {
			return err
		}
		s.SiteDelay = max(s.SiteDelay, d.Seconds())
		u, err := f.usage(ctx)
		if err != nil {
			return err
		}
		for _, a := range u.agents {
			s.Waiting = max(s.Waiting, a.metrics[waiting])
		}
		if err := f.sound(); err != nil {
			return err
		}
		rest := time.Until(end)
		if rest <= 0 {
			return nil
		}
		if err := rig.Sleep(ctx, min(rest, watchEvery)); err != nil {
			return context.Cause(ctx)
		}
	}
}
