package limiter

import (
	"sync/atomic"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// applied is the configuration in force and the names that go with it.
type applied struct {
	names  atomic.Pointer[Names]   // by Name
	mu     lock.Mutex[lock.Naming] // one Apply or Name at a time; guards what follows
	known  Names
	config *config.Config // in force
	wanted Wanted         // by it
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
	e.install(c)
	return nil
}

// Name says which names have which indices from now on. A name that has lost its index is
// one that no request has; an index may change its name only when no request carries the
// old one any more.
func (e *Engine) Name(n Names) {
	a := &e.applied
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = n
	a.names.Store(&n)
	if a.config != nil && e.snap.Load().named {
		e.install(a.config)
	}
}

// Named returns what Name said last, nil before. It never waits.
func (e *Engine) Named() *Names { return e.applied.names.Load() }

// install compiles a validated configuration and puts it in force. What either
// configuration asks of requests is asked while both may be in use. applied is locked.
func (e *Engine) install(c *config.Config) {
	a := &e.applied
	s := compile(c, &a.known)
	if a.wants != nil {
		a.wants(a.wanted.or(s.wanted))
		defer a.wants(s.wanted)
	}
	a.wanted, a.config = s.wanted, c
	e.admin.Lock()
	defer e.admin.Unlock()
	e.snap.Store(s)
	e.refreshAll()
	for _, f := range e.live() {
		f.askAllAgain()
	}
}
