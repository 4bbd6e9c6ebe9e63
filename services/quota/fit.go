package quota

import (
	"context"
	"errors"
	"fmt"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// errTooMany is a tenant with more limits than a gateway takes.
var errTooMany = errors.New("too many limits")

// fewTenants is up to how many tenants' limits are read one by one; beyond it one
// pass over all is quicker.
const fewTenants = 16

// fit refuses changes that give a tenant more limits than config.MaxLimits, those of
// tenants/- that it inherits included. What is stored with more already may change.
// Of two changes at once both may pass: the gateways then leave out what is too much.
func (s *Server) fit(ctx context.Context, changes []store.Change) error {
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
		return nil
	}
	stored, err := s.limitNames(ctx, added)
	if err != nil {
		return err
	}
	more := map[string]int{} // the last new limit, by tenant
	for tenant, indexes := range added {
		if stored[tenant] == nil {
			stored[tenant] = map[string]bool{}
		}
		for _, i := range indexes {
			if ref, _ := resource.Parse(changes[i].Resource.GetName()); !stored[tenant][ref.ID] {
				stored[tenant][ref.ID] = true
				more[tenant] = i
			}
		}
	}
	return crowded(stored, more, changes)
}

// crowded returns an error for a tenant that has got more limits than it may have.
func crowded(limits map[string]map[string]bool, more map[string]int, changes []store.Change) error {
	defaults := limits[resource.AnyTenant]
	byDefault, shared := more[resource.AnyTenant]
	for tenant, own := range limits {
		last, grew := more[tenant]
		if !grew && !shared {
			continue
		}
		if !grew {
			last = byDefault
		}
		total := len(defaults)
		for name := range own {
			if !defaults[name] {
				total++
			}
		}
		if total > config.MaxLimits {
			return &store.ChangeError{Index: last, Name: changes[last].Resource.GetName(), Err: fmt.Errorf(
				"%w: tenants/%s would have %d, those of tenants/- included, and a gateway takes %d", errTooMany, tenant, total, config.MaxLimits)}
		}
	}
	return nil
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
	q := store.Query{Kind: resource.Limit, Parent: parent, Limit: maxPage}
	for {
		page, next, err := s.store.List(ctx, q)
		if err != nil {
			return err
		}
		for _, m := range page {
			if ref, err := resource.Parse(m.GetName()); err == nil {
				if to[ref.Tenant] == nil {
					to[ref.Tenant] = map[string]bool{}
				}
				to[ref.Tenant][ref.ID] = true
			}
		}
		if next == "" {
			return nil
		}
		q.After = next
	}
}
