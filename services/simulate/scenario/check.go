package scenario

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/store/resource"
)

// Bounds of a scenario. They keep a mistyped number from taking a day or all
// memory.
const (
	MaxDuration = 24 * time.Hour
	MaxReplicas = 1000
	MaxClients  = 100_000
	MaxRate     = resource.MaxRate // cost units/s, requests/s
	maxChanges  = 100_000
)

// FieldError is a value that cannot be simulated.
type FieldError struct {
	Field   string // such as clients[2].tenant
	Message string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// checker collects mistakes.
type checker struct {
	s        *Scenario
	errs     []*FieldError
	replicas map[string]bool // named anywhere
	pools    map[string]bool
	tenants  map[string]*Tenant
	noAgent  map[string]bool // gateways whose agent is lost
}

func (c *checker) wrong(field, format string, args ...any) {
	c.errs = append(c.errs, &FieldError{field, fmt.Sprintf(format, args...)})
}

// number checks that v lies in [least, most]; NaN does not.
func (c *checker) number(field string, v, least, most float64) {
	if !(v >= least && v <= most) {
		c.wrong(field, "want %g to %g, found %g", least, most, v)
	}
}

func (c *checker) span(field string, v, least, most time.Duration) {
	if v < least || v > most {
		c.wrong(field, "want %v to %v, found %v", least, most, v)
	}
}

// fresh checks that a name is there and was not seen.
func (c *checker) fresh(field, name string, taken bool) bool {
	switch {
	case name == "":
		c.wrong(field, "missing; want a name")
	case taken:
		c.wrong(field, "%q is taken; want another name", name)
	default:
		return true
	}
	return false
}

// Check returns all that is wrong with a scenario, nil if it can be simulated.
func (s *Scenario) Check() []*FieldError {
	c := &checker{s: s, replicas: map[string]bool{}, pools: map[string]bool{}, tenants: map[string]*Tenant{},
		noAgent: map[string]bool{}}
	c.times()
	c.network()
	for i := range s.Pools {
		c.pool(i)
	}
	for i := range s.Tenants {
		c.tenant(i)
	}
	if len(s.Tenants) == 0 {
		c.wrong("tenants", "want one at least, found none")
	}
	c.clients()
	c.events()
	if len(c.errs) == 0 {
		c.engine()
	}
	return c.errs
}

func (c *checker) times() {
	s := c.s
	c.span("duration", s.Duration, time.Second, MaxDuration)
	if s.Warmup < 0 || s.Warmup > s.Duration-time.Second {
		c.wrong("warmup", "want 0s to a second less than the duration (%v), found %v", s.Duration-time.Second, s.Warmup)
	}
	c.span("lead", s.Lead, 0, time.Minute)
}

func (c *checker) network() {
	s := c.s
	if n := len(s.Replicas); n < 1 || n > MaxReplicas {
		c.wrong("replicas", "want 1 to %d, found %d", MaxReplicas, n)
	}
	for i, r := range s.Replicas {
		path := fmt.Sprintf("replicas[%d]", i)
		if c.fresh(path+".name", r.Name, c.replicas[r.Name] || r.Name == Coordinator) {
			c.replicas[r.Name] = true
		}
		c.number(path+".weight", r.Weight, 1e-6, 1e6)
	}
	g := &s.Gossip
	c.span("gossip.period", g.Period, 10*time.Millisecond, time.Second)
	c.span("gossip.delay", g.Delay, 0, 10*time.Second)
	c.span("gossip.jitter", g.Jitter, 0, 10*time.Second)
	c.number("gossip.loss", g.Loss, 0, 1)
	c.span("gossip.splitAfter", g.SplitAfter, 10*g.Period, time.Hour)
	if g.ForgetAfter <= g.SplitAfter || g.ForgetAfter > 2*time.Hour {
		c.wrong("gossip.forgetAfter", "want more than splitAfter (%v), at most 2h, found %v", g.SplitAfter,
			g.ForgetAfter)
	}
	c.span("coordinator.round", s.Control.Round, 10*time.Millisecond, 2*time.Second)
	c.span("coordinator.delay", s.Control.Delay, 0, 10*time.Second)
	c.span("coordinator.softExpiry", s.Control.SoftExpiry, 2*s.Control.Round+time.Millisecond, time.Hour)
	c.span("coordinator.settle", s.Control.Settle, 0, time.Minute)
}

func (c *checker) pool(i int) {
	p, path := &c.s.Pools[i], fmt.Sprintf("pools[%d]", i)
	if c.fresh(path+".name", p.Name, c.pools[p.Name]) {
		c.pools[p.Name] = true
	}
	c.number(path+".capacity", p.Capacity, 1e-6, MaxRate)
	if u := p.Upstream; u != (Upstream{}) {
		c.number(path+".adaptive.min", u.Min, 1e-6, MaxRate)
		c.number(path+".adaptive.max", u.Max, u.Min, MaxRate)
		c.number(path+".adaptive.start", u.Start, u.Min, u.Max)
		c.span(path+".adaptive.takes", u.Takes, 0, 10*time.Second)
	}
	if p.Sharing == allocation.Proportional {
		c.number(path+".alpha", p.Alpha, resource.MinAlpha, resource.MaxAlpha)
	}
	c.span(path+".hardExpiry", p.HardExpiry, 0, MaxDuration)
}

func (c *checker) tenant(i int) {
	t, path := &c.s.Tenants[i], fmt.Sprintf("tenants[%d]", i)
	if c.fresh(path+".name", t.Name, c.tenants[t.Name] != nil) {
		c.tenants[t.Name] = t
	}
	c.number(path+".weight", t.Weight, 1e-9, config.MaxWeight)
	seen := map[string]bool{}
	for j := range t.Quotas {
		q, path := &t.Quotas[j], fmt.Sprintf("%s.quotas[%d]", path, j)
		if c.known(path+".pool", q.Pool, c.pools, "pool") && seen[q.Pool] {
			c.wrong(path+".pool", "%q has a quota already", q.Pool)
		}
		seen[q.Pool] = true
		c.number(path+".guaranteed", q.Guaranteed, 0, MaxRate)
		if !(q.Max >= q.Guaranteed) {
			c.wrong(path+".max", "want at least the guaranteed %g, found %g", q.Guaranteed, q.Max)
		}
		if !math.IsNaN(q.Weight) {
			c.number(path+".weight", q.Weight, 0, config.MaxWeight)
		}
	}
	seen = map[string]bool{}
	for j := range t.Limits {
		l, path := &t.Limits[j], fmt.Sprintf("%s.limits[%d]", path, j)
		c.fresh(path+".name", l.Name, seen[l.Name])
		seen[l.Name] = true
		c.number(path+".rate", l.Rate, 0, MaxRate)
		c.number(path+".burst", l.Burst, 0, MaxRate)
		for k, p := range l.Pools {
			c.known(fmt.Sprintf("%s.pools[%d]", path, k), p, c.pools, "pool")
		}
	}
}

// known checks that a name is one of those given.
func (c *checker) known(field, name string, names map[string]bool, what string) bool {
	if names[name] {
		return true
	}
	if name == "" {
		c.wrong(field, "missing; want the name of a %s", what)
	} else {
		c.wrong(field, "no %s has the name %q; known are %s", what, name, list(names))
	}
	return false
}

// list names some of a set, sorted.
func list(names map[string]bool) string {
	const most = 8
	sorted := sortedNames(names)
	more := ""
	if len(sorted) > most {
		sorted, more = sorted[:most], ", …"
	}
	if len(sorted) == 0 {
		return "none"
	}
	return strings.Join(sorted, ", ") + more
}

// engine asks the limiter whether it would take the configuration.
func (c *checker) engine() {
	if err := c.s.Config(1).Validate(); err != nil {
		field := "tenants"
		if fe := new(config.FieldError); errors.As(err, &fe) && strings.HasPrefix(fe.Field, "pools") {
			field = "pools"
		}
		c.wrong(field, "%v", err)
	}
}
