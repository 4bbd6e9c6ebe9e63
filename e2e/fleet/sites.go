package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/fleet/demand"
	"github.com/titrate/titrate/e2e/fleet/exact"
	"github.com/titrate/titrate/e2e/fleet/wan"
	"github.com/titrate/titrate/lab/installation"
)

// A fleet of several sites. Agent i is of site i mod S, which is a network namespace (package wan), and has a gateway
// with the filter's engine (package exact). The limits state EXACT.

// probed is the number of a site's gateways that clients with a limit of their own go to.
const probed = 2

// The limits of these clients.
var (
	slow   = demand.Limit{Tenant: "slow", Rate: 10, Burst: 10}
	middle = demand.Limit{Tenant: "middle", Rate: 100, Burst: 100}
	fast   = demand.Limit{Tenant: "fast", Rate: 1000, Burst: 200}
)

// region has all that belongs to several sites.
type region struct {
	net   *wan.Network
	rigs  []*rig.Rig // of each site
	homes [][]*exact.Gateway
	crowd demand.Crowd

	stop    context.CancelFunc // of the crowd
	asking  sync.WaitGroup
	asked   atomic.Int64 // requests of all clients
	refused atomic.Int64 // requests of the crowd
	late    atomic.Int64 // the most, ns
}

func siteName(i int) string { return fmt.Sprintf("site-%d", i+1) }

// siteDocuments are the configuration of a fleet of several sites. judged is the scope of the limits of clients that
// are judged one by one.
func siteDocuments(c demand.Crowd, judged string) string {
	var b strings.Builder
	item := func(format string, args ...any) {
		fmt.Fprintf(&b, "- {apiVersion: titrate.dev/v1alpha1, "+format+"}\n", args...)
	}
	item("kind: Pool, name: pools/%s, spec: {capacity: 1000000}", exact.Pool)
	limit := func(tenant string, rate, burst float64, scope string) {
		item("kind: Tenant, name: tenants/%s", tenant)
		item("kind: Limit, name: tenants/%s/limits/each, spec: {rate: %g/s, burst: %g, precision: EXACT, scope: %s}",
			tenant, rate, burst, scope)
	}
	rate, burst := c.Limit()
	for _, name := range exact.Tenants {
		limit(name, rate, float64(burst), "SITE")
	}
	for _, l := range []demand.Limit{slow, middle, fast} {
		limit(l.Tenant, l.Rate, l.Burst, judged)
	}
	return b.String()
}

// startSites starts the coordinator, the sites with their agents, and the gateways.
func (f *fleet) startSites(ctx context.Context) (err error) {
	f.tokens = tally{}
	s := &region{crowd: demand.Crowd{Keys: f.o.keys, Sites: f.o.sites, Rate: f.o.rate,
		New: min(mostNew, newByAgents/float64(f.o.agents))}, stop: func() {}}
	f.sites = s
	var names []string
	for i := range f.o.sites {
		names = append(names, siteName(i))
	}
	if s.net, err = wan.New(names); err != nil {
		return err
	}
	if f.in, err = f.rig.New(installation.Options{Host: s.net.Own.Address.String(),
		Documents:   siteDocuments(s.crowd, f.o.scope()),
		Coordinator: []string{"--insecure", "--membership", f.o.membership().String()}}); err != nil {
		return err
	}
	if err := f.in.Start(ctx); err != nil {
		return err
	}
	s.net.SetAPI(installation.Port(f.in.API()))
	for _, h := range s.net.Sites {
		o := f.o.rig
		o.Host, o.Enter = h.Address.String(), h.Enter
		r, err := rig.New(o)
		if err != nil {
			return err
		}
		r.Grace = stopGrace
		s.rigs = append(s.rigs, r)
	}
	if err := f.startAgents(ctx, f.o.agents, 0); err != nil {
		return err
	}
	if err := f.attach(ctx, f.members); err != nil {
		return err
	}
	f.say("all gateways have their configuration")
	s.homes = make([][]*exact.Gateway, f.o.sites)
	for _, m := range f.members {
		s.homes[m.site] = append(s.homes[m.site], m.exact.Gateway)
	}
	return nil
}

