package compile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// compilePool compiles a pool. The error names it and the field.
func compilePool(p *quotav1.Pool) (config.Pool, error) {
	out, err := resource.PoolConfig(p)
	if err != nil {
		err = fmt.Errorf("%s: %w", p.GetName(), err)
	}
	return out, err
}

// compileOwner compiles the resources of a tenant or a plan, where these are the names of the pools and the plans.
// What is not valid is left out and returned. The tenant is nil if nothing makes one: a quota
// or a limit without a resource for its tenant makes one of the default weight.
func compileOwner(owner string, g group, pools, plans map[string]bool) (*config.Tenant, []config.LeftOut) {
	c := compiler{owner: owner, pools: pools, plans: plans}
	if owner == config.DefaultTenant {
		c.tenant()
	}
	for _, r := range g {
		if err := c.add(r); err != nil {
			c.leaveOut(r, err)
		}
	}
	if c.out != nil {
		slices.SortFunc(c.out.Limits, func(a, b config.Limit) int { return cmp.Compare(a.Name, b.Name) })
	}
	return c.out, c.left
}

type compiler struct {
	owner        string
	pools, plans map[string]bool
	out          *config.Tenant
	left         []config.LeftOut
}

// leaveOut notes a resource that is left out.
func (c *compiler) leaveOut(r *quotav1.Resource, why error) {
	l := config.LeftOut{Tenant: c.owner, Reason: why.Error()}
	if ref, err := resource.Parse(resource.Name(r)); err == nil {
		switch ref.Kind {
		case resource.Quota:
			l.Limit = "quotas/" + ref.ID
		case resource.Limit:
			l.Limit = ref.ID
		}
	}
	c.left = append(c.left, l)
}

// add adds a resource that is no pool. The error names the resource and the field.
func (c *compiler) add(r *quotav1.Resource) (err error) {
	switch k := r.GetKind().(type) {
	case *quotav1.Resource_Plan:
		err = c.addPlan(k.Plan)
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

// tenant returns the tenant or the plan, made with the default weight if it is new.
func (c *compiler) tenant() *config.Tenant {
	if c.out == nil {
		c.out = &config.Tenant{Name: c.owner[strings.LastIndexByte(c.owner, '/')+1:], Weight: config.DefaultWeight}
	}
	return c.out
}

func (c *compiler) addPlan(p *quotav1.Plan) error {
	out, err := resource.PlanConfig(p)
	if err != nil {
		return err
	}
	c.tenant().Weight = out.Weight
	return nil
}

func (c *compiler) addTenant(t *quotav1.Tenant) error {
	out, err := resource.TenantConfig(t)
	if err != nil {
		return err
	}
	c.tenant().Resets = out.Resets
	if t := c.tenant(); out.Plan == "" || c.plans[out.Plan] {
		t.Weight, t.Plan = out.Weight, out.Plan
		return nil
	}
	return &config.FieldError{Field: "plan", Value: out.Plan, Want: "a plan that this agent knows"}
}

func (c *compiler) addQuota(q *quotav1.Quota) error {
	if err := known(q.ProtoReflect()); err != nil {
		return err
	}
	out, err := resource.QuotaConfig(q)
	if err != nil || !c.pools[out.Pool] { // its pool was deleted first, or comes later
		return err
	}
	t := c.tenant()
	t.Quotas = append(t.Quotas, out)
	return nil
}

func (c *compiler) addLimit(l *quotav1.Limit) error {
	if err := known(l.ProtoReflect()); err != nil {
		return err
	}
	out, err := resource.LimitConfig(l)
	if err != nil {
		return err
	}
	t := c.tenant()
	t.Limits = append(t.Limits, out)
	return nil
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
