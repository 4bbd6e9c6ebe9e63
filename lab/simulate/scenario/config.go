package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/agent/compile"
	"github.com/titrate/titrate/services/coordinator/allocation"
	coordinator "github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/store/resource"
)

// Configuration are compiled resources, made by the code that agents and the coordinator run. It does not
// change: an event makes a new one, of the next revision.
type Configuration struct {
	Gateways   *config.Config
	Allocation *allocation.Config
	Limits     map[string][]config.Limit // by tenant, including inherited limits
}

// compiled compiles resources with the defaults that the API fills in.
func compiled(resources []resource.Message, revision int64, seed uint64) (*Configuration, error) {
	all := make([]*quotav1.Resource, len(resources))
	byName := make(map[string]*quotav1.Resource, len(resources))
	for i, m := range resources {
		m = proto.Clone(m).(resource.Message)
		resource.FillDefaults(m)
		all[i] = resource.Of(m)
		byName[m.GetName()] = all[i]
	}
	seed = seed*0x9e3779b97f4a7c15 | 1
	book := compile.Book{Seed: seed}
	if _, err := book.Change(all, nil); err != nil {
		return nil, err
	}
	if left := book.LeftOut(); len(left) > 0 {
		return nil, fmt.Errorf("tenants/%s: %s: %s", left[0].Tenant, left[0].Limit, left[0].Reason)
	}
	gateways := book.Config()
	gateways.Revision, gateways.Seed = revision, seed
	c := &Configuration{Gateways: gateways, Allocation: coordinator.Compile(revision, byName, time.Time{}),
		Limits: map[string][]config.Limit{}}
	for _, t := range gateways.Inherited().Tenants {
		c.Limits[t.Name] = t.Limits
	}
	return c, c.addOverrides(all)
}

// addOverrides adds the overrides that are resources to the limits, for the readers of limits.
func (c *Configuration) addOverrides(all []*quotav1.Resource) error {
	for _, r := range all {
		if r.GetOverride() == nil {
			continue
		}
		ref, rb, err := resource.OverrideConfig(r.GetOverride())
		if err != nil {
			return err
		}
		limits := slices.Clone(c.Limits[ref.Tenant])
		i := slices.IndexFunc(limits, func(l config.Limit) bool { return l.Name == ref.Limit })
		if i < 0 {
			return fmt.Errorf("%s: there is no %s", resource.Name(r), ref.Parent())
		}
		limits[i].Overrides = maps.Clone(limits[i].Overrides)
		if limits[i].Overrides == nil {
			limits[i].Overrides = map[string]config.RateBurst{}
		}
		limits[i].Overrides[ref.Client()] = rb
		c.Limits[ref.Tenant] = limits
	}
	return nil
}

// Quota returns the quota in force of a tenant in a pool.
func (c *Configuration) Quota(tenant, pool string) allocation.Quota {
	return c.Allocation.Quota(allocation.Flow{Tenant: tenant, Pool: pool})
}

// Serves returns the rate of a pool's upstream, cost units/s.
func (s *Scenario) Serves(pool allocation.Pool) float64 {
	for i := range s.Upstreams {
		if s.Upstreams[i].Pool == pool.Name {
			return s.Upstreams[i].Capacity
		}
	}
	return pool.Capacity
}

// Clone returns a copy that events may change, with its configuration in force and an upstream for each
// adaptive pool. s must have passed Check.
func (s *Scenario) Clone() *Scenario {
	c := *s
	c.Resources, c.Upstreams = slices.Clone(s.Resources), slices.Clone(s.Upstreams)
	for _, m := range s.Resources {
		p, ok := m.(*quotav1.Pool)
		if !ok || p.GetAdaptive() == nil {
			continue
		}
		name := short(p)
		if !slices.ContainsFunc(s.Upstreams, func(u Upstream) bool { return u.Pool == name }) {
			c.Upstreams = append(c.Upstreams, Upstream{name, p.GetCapacity(), DefaultTakes})
		}
	}
	c.putInForce(1)
	return &c
}

// putInForce compiles the resources again.
func (s *Scenario) putInForce(revision int64) {
	c, err := compiled(s.Resources, revision, s.Seed)
	if err != nil {
		panic("scenario: resources that were checked do not compile: " + err.Error())
	}
	s.InForce = c
}

// Change puts a change of a resource or an upstream in force; false if e is none.
func (s *Scenario) Change(e *Event) bool {
	switch e.Kind {
	case Apply:
		s.Resources = applied(s.Resources, e.Resource)
		s.putInForce(s.InForce.Gateways.Revision + 1)
	case Serve:
		for i := range s.Upstreams {
			if s.Upstreams[i].Pool == e.Pool {
				s.Upstreams[i].Capacity = e.Capacity
			}
		}
	default:
		return false
	}
	return true
}

// applied is a copy of resources with one replaced or added.
func applied(resources []resource.Message, m resource.Message) []resource.Message {
	out := slices.Clone(resources)
	if i := at(out, m.GetName()); i >= 0 {
		out[i] = m
		return out
	}
	return append(out, m)
}

// at is the place of a resource, −1 without it.
func at(resources []resource.Message, name string) int {
	return slices.IndexFunc(resources, func(m resource.Message) bool { return m.GetName() == name })
}

// short is the last part of a resource's name.
func short(m resource.Message) string {
	ref, _ := resource.Parse(m.GetName()) // a name that is wrong is found by Check
	return ref.ID
}
