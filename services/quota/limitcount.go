package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// errTooMany: a tenant would have more limits than a gateway accepts.
var errTooMany = errors.New("too many limits")

// fewTenants is the number of tenants up to which limits are read tenant by tenant; with
// more, one pass over all limits is quicker.
const fewTenants = 16

// checkLimitCount refuses changes that give a tenant more than config.MaxLimits limits,
// those of tenants/- that it inherits included. A tenant that has more already may change
// them. Two changes at the same time may pass together: the gateways then leave out the
// limits beyond the number.
func (s *Server) checkLimitCount(ctx context.Context, changes []store.Change) (store.ChangeErrors, error) {
	added := map[string][]int{} // the limits put, by tenant
	for i, c := range changes {
		if c.Resource == nil {
			continue
		}
		if ref, err := resource.Parse(c.Resource.GetName()); err == nil && ref.Kind == resource.Limit {
			added[ref.Tenant] = append(added[ref.Tenant], i)
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	stored, err := s.limitNames(ctx, added)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if ref, err := resource.Parse(c.Name); c.Op == store.Delete && err == nil && ref.Kind == resource.Limit {
			delete(stored[ref.Tenant], ref.ID)
		}
	}
	more := map[string][]int{} // the new limits, by tenant
	for tenant, indexes := range added {
		if stored[tenant] == nil {
			stored[tenant] = map[string]bool{}
		}
		for _, i := range indexes {
			if ref, _ := resource.Parse(changes[i].Resource.GetName()); !stored[tenant][ref.ID] {
				stored[tenant][ref.ID] = true
				more[tenant] = append(more[tenant], i)
			}
		}
	}
	return tooManyLimits(stored, more, changes), nil
}

// tooManyLimits returns an error for each new limit by which a tenant has more than it may have: the last of its
// limits, then the last of tenants/-.
func tooManyLimits(limits map[string]map[string]bool, more map[string][]int,
	changes []store.Change) (all store.ChangeErrors) {
	refused, shared := map[int]bool{}, more[resource.AnyTenant]
	for _, tenant := range slices.Sorted(maps.Keys(limits)) {
		fresh := more[tenant]
		if tenant != resource.AnyTenant {
			fresh = slices.Concat(shared, fresh)
		}
		total := len(limits[tenant])
		for name := range limits[resource.AnyTenant] {
			if !limits[tenant][name] {
				total++
			}
		}
		excess := fresh[max(0, len(fresh)-max(0, total-config.MaxLimits)):]
		for _, i := range excess {
			if refused[i] {
				continue
			}
			refused[i] = true
			all = append(all, &store.ChangeError{Index: i, Name: changes[i].Resource.GetName(), Err: fmt.Errorf(
				"%w: tenants/%s would have %d, those of tenants/- included, and a gateway takes %d", errTooMany, tenant,
				total, config.MaxLimits)})
		}
	}
	return all
}

// limitNames returns the IDs of the stored limits by tenant: of tenants/- and the
// given ones, or of all where that is needed.
func (s *Server) limitNames(ctx context.Context, of map[string][]int) (map[string]map[string]bool, error) {
	found := map[string]map[string]bool{}
	_, all := of[resource.AnyTenant]
	if all || len(of) > fewTenants {
		return found, s.addLimits(ctx, "", found)
	}
	for tenant := range of {
		if err := s.addLimits(ctx, "tenants/"+tenant, found); err != nil {
			return nil, err
		}
	}
	return found, s.addLimits(ctx, "tenants/"+resource.AnyTenant, found)
}

// addLimits adds the limits of a tenant, or of all when parent is "".
func (s *Server) addLimits(ctx context.Context, parent string, to map[string]map[string]bool) error {
	return s.store.Names(ctx, resource.Limit, parent, func(ref resource.Ref) {
		if to[ref.Tenant] == nil {
			to[ref.Tenant] = map[string]bool{}
		}
		to[ref.Tenant][ref.ID] = true
	})
}
