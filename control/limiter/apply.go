package limiter

import (
	"errors"
	"sync/atomic"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// applied is the state of Apply, Change and Name.
type applied struct {
	names  atomic.Pointer[Names]   // by Name
	mu     lock.Mutex[lock.Naming] // one Apply, Change or Name at a time; guards what follows
	known  Names
	wanted Wanted // by the configuration in force
	wants  func(Wanted)
}

// Apply installs a configuration. When a field is wrong it returns a *config.FieldError
// and the configuration before stays whole. Flows and keys keep their state; what waits
// is decided by the new numbers from now on. The caller must not change c any more.
func (e *Engine) Apply(c *config.Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	e.applied.mu.Lock()
	defer e.applied.mu.Unlock()
	e.installWhole(compile(c, &e.applied.known, e.snap.Load()))
	return nil
}

var errShared = errors.New("limiter: pools, defaults or names of plans change: apply the whole configuration")

// Change installs a change of the configuration in force. Tenants that it does not name
// are not touched, unless their plan changes. It costs O(change), and a copy of the table of tenants. A change of
// the shared part is an error, since all tenants have it. A *config.BaseError or a
// *config.FieldError leaves the configuration before whole. The caller must not change d any
// more.
func (e *Engine) Change(d *config.Delta) error {
	e.applied.mu.Lock()
	defer e.applied.mu.Unlock()
	s := e.snap.Load()
	switch {
	case s == nil:
		return &config.BaseError{Base: d.Base}
	case s.revision != d.Base:
		return &config.BaseError{Base: d.Base, InForce: s.revision}
	case d.Shared != nil:
		return errShared
	}
	part := config.Config{Pools: s.list, Defaults: s.defaults, Plans: config.ReplacePlans(s.plans.list, d.Plans),
		Tenants: d.Tenants}
	if err := part.Validate(); err != nil {
		return err
	}
	next, touched := s.with(d, part.Plans, &e.applied.known)
	e.install(next, func(tenant string) bool { return touched[tenant] })
	return nil
}

// Name sets the indices of names from now on. A name that has lost its index is a name
// that no request has; an index may change its name only when no request carries the
// old one any more.
func (e *Engine) Name(n Names) {
	a := &e.applied
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = n
	a.names.Store(&n)
	if s := e.snap.Load(); s != nil && (s.asks.names > 0 || s.countsByName()) {
		e.installWhole(compile(s.source(), &n, s))
	}
}

// Named returns what Name said last, nil before. It never waits.
func (e *Engine) Named() *Names { return e.applied.names.Load() }

// installWhole puts a snapshot in force whose tenants were all compiled again. applied is locked.
func (e *Engine) installWhole(s *snapshot) {
	e.install(s, func(string) bool { return true })
}

// install puts a snapshot in force, which differs from the one before in the tenants that
// touched names. What either of them asks of requests is asked while both may be in use.
// applied is locked.
func (e *Engine) install(s *snapshot, touched func(tenant string) bool) {
	a, wanted := &e.applied, s.asks.wanted()
	if a.wants != nil {
		a.wants(a.wanted.or(wanted))
		defer a.wants(wanted)
	}
	a.wanted = wanted
	e.admin.Lock()
	defer e.admin.Unlock()
	before := e.snap.Swap(s)
	e.keys.Changed(s.changed)
	// A flow without a lease has a part of its pool by the weight of all tenants.
	reweighted := before == nil || before.weight != s.weight
	for _, f := range e.live() {
		is := touched(f.tenant)
		if is || reweighted {
			e.refresh(f)
		}
		if is {
			f.askAllAgain()
		}
	}
}
