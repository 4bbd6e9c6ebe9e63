package compile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/proto/link"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Unknown is the tenant that stands for all tenants without a resource.
const Unknown = "-"

// The queue policy of a pool that says nothing.
const (
	delayTarget = 50 * time.Millisecond
	maxWait     = time.Second
	maxRequests = 1024
)

// Config compiles the book. revision and seed are passed on: seed is the key of
// the key hashes, the same in all agents of a mesh. An error names the resource
// and the field.
func (b *Book) Config(revision int64, seed uint64) (*link.Config, error) {
	c := compiler{tenants: map[string]*link.Tenant{}, pools: map[string]bool{}}
	c.tenant(Unknown)
	resources := b.Resources()
	for _, r := range resources { // pools first: the others refer to them
		if p := r.GetPool(); p != nil {
			if err := c.addPool(p); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range resources {
		if err := c.add(r); err != nil {
			return nil, err
		}
	}
	c.inheritLimits()
	return &link.Config{Revision: revision, Seed: seed, Pools: c.out, Tenants: c.sorted()}, nil
}

type compiler struct {
	pools   map[string]bool
	out     []link.Pool
	tenants map[string]*link.Tenant
}

func (c *compiler) add(r *quotav1.Resource) error {
	switch k := r.GetKind().(type) {
	case *quotav1.Resource_Pool:
		return nil
	case *quotav1.Resource_Tenant:
		return c.addTenant(k.Tenant)
	case *quotav1.Resource_Quota:
		return c.addQuota(k.Quota)
	case *quotav1.Resource_Limit:
		return c.addLimit(k.Limit)
	}
	return fmt.Errorf("a resource of a kind that this build does not know: upgrade the agent")
}

// tenant returns the tenant of that name, made with weight 1 if it is new.
func (c *compiler) tenant(name string) *link.Tenant {
	t := c.tenants[name]
	if t == nil {
		t = &link.Tenant{Name: name, Weight: 1}
		c.tenants[name] = t
	}
	return t
}

func (c *compiler) addPool(p *quotav1.Pool) error {
	id, err := parts(p.GetName(), "pools")
	if err != nil {
		return err
	}
	if !(p.GetCapacity() > 0) || math.IsInf(p.GetCapacity(), 0) {
		return fmt.Errorf("%s: capacity is %v, want a finite number above 0", p.GetName(), p.GetCapacity())
	}
	loss, err := onLoss(p.GetOnLoss())
	if err != nil {
		return fmt.Errorf("%s: %w", p.GetName(), err)
	}
	q, err := queue(p.GetQueue())
	if err != nil {
		return fmt.Errorf("%s: queue: %w", p.GetName(), err)
	}
	c.pools[id[0]] = true
	c.out = append(c.out, link.Pool{
		Name: id[0], Capacity: p.GetCapacity(), Queue: q,
		OnLoss: loss, HardExpiry: p.GetHardExpiry().AsDuration(),
		Adaptive: p.GetAdaptive() != nil,
	})
	return nil
}

func (c *compiler) addTenant(t *quotav1.Tenant) error {
	id, err := parts(t.GetName(), "tenants")
	if err != nil {
		return err
	}
	w := t.GetWeight()
	if w == 0 {
		w = 1
	}
	if !(w > 0) || math.IsInf(w, 0) {
		return fmt.Errorf("%s: weight is %v, want a finite number above 0", t.GetName(), w)
	}
	c.tenant(id[0]).Weight = w
	return nil
}

func (c *compiler) addQuota(q *quotav1.Quota) error {
	id, err := parts(q.GetName(), "tenants", "quotas")
	if err != nil {
		return err
	}
	if !c.pools[id[1]] {
		// Its pool was deleted first, or comes later: it says nothing until then.
		return nil
	}
	m, err := mode(q.GetMode())
	if err != nil {
		return fmt.Errorf("%s: %w", q.GetName(), err)
	}
	top := math.Inf(1)
	if q.Max != nil {
		top = q.GetMax()
	}
	if low := q.GetGuaranteed(); !(low >= 0) || math.IsInf(low, 0) || !(top >= low) {
		return fmt.Errorf("%s: guaranteed is %v and max %v, want 0 <= guaranteed <= max", q.GetName(), low, top)
	}
	t := c.tenant(id[0])
	t.Quotas = append(t.Quotas, link.Quota{Pool: id[1], Guaranteed: q.GetGuaranteed(), Max: top, Mode: m})
	return nil
}

// inheritLimits copies the limits of "-" into each tenant that has none of the
// same name.
func (c *compiler) inheritLimits() {
	defaults := c.tenants[Unknown].Limits
	for name, t := range c.tenants {
		if name == Unknown {
			continue
		}
		for _, l := range defaults {
			own := slices.ContainsFunc(t.Limits, func(o link.Limit) bool { return o.Name == l.Name })
			if !own {
				t.Limits = append(t.Limits, l)
			}
		}
		slices.SortFunc(t.Limits, func(a, b link.Limit) int { return cmp.Compare(a.Name, b.Name) })
	}
}

func (c *compiler) sorted() []link.Tenant {
	out := make([]link.Tenant, 0, len(c.tenants))
	for _, name := range slices.Sorted(maps.Keys(c.tenants)) {
		out = append(out, *c.tenants[name])
	}
	return out
}
