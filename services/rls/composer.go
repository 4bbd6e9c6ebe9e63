package rls

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
	"github.com/titrate/titrate/services/rls/subject"
)

// maxOverrides bounds the different limits that descriptors bring along, about 1 KiB each.
const maxOverrides = 4096

// tenantWeight keeps the tenants of the files out of the shares that the engine assumes
// until the coordinator grants some: they use no pool.
const tenantWeight = 1e-9

// composer gives the engine its configuration: the coordinator's and that of the files.
type composer struct {
	engine *limiter.Engine
	fixed  bool                                     // the limits of the files are counted elsewhere
	seed   atomic.Uint64                            // of the configuration in force
	files  atomic.Pointer[ratelimitconfig.Config]   // in force
	names  atomic.Pointer[limiter.Names]            // of identities and classes
	unused atomic.Int64                             // names beyond the engine's bounds
	own    atomic.Pointer[map[string]config.Tenant] // of the files, by name
	times  atomic.Int64                             // how often the engine was given a configuration

	mu        sync.Mutex
	given     *config.Config // the coordinator's
	base      *config.Config // given, with the defaults copied into its tenants
	overrides map[string]config.Tenant
}

func newComposer(e *limiter.Engine, seed uint64, fixed bool) *composer {
	none := &config.Config{Seed: seed}
	c := &composer{engine: e, fixed: fixed, given: none, base: none, overrides: map[string]config.Tenant{}}
	c.seed.Store(seed)
	c.files.Store(&ratelimitconfig.Config{})
	c.names.Store(&limiter.Names{})
	return c
}

// configure takes the coordinator's configuration.
func (c *composer) configure(given *config.Config) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.setBase(given)
}

// change takes a change of the coordinator's configuration. The engine gets the whole again: the tenants that change
// may inherit defaults, which the engine does not know as such.
func (c *composer) change(d *config.Delta) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	given, err := c.given.With(d)
	if err != nil {
		return err
	}
	return c.setBase(given)
}

// setBase puts a configuration of the coordinator in force. c is locked.
func (c *composer) setBase(given *config.Config) error {
	before := c.base
	c.base = given.Inherited() // its defaults are not for the tenants of the files
	if err := c.apply(c.files.Load()); err != nil {
		c.base = before
		return err
	}
	c.given = given
	c.seed.Store(given.Seed)
	names, unused := subject.Names(c.base)
	c.names.Store(&names)
	c.unused.Store(int64(unused))
	c.engine.Name(names)
	return nil
}

// load puts the configuration of the files in force.
func (c *composer) load(files *ratelimitconfig.Config) error {
	if files.HasDomain(Domain) {
		return fmt.Errorf("a file has the domain %q, by which Titrate's own tenants are asked: give it another name",
			Domain)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.apply(files); err != nil {
		return err
	}
	c.files.Store(files) // only now: the engine knows its limits
	return nil
}

// learn makes the engine know the limits that the descriptors of a request bring along, all with one
// change of its configuration.
func (c *composer) learn(all []*ratelimitv3.RateLimitDescriptor) {
	var brought []config.Tenant
	for _, d := range all {
		own := d.GetLimit()
		if unit := ratelimitconfig.Unit(own.GetUnit()); own != nil && unit.Length() > 0 {
			n := own.GetRequestsPerUnit()
			brought = append(brought, tenant(overrideName(n, unit), n, unit))
		}
	}
	if brought == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := slices.DeleteFunc(brought, func(t config.Tenant) bool {
		_, known := c.overrides[t.Name]
		if known || len(c.overrides) >= maxOverrides {
			return true
		}
		c.overrides[t.Name] = t
		return false
	})
	if len(fresh) == 0 {
		return
	}
	r := c.base.Revision // of the coordinator's: limits of descriptors do not count there
	if c.engine.Change(&config.Delta{Base: r, Revision: r, Tenants: fresh}) != nil {
		for _, t := range fresh {
			delete(c.overrides, t.Name)
		}
	}
}

// override returns the tenant for a limit that a descriptor has brought along; false: there are too many.
func (c *composer) override(requests uint32, unit ratelimitconfig.Unit) (string, bool) {
	name := overrideName(requests, unit)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.overrides[name]
	return name, known
}

// overrideName is the name of the tenant for a limit that descriptors bring along.
func overrideName(requests uint32, unit ratelimitconfig.Unit) string {
	return fmt.Sprintf("override/%d/%s", requests, unit)
}

// apply gives the engine everything together. c is locked.
func (c *composer) apply(files *ratelimitconfig.Config) error {
	out := *c.base
	out.Tenants = slices.Clone(c.base.Tenants)
	own := map[string]config.Tenant{}
	for _, l := range files.Limits() {
		if !l.Unlimited && !c.fixed {
			t := tenant(tenantOf(l), l.Requests, l.Unit)
			own[t.Name] = t
			out.Tenants = append(out.Tenants, t)
		}
	}
	for _, t := range c.overrides {
		out.Tenants = append(out.Tenants, t)
	}
	if err := c.engine.Apply(&out); err != nil {
		return err
	}
	c.own.Store(&own)
	c.times.Add(1)
	return nil
}

// exactKey returns what [limiter.ExactKey] returns, for a limit of the files or of a descriptor. The
// tenant of a descriptor's limit has the rate and the unit in its name.
func (c *composer) exactKey(n *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	t, ok := config.Tenant{}, false
	if own := c.own.Load(); own != nil {
		t, ok = (*own)[n.Tenant]
	}
	if !ok && !c.fixed {
		t, ok = ofOverride(n.Tenant)
	}
	if !ok {
		return 0, p, false
	}
	var in config.Set
	in.Replace(&config.Config{Seed: c.seed.Load(), Tenants: []config.Tenant{t}})
	return limiter.ExactKey(&in, 0, n)
}

// ofOverride returns the tenant that overrideName has named.
func ofOverride(name string) (config.Tenant, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return config.Tenant{}, false
	}
	requests, err := strconv.ParseUint(parts[1], 10, 32)
	for _, unit := range ratelimitconfig.Units() {
		if err == nil && name == overrideName(uint32(requests), unit) {
			return tenant(name, uint32(requests), unit), true
		}
	}
	return config.Tenant{}, false
}

// tenantOf is the engine's tenant for a limit of the files.
func tenantOf(l *ratelimitconfig.Limit) string { return "files/" + l.ID }

// tenant has one limit, which counts each of its clients.
func tenant(name string, requests uint32, unit ratelimitconfig.Unit) config.Tenant {
	n := float64(requests)
	return config.Tenant{Name: name, Weight: tenantWeight, Limits: []config.Limit{{
		Name: "rls", Rate: n / unit.Length().Seconds(), Burst: n}}}
}
