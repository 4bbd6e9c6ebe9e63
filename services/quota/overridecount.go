package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// Bounds of overrides that are resources. What is stored fits into one configuration of a gateway (link.MaxMessage).
const (
	// maxOverrides is the most of one limit, and of one tenant.
	maxOverrides = 1_000_000
	// allOverrides is the most of an installation.
	allOverrides = 1_500_000
)

var errManyOverrides = errors.New("too many overrides")

// checkOverrideCount refuses changes after which a limit, a tenant or the installation has more overrides than it may
// have. Replaced ones count twice, so that near a bound a change of many may have to be cut. Two changes at the same
// time may pass together.
func (s *Server) checkOverrideCount(ctx context.Context, changes []store.Change) store.ChangeErrors {
	if s.live == nil {
		return nil
	}
	fresh, last := map[string]int{}, map[string]int{} // by parent, "" being all
	for i, c := range changes {
		if _, is := c.Resource.(*quotav1.Override); !is || c.Op == store.Delete {
			continue
		}
		for _, of := range resource.ParentsOf(c.Resource.GetName()) {
			fresh[of]++
			last[of] = i
		}
	}
	for _, of := range slices.Backward(slices.Sorted(maps.Keys(fresh))) { // the limit first
		n := fresh[of]
		most, whose := maxOverrides, of
		if of == "" {
			most, whose = allOverrides, "all tenants together"
		}
		stored := s.live.Overrides(of)
		if n == 1 && stored == most { // it may replace one
			if _, err := s.store.Get(ctx, changes[last[of]].Resource.GetName()); err == nil {
				continue
			}
		}
		if stored+n > most {
			i := last[of]
			return store.ChangeErrors{{Index: i, Name: changes[i].Resource.GetName(), Err: fmt.Errorf(
				"%w: %s has %d, and with these it would be %d; at most %d are possible", errManyOverrides, whose,
				stored, stored+n, most)}}
		}
	}
	return nil
}
