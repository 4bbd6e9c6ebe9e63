package compile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/envoy-filter/uplink/convert"
	"github.com/titrate/titrate/proto/link"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
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
// the key hashes, the same in all agents of a mesh. What of a tenant is not valid is
// left out and returned, with a reason that names the field; the rest is in the
// configuration. An error, of a pool or of the configuration's size, refuses all.
func (b *Book) Config(revision int64, seed uint64) (*link.Config, []link.RefusedLimit, error) {
	c := compiler{tenants: map[string]*link.Tenant{}, pools: map[string]bool{}}
	c.tenant(Unknown)
	resources := b.Resources()
	for _, r := range resources { // pools first: the others refer to them
		if p := r.GetPool(); p != nil {
			if err := c.addPool(p); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, r := range resources {
		if err := c.add(r); err != nil {
			c.leave(r, err)
		}
	}
	config := c.config(revision, seed)
	left, err := leaveOut(config)
	if err != nil {
		return nil, nil, err
	}
	return config, append(c.left, left...), config.Fits()
}

type compiler struct {
	pools   map[string]bool
	out     []link.Pool
	tenants map[string]*link.Tenant
	left    []link.RefusedLimit
}

// leave notes a resource that is left out.
func (c *compiler) leave(r *quotav1.Resource, why error) {
	l := link.RefusedLimit{Reason: why.Error()}
	if ref, err := resource.Parse(Name(r)); err == nil {
		switch ref.Kind {
		case resource.Tenant:
			l.Tenant = ref.ID
		case resource.Quota:
			l.Tenant, l.Limit = ref.Tenant, "quotas/"+ref.ID
		case resource.Limit:
			l.Tenant, l.Limit = ref.Tenant, ref.ID
		}
	}
	c.left = append(c.left, l)
}

func (c *compiler) add(r *quotav1.Resource) error {
	switch k := r.GetKind().(type) {
	case *quotav1.Resource_Pool:
		return nil
	case *quotav1.Resource_Tenant:
		return c.addTenant(k.Tenant)
	case *quotav1.Resource_Quota:
		if err := known(k.Quota.ProtoReflect()); err != nil {
			return err
		}
		return c.addQuota(k.Quota)
	case *quotav1.Resource_Limit:
		if err := known(k.Limit.ProtoReflect()); err != nil {
			return err
		}
		return c.addLimit(k.Limit)
	}
	return errors.New("a resource of a kind that this build does not know: upgrade the agent")
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

// config puts together what was added; the limits of "-" are the defaults.
func (c *compiler) config(revision int64, seed uint64) *link.Config {
	out := &link.Config{Revision: revision, Seed: seed, Pools: c.out}
	for _, name := range slices.Sorted(maps.Keys(c.tenants)) {
		t := *c.tenants[name]
		slices.SortFunc(t.Limits, func(a, b link.Limit) int { return cmp.Compare(a.Name, b.Name) })
		if name == Unknown {
			out.Defaults, t.Limits = t.Limits, nil
		}
		out.Tenants = append(out.Tenants, t)
	}
	return out
}

// leaveOut takes out of the configuration what the limiter would not take, and
// returns it: by the very check that the gateways make, so that an older gateway,
// which would refuse everything, sees none of it.
func leaveOut(c *link.Config) ([]link.RefusedLimit, error) {
	checked, _, err := convert.Config(c) // its names are this build's, all known
	if err != nil {
		return nil, err
	}
	var left []link.RefusedLimit
	gone := map[string]map[string]bool{} // by tenant, by limit
	for _, l := range checked.LeaveOut() {
		left = append(left, link.RefusedLimit{Tenant: l.Tenant, Limit: l.Limit, Reason: l.Why.Error()})
		if gone[l.Tenant] == nil {
			gone[l.Tenant] = map[string]bool{}
		}
		gone[l.Tenant][l.Limit] = true
	}
	if len(left) > 0 {
		remove(c, gone)
	}
	return left, checked.Validate()
}

func remove(c *link.Config, gone map[string]map[string]bool) {
	limits := func(tenant string, list []link.Limit) []link.Limit {
		return slices.DeleteFunc(list, func(l link.Limit) bool { return gone[tenant][l.Name] })
	}
	c.Defaults = limits(Unknown, c.Defaults)
	c.Tenants = slices.DeleteFunc(c.Tenants, func(t link.Tenant) bool { return gone[t.Name][""] })
	for i := range c.Tenants {
		t := &c.Tenants[i]
		t.Limits = limits(t.Name, t.Limits)
		t.Quotas = slices.DeleteFunc(t.Quotas, func(q link.Quota) bool { return gone[t.Name]["quotas/"+q.Pool] })
	}
}
