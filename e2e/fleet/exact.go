package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/fleet/exact"
)

// Bounds of a fleet with EXACT keys.
const (
	leastExact = 3
	// mostExact is the number of keys that an owner has room for: four limits may have 3/16 each of 262,144.
	mostExact = 180_000
	// exactMemory is the memory of a key at its gateway and its owner, bytes.
	exactMemory = 12 << 10
	// What a change may cost.
	mostMessages  = 5  // of each key
	mostUndecided = 1. // % of requests, from settled after all agents agree
	settled       = 3 * time.Second
	mostUnowned   = 1. // % of the keys that no agent owns
)

// exactMember is the gateway of a member. before is the number of its links before a phase, ends the number of
// links that the phase itself ends.
type exactMember struct {
	*exact.Gateway
	before, ends uint64
}

// tally has the token messages that each agent's process has counted. A process that has ended stays in it.
type tally map[int]float64

// note counts each message once, where it is made: questions and registrations of the gateway, grants and
// recalls of the owner.
func (t tally) note(a *agentUsage) {
	t[a.pid] = a.metrics[asked] + a.metrics[granted] + a.metrics[recalled]
}

// Tokens is the cost of a phase with EXACT keys.
type Tokens struct {
	Agreed   float64 `json:"agreedSeconds"` // from the event until each agent has found all others
	Messages float64 `json:"messages"`      // about tokens, of gateways and owners
	PerKey   float64 `json:"perKey"`        // messages per key, beyond the messages of the steady phase
	Lost     int     `json:"linksLost"`     // that the event itself does not end
	Requests int     `json:"requests"`      // from 3 s after the agreement on, at gateways with an agent
	Decided  float64 `json:"decided"`       // part of the requests that owners decided
	Unasked  float64 `json:"unasked"`       // part about which no owner was asked
	Refused  int     `json:"refused"`       // requests; no client is above its limit
	Why      string  `json:"why,omitempty"` // the first refusal
	Owned    float64 `json:"owned"`         // keys that agents own, as a part of the keys in use
	Late     float64 `json:"lateSeconds"`   // by how much clients were late, the most
}

// startExact starts the agents and links their gateways.
func (f *fleet) startExact(ctx context.Context) error {
	f.tokens = tally{}
	if err := f.startAgents(ctx, f.o.agents, 0); err != nil {
		return err
	}
	return f.attach(ctx, f.members)
}

// attach links gateways to the agents of members, and waits until they have the configuration.
func (f *fleet) attach(ctx context.Context, members []*member) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.o.within, fmt.Errorf("%w %v", errLate, f.o.within))
	defer cancel()
	return each(members, func(m *member) error {
		g := exact.New(exact.Options{Socket: m.rig.Socket(m.name), Name: m.name, Place: slices.Index(f.members, m),
			Gateways: f.o.agents, Keys: f.o.keysEach(), Known: f.o.keys, Split: f.o.split()})
		m.exact = &exactMember{Gateway: g}
		select {
		case <-g.Ready():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("gateway %s has no configuration: %w", m.name, context.Cause(ctx))
		}
	})
}

func (f *fleet) closeExact() {
	_ = each(f.members, func(m *member) error {
		if m.exact != nil {
			m.exact.Close()
		}
		return nil
	})
}

// registered starts the clients once owners grant tokens. It waits until owners have the clients' keys, or
// until that has taken too long: then the steady phase fails.
func (f *fleet) registered(ctx context.Context) error {
	if _, err := f.agreeExact(ctx, time.Now()); err != nil {
		return err
	}
	if err := rig.Sleep(ctx, settled); err != nil {
		return context.Cause(ctx)
	}
	var all []*exact.Gateway
	for _, m := range f.members {
		all = append(all, m.exact.Gateway)
	}
	for _, g := range all {
		g.Serve(all)
	}
	var end time.Time // of waiting for owners, once each client has asked
	for end.IsZero() || time.Now().Before(end) {
		if err := rig.Sleep(ctx, 10*pause); err != nil {
			return fmt.Errorf("clients: %w", context.Cause(ctx))
		}
		if err := f.sound(); err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(g *exact.Gateway) bool { return !g.Served() }) {
			continue
		}
		if end.IsZero() {
			end = time.Now().Add(f.o.within)
		}
		l, err := f.look(ctx)
		if err != nil || l.owned >= f.keysInUse() {
			return err
		}
	}
	return nil
}

// keysInUse returns the number of keys of all gateways.
func (f *fleet) keysInUse() float64 { return float64(f.o.agents * f.o.keys) }

// look are the counts until now.
type look struct {
	usage
	messages, owned float64
	refused         uint64
}

func (f *fleet) look(ctx context.Context) (l look, err error) {
	if l.usage, err = f.usage(ctx); err != nil {
		return l, err
	}
	for _, a := range l.agents {
		f.tokens.note(&a)
		l.owned += a.metrics[tokenKeys]
	}
	for _, n := range f.tokens {
		l.messages += n
	}
	for _, m := range f.members {
		if m.exact != nil {
			l.refused += m.exact.Counts().Refused
		}
	}
	return l, nil
}

