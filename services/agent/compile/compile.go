package compile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/proto/link"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Config compiles the book. revision and seed are passed on: seed is the key of
// the key hashes, the same in all agents of a mesh. What of a tenant is not valid is
// left out and returned, with a reason that names the field; the rest is in the
// configuration. An error, of a pool or of the configuration's size, refuses all.
func (b *Book) Config(revision int64, seed uint64) (*config.Config, []config.LeftOut, error) {
	c := compiler{tenants: map[string]*config.Tenant{}, pools: map[string]bool{}}
	c.tenant(config.DefaultTenant)
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
			c.leaveOut(r, err)
		}
	}
	out := c.config(revision, seed)
	// Each part is valid by itself. An older gateway, which refuses a configuration that
	// is not valid as a whole, must see none of what is too much together.
	c.left = append(c.left, out.LeaveOut()...)
	if err := out.Validate(); err != nil {
		return nil, nil, err
	}
	return out, c.left, link.Fits(out)
}

type compiler struct {
	pools   map[string]bool
	out     []config.Pool
	tenants map[string]*config.Tenant
	left    []config.LeftOut
}

// leaveOut notes a resource that is left out.
func (c *compiler) leaveOut(r *quotav1.Resource, why error) {
	l := config.LeftOut{Reason: why.Error()}
	if ref, err := resource.Parse(resource.Name(r)); err == nil {
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

// add adds a resource that is no pool. The error names the resource and the field.
func (c *compiler) add(r *quotav1.Resource) (err error) {
	switch k := r.GetKind().(type) {
	case *quotav1.Resource_Pool:
		return nil
	case *quotav1.Resource_Tenant:
		err = c.addTenant(k.Tenant)
	case *quotav1.Resource_Quota:
		err = c.addQuota(k.Quota)
	case *quotav1.Resource_Limit:
		err = c.addLimit(k.Limit)
	default:
		return errors.New("a resource of a kind that this build does not know: upgrade the agent")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", resource.Name(r), err)
	}
	return nil
}

// tenant returns the tenant of that name, made with the default weight if it is new.
func (c *compiler) tenant(name string) *config.Tenant {
	t := c.tenants[name]
	if t == nil {
		t = &config.Tenant{Name: name, Weight: config.DefaultWeight}
		c.tenants[name] = t
	}
	return t
}

func (c *compiler) addPool(p *quotav1.Pool) error {
	out, err := resource.PoolConfig(p)
	if err != nil {
		return fmt.Errorf("%s: %w", p.GetName(), err)
	}
	c.pools[out.Name] = true
	c.out = append(c.out, out)
	return nil
}

func (c *compiler) addTenant(t *quotav1.Tenant) error {
	out, err := resource.TenantConfig(t)
	if err != nil {
		return err
	}
	c.tenant(out.Name).Weight = out.Weight
	return nil
}

func (c *compiler) addQuota(q *quotav1.Quota) error {
	if err := known(q.ProtoReflect()); err != nil {
		return err
	}
	out, err := resource.QuotaConfig(q)
	if err != nil || !c.pools[out.Pool] { // its pool was deleted first, or comes later
		return err
	}
	ref, err := resource.Parse(q.GetName())
	t := c.tenant(ref.Tenant)
	t.Quotas = append(t.Quotas, out)
	return err
}

func (c *compiler) addLimit(l *quotav1.Limit) error {
	if err := known(l.ProtoReflect()); err != nil {
		return err
	}
	out, err := resource.LimitConfig(l)
	if err != nil {
		return err
	}
	ref, err := resource.Parse(l.GetName())
	t := c.tenant(ref.Tenant)
	t.Limits = append(t.Limits, out)
	return err
}

// config puts together what was added; the limits of DefaultTenant are the defaults.
func (c *compiler) config(revision int64, seed uint64) *config.Config {
	out := &config.Config{Revision: revision, Seed: seed, Pools: c.out}
	for _, name := range slices.Sorted(maps.Keys(c.tenants)) {
		t := *c.tenants[name]
		slices.SortFunc(t.Limits, func(a, b config.Limit) int { return cmp.Compare(a.Name, b.Name) })
		if name == config.DefaultTenant {
			out.Defaults, t.Limits = t.Limits, nil
		}
		out.Tenants = append(out.Tenants, t)
	}
	return out
}

// known refuses a message with a field that this build does not know, itself or
// within: what it means is not known, so it must not be enforced without it.
func known(m protoreflect.Message) (err error) {
	if b := m.GetUnknown(); len(b) > 0 {
		number, _, _ := protowire.ConsumeTag(b)
		return fmt.Errorf("%s: field %d is not known to this build: upgrade the agent", m.Descriptor().Name(), number)
	}
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Message() == nil:
		case d.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = known(v.List().Get(i).Message())
			}
		default:
			err = known(v.Message())
		}
		return err == nil
	})
	return err
}
