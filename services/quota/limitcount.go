package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// errTooMany: a tenant would have more limits than a gateway accepts.
var errTooMany = errors.New("too many limits")

// fewTenants is the number of tenants up to which limits are read tenant by tenant; with
// more, one pass over all limits is quicker.
const fewTenants = 16

// checkLimitCount refuses changes that give a tenant or a plan more than config.MaxLimits limits, inherited limits
// included. A tenant inherits from its plan and tenants/-, a plan from tenants/-. A tenant that has more already may
// change them. It does not look at the tenants of a plan that gets new limits, and two changes at the same time may
// pass together. The gateways then leave out the limits beyond the number, and say so.
func (s *Server) checkLimitCount(ctx context.Context, changes []store.Change) (store.ChangeErrors, error) {
	c := limitCount{changes: changes, more: map[string][]int{}, planOf: map[string]string{}}
	added := map[string][]int{} // the limits put, by owner; of a tenant with a plan also its own change
	for i, one := range changes {
		if one.Resource == nil {
			continue
		}
		ref, err := resource.Parse(one.Resource.GetName())
		t, is := one.Resource.(*quotav1.Tenant)
		if is {
			c.planOf[ref.Owner()] = planOf(t)
		}
		if err == nil && (ref.Kind == resource.Limit || is && t.GetPlan() != "") {
			added[ref.Owner()] = append(added[ref.Owner()], i)
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	if err := s.addPlans(ctx, added, c.planOf); err != nil {
		return nil, err
	}
	var err error
	if c.limits, err = s.limitNames(ctx, added, c.planOf); err != nil {
		return nil, err
	}
	c.take(added)
	return c.tooMany(), nil
}

const plans = "plans/"

// planOf is the plan of a tenant, as an owner; "" = none.
func planOf(t *quotav1.Tenant) string {
	if t.GetPlan() == "" {
		return ""
	}
	return plans + t.GetPlan()
}

// limitCount counts the limits that owners would have.
type limitCount struct {
	changes []store.Change
	limits  map[string]map[string]bool // IDs of limits, by owner
	planOf  map[string]string          // by tenant, as an owner
	more    map[string][]int           // changes by which an owner has more limits
}

// take takes the changes in.
func (c *limitCount) take(added map[string][]int) {
	for _, one := range c.changes {
		if one.Op != store.Delete {
			continue
		}
		if ref, err := resource.Parse(one.Name); err == nil && ref.Kind == resource.Limit {
			delete(c.limits[ref.Owner()], ref.ID)
		}
	}
	for owner, indexes := range added {
		if c.limits[owner] == nil {
			c.limits[owner] = map[string]bool{}
		}
		for _, i := range indexes {
			ref, _ := resource.Parse(c.changes[i].Resource.GetName())
			if ref.Kind != resource.Limit || !c.limits[owner][ref.ID] {
				c.more[owner] = append(c.more[owner], i)
			}
			if ref.Kind == resource.Limit {
				c.limits[owner][ref.ID] = true
			}
		}
	}
}

// tooMany returns an error for each change by which an owner has more than it may have: the last of its own, then of
// its plan's, then of tenants/-.
func (c *limitCount) tooMany() (all store.ChangeErrors) {
	refused := map[int]bool{}
	for _, owner := range slices.Sorted(maps.Keys(c.limits)) {
		plan, names := c.planOf[owner], map[string]bool{}
		fresh := slices.Concat(c.more[plan], c.more[owner])
		if owner != resource.AnyTenant {
			fresh = slices.Concat(c.more[resource.AnyTenant], fresh)
		}
		for _, from := range []string{owner, plan, resource.AnyTenant} {
			maps.Copy(names, c.limits[from])
		}
		excess := fresh[max(0, len(fresh)-max(0, len(names)-config.MaxLimits)):]
		for _, i := range excess {
			if refused[i] {
				continue
			}
			refused[i] = true
			who, its := owner, ""
			if !strings.HasPrefix(owner, plans) {
				who = "tenants/" + owner
			}
			if plan != "" {
				its = "its plan and of "
			}
			all = append(all, &store.ChangeError{Index: i, Name: c.changes[i].Resource.GetName(), Err: fmt.Errorf(
				"%w: %s would have %d, those of %stenants/- included, and a gateway takes %d", errTooMany, who,
				len(names), its, config.MaxLimits)})
		}
	}
	return all
}

// addPlans adds the stored plans of tenants of which no change says the plan.
func (s *Server) addPlans(ctx context.Context, of map[string][]int, to map[string]string) error {
	asked, planned := map[string]bool{}, false
	for owner := range of {
		if _, said := to[owner]; !said && owner != resource.AnyTenant && !strings.HasPrefix(owner, plans) {
			asked["tenants/"+owner] = true
		}
	}
	err := s.store.Names(ctx, resource.Plan, "", func(resource.Ref) { planned = true })
	if err != nil || !planned {
		return err
	}
	add := func(m resource.Message) {
		if asked[m.GetName()] {
			to[strings.TrimPrefix(m.GetName(), "tenants/")] = planOf(m.(*quotav1.Tenant))
		}
	}
	if len(asked) > fewTenants {
		all, _, err := s.store.List(ctx, store.Query{Kind: resource.Tenant})
		for _, m := range all {
			add(m)
		}
		return err
	}
	for name := range asked {
		switch m, err := s.store.Get(ctx, name); {
		case err == nil:
			add(m)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
	}
	return nil
}

// limitNames returns the IDs of the stored limits by owner: of tenants/-, the given ones and their plans, or of all
// where that is needed.
func (s *Server) limitNames(ctx context.Context, of map[string][]int, planOf map[string]string) (
	map[string]map[string]bool, error) {
	found := map[string]map[string]bool{}
	_, all := of[resource.AnyTenant]
	if all || len(of) > fewTenants {
		return found, s.addLimits(ctx, "", found)
	}
	parents := map[string]bool{"tenants/" + resource.AnyTenant: true}
	for owner := range of {
		if parents[planOf[owner]] = true; strings.HasPrefix(owner, plans) {
			parents[owner] = true
		} else {
			parents["tenants/"+owner] = true
		}
	}
	delete(parents, "")
	for parent := range parents {
		if err := s.addLimits(ctx, parent, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// addLimits adds the limits of a tenant or a plan, or of all when parent is "".
func (s *Server) addLimits(ctx context.Context, parent string, to map[string]map[string]bool) error {
	return s.store.Names(ctx, resource.Limit, parent, func(ref resource.Ref) {
		if to[ref.Owner()] == nil {
			to[ref.Owner()] = map[string]bool{}
		}
		to[ref.Owner()][ref.ID] = true
	})
}
