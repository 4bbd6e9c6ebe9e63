package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/titrate/titrate/control/exchange"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
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
	names    map[string]bool // of the resources
	replicas map[string]bool // named anywhere
	pools    map[string]bool
	adaptive map[string]bool // pools
	tenants  map[string]bool
	noAgent  map[string]bool // gateways whose agent is lost
	paused   map[string]bool // gateways whose agent is paused
}

func (c *checker) wrong(field, format string, args ...any) {
	c.errs = append(c.errs, &FieldError{field, fmt.Sprintf(format, args...)})
}

// number checks that v is in [least, most]; NaN is not.
func (c *checker) number(field string, v, least, most float64) {
	if !(v >= least && v <= most) {
		c.wrong(field, "want %s to %s, found %s", wording.Number(least), wording.Number(most), wording.Number(v))
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
	c := &checker{s: s, names: map[string]bool{}, replicas: map[string]bool{}, pools: map[string]bool{},
		adaptive: map[string]bool{}, tenants: map[string]bool{}, noAgent: map[string]bool{}, paused: map[string]bool{}}
	c.times()
	c.network()
	c.resources()
	c.upstreams()
	c.clients()
	c.events()
	if len(c.errs) == 0 {
		c.configuration()
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
	c.sites()
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
	c.span("gossip.exactWithin", g.ExactWithin, 0, exchange.MaxExactWithin)
	for _, d := range []struct {
		field string
		delay Delay
	}{{"link", s.Link}, {"late.gateways", s.Late.Gateways}, {"late.agents", s.Late.Agents}} {
		c.span(d.field+".delay", d.delay.Delay, 0, time.Second)
		c.span(d.field+".jitter", d.delay.Jitter, 0, time.Second)
	}
	c.span("coordinator.round", s.Control.Round, 10*time.Millisecond, 2*time.Second)
	c.span("coordinator.delay", s.Control.Delay, 0, 10*time.Second)
	c.span("coordinator.softExpiry", s.Control.SoftExpiry, 2*s.Control.Round+time.Millisecond, time.Hour)
	c.span("coordinator.settle", s.Control.Settle, 0, time.Minute)
}

// sites checks that each replica of a site is there, and belongs to no other site.
func (c *checker) sites() {
	names, of := map[string]bool{}, map[string]bool{}
	for i, s := range c.s.Sites {
		path := fmt.Sprintf("sites[%d]", i)
		if c.fresh(path+".name", s.Name, names[s.Name]) {
			names[s.Name] = true
		}
		c.span(path+".delay", s.Delay, 0, 10*time.Second)
		c.span(path+".jitter", s.Jitter, 0, 10*time.Second)
		c.number(path+".loss", s.Loss, 0, 1)
		for j, r := range s.Replicas {
			switch field := fmt.Sprintf("%s.replicas[%d]", path, j); {
			case !c.replicas[r] && !c.joins(r):
				c.wrong(field, "%q is no replica; want one of replicas", r)
			case of[r]:
				c.wrong(field, "%q is of another site, too; want one site", r)
			}
			of[r] = true
		}
	}
}

// joins reports whether a replica comes later.
func (c *checker) joins(name string) bool {
	return slices.ContainsFunc(c.s.Events, func(e Event) bool { return e.Kind == Join && e.Replica == name })
}

// resources checks each resource as the API does, and that all resources that it refers to exist.
func (c *checker) resources() {
	for _, m := range c.s.Resources {
		c.names[m.GetName()] = true
	}
	seen := map[string]bool{}
	for i, m := range c.s.Resources {
		path := fmt.Sprintf("resources[%d]", i)
		if c.fresh(path+".name", m.GetName(), seen[m.GetName()]) {
			seen[m.GetName()] = true
		}
		c.resource(path, m)
		switch name := short(m); resource.KindOf(m) {
		case resource.Pool:
			c.pools[name] = true
		case resource.Tenant:
			c.tenants[name] = true
		}
	}
	if len(c.tenants) == 0 {
		c.wrong("resources", "want one Tenant at least, found none")
	}
}

func (c *checker) resource(path string, m resource.Message) {
	if invalid := new(valid.Error); errors.As(valid.Resource(m), &invalid) {
		for _, v := range invalid.Violations {
			c.wrong(path+"."+v.Field, "%s", v.Message)
		}
		return
	}
	for _, r := range resource.References(m) {
		if !c.names[r.Name] {
			c.wrong(path+"."+r.Field, "it needs %s, of which there is no document", r.Name)
		}
	}
	if q, ok := m.(*quotav1.Quota); ok && q.GetMode() == quotav1.Mode_OFF {
		c.wrong(path+".mode", "a quota that is OFF is not played; want ENFORCE or SHADOW")
	}
}

// upstreams checks the upstreams of adaptive pools.
func (c *checker) upstreams() {
	for _, m := range c.s.Resources {
		if p, ok := m.(*quotav1.Pool); ok && p.GetAdaptive() != nil {
			c.adaptive[short(p)] = true
		}
	}
	seen := map[string]bool{}
	for i, u := range c.s.Upstreams {
		path := fmt.Sprintf("upstreams[%d]", i)
		if c.known(path+".pool", u.Pool, c.adaptive, "adaptive pool") {
			c.fresh(path+".pool", u.Pool, seen[u.Pool])
		}
		seen[u.Pool] = true
		c.number(path+".capacity", u.Capacity, 1e-6, MaxRate)
		c.span(path+".takes", u.Takes, 0, 10*time.Second)
	}
}

// known checks that a name is one of the given names.
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

// configuration checks that the resources compile together, also after each event.
func (c *checker) configuration() {
	resources := c.s.Resources
	if _, err := compiled(resources, 1, 1); err != nil {
		c.wrong("resources", "%v", err)
		return
	}
	for _, i := range c.s.Order() {
		if e := &c.s.Events[i]; e.Kind == Apply {
			resources = applied(resources, e.Resource)
			if _, err := compiled(resources, 1, 1); err != nil {
				c.wrong(fmt.Sprintf("events[%d].apply", i), "%v", err)
			}
		}
	}
}