// place puts a new member at its site.
func (s *region) place(m *member, number int) {
	m.site = number % len(s.rigs)
	m.rig = s.rigs[m.site]
	host := s.net.Sites[m.site].Address.String()
	m.gossip = fmt.Sprintf("%s:%d", host, 7000+2*number)
	m.web = fmt.Sprintf("%s:%d", host, 7001+2*number)
}

// close ends the sites. Their clients and gateways have ended.
func (s *region) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, r := range s.rigs {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// beginSites waits until the agents agree, and starts the crowd. It returns when all clients of the crowd are known at
// all sites, or should be.
func (f *fleet) beginSites(ctx context.Context) error {
	s := f.sites
	if _, err := f.agreeExact(ctx, time.Now()); err != nil {
		return err
	}
	f.say("all agents know each other; %d clients ask each site once", f.o.keys)
	if err := rig.Sleep(ctx, settled); err != nil {
		return context.Cause(ctx)
	}
	crowd, stop := context.WithCancel(ctx)
	s.stop = stop
	known := make(chan struct{})
	s.asking.Go(func() { s.runCrowd(crowd, known) })
	select {
	case <-known:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	f.say("all clients have asked")
	seconds, err := f.knownAbroad(ctx, time.Now())
	f.say("waited %.1f s until all sites knew their keys, or should have", seconds)
	return err
}

// toKnow is the longest time until all sites know the keys of all others again: as much as the records of all keys take
// within the product's bound.
func toKnow(within time.Duration, keys int) time.Duration {
	return within + time.Duration(keys)*time.Second*siteRecord/siteBytes
}

// knownAbroad waits until all sites know all keys of the crowd, or that has taken too long: the judge says so. It
// returns the time since an event, in seconds.
func (f *fleet) knownAbroad(ctx context.Context, began time.Time) (seconds float64, err error) {
	for {
		u, err := f.usage(ctx)
		seconds = time.Since(began).Seconds()
		if err != nil || f.keysAbroad(u) >= leastAbroad || seconds > toKnow(f.o.within, f.o.keys).Seconds() {
			return seconds, err
		}
		if err := f.sound(); err != nil {
			return seconds, err
		}
		if err := rig.Sleep(ctx, time.Second); err != nil {
			return seconds, context.Cause(ctx)
		}
	}
}

// keysAbroad returns the part of the crowd's keys whose owners know that other sites use them.
func (f *fleet) keysAbroad(u usage) float64 {
	sum := 0.
	for _, a := range u.agents {
		sum += a.metrics[siteKeys]
	}
	s := float64(f.living()) * float64(f.o.sites-1)
	return min(1, sum/(s*float64(f.o.keys))) // the other clients' keys count, too
}

// A request moves a claim at all gateways in each period for seconds, and all gateways are in this process. So that two
// processors suffice, as many clients come per second as mostNew, and as newByAgents per agent; asksByAgents bounds the
// default of -rate.
const (
	mostNew      = 2000
	newByAgents  = 12_000
	asksByAgents = 3000
)

// crowdStep is the time between two looks for due requests of the crowd.
const crowdStep = 5 * time.Millisecond

// runCrowd sends the crowd's requests; known is closed once all clients have asked at all sites.
func (s *region) runCrowd(ctx context.Context, known chan struct{}) {
	tick := time.NewTicker(crowdStep)
	defer tick.Stop()
	for start := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for range s.crowd.Due(time.Since(start)) {
			client, site, cost := s.crowd.Next()
			home := s.homes[site]
			s.ask(home[client%len(home)], &limiter.Request{Tenant: exact.Tenants[client%len(exact.Tenants)],
				Client: fmt.Sprintf("c-%d", client), Pool: exact.Pool, Cost: cost}, func(out *limiter.Outcome) {
				if out.Verdict == limiter.Reject {
					s.refused.Add(1)
				}
			})
		}
		if known != nil && s.crowd.Known() {
			close(known)
			known = nil
		}
	}
}

func (s *region) ask(at *exact.Gateway, r *limiter.Request, done func(*limiter.Outcome)) {
	s.asked.Add(1)
	at.Ask(r, done)
}

// clients are the clients of a phase while they ask.
type clients struct {
	all    []*demand.Client
	end    context.CancelFunc
	asking sync.WaitGroup
	sent   atomic.Int64
	ended  atomic.Int64
}

// startClients starts clients.
func (f *fleet) startClients(ctx context.Context, all []*demand.Client) *clients {
	c := &clients{all: all}
	ctx, c.end = context.WithCancel(ctx)
	for i, client := range all {
		c.asking.Go(func() { f.runClient(ctx, c, client, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	return c
}

// runClient sends a client's requests, each to one of its gateways at random.
func (f *fleet) runClient(ctx context.Context, c *clients, client *demand.Client, r *rand.Rand) {
	for due := time.Now(); ; {
		due = due.Add(client.Next(r))
		if wait := time.Until(due); wait > 0 {
			if rig.Sleep(ctx, wait) != nil {
				return
			}
		} else if ctx.Err() != nil {
			return
		}
		f.sites.isLate(int64(time.Since(due)))
		site := client.Site
		if site == demand.AllSites {
			site = r.IntN(f.o.sites)
		}
		home := f.sites.homes[site]
		c.sent.Add(1)
		arrived := time.Since(f.start)
		f.sites.ask(home[r.IntN(min(probed, len(home)))], &limiter.Request{Tenant: client.Limit.Tenant,
			Client: client.Name, Pool: exact.Pool, Cost: 1}, func(out *limiter.Outcome) {
			ended := arrived
			if out.Waited > 0 {
				ended = time.Since(f.start)
			}
			client.Log.Add(demand.Record{Arrived: arrived, Ended: ended, Admitted: out.Verdict == limiter.Admit})
			c.ended.Add(1)
		})
	}
}

// isLate notes by how much a client is late, ns.
func (s *region) isLate(by int64) {
	for was := s.late.Load(); by > was && !s.late.CompareAndSwap(was, by); was = s.late.Load() {
	}
}

// lastAnswers is the longest time that requests which wait at the end of a phase may take.
const lastAnswers = 2 * time.Second

// stop ends the clients, and waits for the last answers.
func (c *clients) stop(ctx context.Context) error {
	c.end()
	c.asking.Wait()
	for end := time.Now().Add(lastAnswers); c.ended.Load() < c.sent.Load(); {
		if time.Now().After(end) {
			return fmt.Errorf("%d requests have no answer after %v", c.sent.Load()-c.ended.Load(), lastAnswers)
		}
		if err := rig.Sleep(ctx, pause); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// siteDelay returns the longest delay between an agent that clients with limits of their own ask and another agent of
// its site, as the agent has measured it.
func (f *fleet) siteDelay(ctx context.Context) (longest time.Duration, err error) {
	site := map[string]int{}
	for _, m := range f.members {
		site[m.name] = m.site
	}
	for _, m := range f.members[:min(len(f.members), probed*f.o.sites)] {
		if !m.running {
			continue
		}
		text, err := m.rig.Get(ctx, m.url("/status"))
		if err != nil {
			return longest, err
		}
		var status struct {
			Peers []struct {
				Name    string
				Alive   bool
				DelayMs float64
			}
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return longest, fmt.Errorf("status of %s: %w", m.name, err)
		}
		for _, p := range status.Peers {
			if at, known := site[p.Name]; known && at == m.site && p.Alive {
				longest = max(longest, time.Duration(p.DelayMs*float64(time.Millisecond)))
			}
		}
	}
	return longest, nil
}