// playExact goes through one phase.
func (f *fleet) playExact(ctx context.Context, p phase) (r Phase, err error) {
	before, err := f.look(ctx)
	if err != nil {
		return r, err
	}
	f.beginExact()
	began, err := p.event(f, ctx)
	if err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	t := &Tokens{}
	r = Phase{Name: p.name, Bound: f.o.within.Seconds(), Tokens: t}
	if t.Agreed, err = f.agreeExact(ctx, began); err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	wait, hold := settled, f.o.hold
	if p.name == steady {
		wait, hold = 0, f.o.steady
	}
	if err := f.watchExact(ctx, wait, hold, t); err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	after, err := f.look(ctx)
	if err != nil {
		return r, err
	}
	f.costs(before.usage, after.usage, &r)
	t.Messages, t.Owned = after.messages-before.messages, after.owned/f.keysInUse()
	if p.name == steady {
		f.quiet = t.Messages / r.Seconds
	}
	t.PerKey = (t.Messages - f.quiet*r.Seconds) / f.keysInUse()
	t.Refused = int(after.refused - before.refused)
	f.endExact(t)
	return r, f.sound()
}

// watchExact waits, and then counts for a while which requests owners decide.
func (f *fleet) watchExact(ctx context.Context, wait, hold time.Duration, t *Tokens) error {
	if err := rig.Sleep(ctx, wait); err != nil {
		return context.Cause(ctx)
	}
	from := f.decisions()
	if err := rig.Sleep(ctx, hold); err != nil {
		return context.Cause(ctx)
	}
	to := f.decisions()
	t.Requests = int(to.Requests - from.Requests)
	t.Decided = 1 - float64(to.Ledger-from.Ledger)/float64(max(1, t.Requests))
	t.Unasked = float64(to.Unasked-from.Unasked) / float64(max(1, t.Requests))
	return nil
}

// decisions are the requests so far at gateways whose agents run.
func (f *fleet) decisions() (sum exact.Counts) {
	for _, m := range f.running(false) {
		c := m.exact.Counts()
		sum.Requests += c.Requests
		sum.Ledger += c.Ledger
		sum.Unasked += c.Unasked
	}
	return sum
}

// beginExact begins to count the effects of a phase on gateways, and endExact notes the counts.
func (f *fleet) beginExact() {
	for _, m := range f.members {
		m.exact.before, m.exact.ends = m.exact.Counts().Links, 0
		m.exact.Late()
		m.exact.FirstRefusal()
	}
}

func (f *fleet) endExact(t *Tokens) {
	for _, m := range f.members {
		t.Lost += max(0, int(m.exact.Counts().Links)-int(max(1, m.exact.before)+m.exact.ends))
		t.Late = max(t.Late, m.exact.Late().Seconds())
		if first := m.exact.FirstRefusal(); t.Why == "" {
			t.Why = first
		}
	}
}

// agreeExact waits until all agents have found each other, receive all other sites and have their gateways. It
// returns how long that took.
func (f *fleet) agreeExact(ctx context.Context, began time.Time) (seconds float64, err error) {
	for {
		agreed, err := f.agreed(ctx)
		seconds = time.Since(began).Seconds()
		if err != nil || agreed || seconds > f.o.within.Seconds() {
			return seconds, err // judge reports the mistake
		}
		if err := f.sound(); err != nil {
			return seconds, err
		}
		if err := rig.Sleep(ctx, 5*pause); err != nil {
			return seconds, context.Cause(ctx)
		}
	}
}

// living is the number of sites with an agent that runs.
func (f *fleet) living() int {
	sites := map[int]bool{}
	for _, m := range f.running(false) {
		sites[m.site] = true
	}
	return len(sites)
}

func (f *fleet) agreed(ctx context.Context) (bool, error) {
	all, others := f.running(false), f.living()-1
	for _, m := range all {
		page, err := f.page(ctx, m)
		if err != nil {
			return false, err
		}
		has, err := parseMetrics(page)
		if err != nil || int(has[peers]) != len(all)-1 || int(has[reachable]) != others || !m.exact.Linked() {
			return false, err
		}
	}
	return true, nil
}

func (r *Result) judgeExact(p *Phase) {
	t := p.Tokens
	r.atMost("all agents know each other", p.Name, t.Agreed, p.Bound, "s", "some do not, or have no gateway")
	if p.Name == steady { // the keys of a gateway without an agent move to no new owner
		r.atMost("keys that no agent owns", p.Name, 100*(1-t.Owned), mostUnowned, "%", "")
		r.voidIfFull(p.Busy, "while nothing happened")
	}
	r.atMost("token messages of a key, beyond those while nothing happens", p.Name, t.PerKey, mostMessages,
		"messages", "")
	r.atMost("links lost", p.Name, float64(t.Lost), 0, "links", "")
	r.atMost(fmt.Sprintf("requests that no owner decided, from %v after that", settled), p.Name, 100*(1-t.Decided),
		mostUndecided, "%", fmt.Sprintf("of %.2f %% none was asked; clients were up to %.2f s late", 100*t.Unasked,
			t.Late))
	r.atMost("clients below their limit, requests refused", p.Name, float64(t.Refused), 0, "requests", t.Why)
	if t.Requests == 0 && r.Void == "" {
		r.Void = fmt.Sprintf("there were no requests in the phase %s: want more -keys, or a longer -hold", p.Name)
	}
}
