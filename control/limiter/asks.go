package limiter

import (
	"slices"

	"github.com/titrate/titrate/control/config"
)

// asks counts the limits that ask something of requests.
type asks struct {
	names      int // limits with an identity, a class or a cost
	identities [MaxIdentities]int
	classes    [MaxClasses]int
}

// count adds the limits of a tenant (step 1), or takes them away (−1). A limit that is off
// asks nothing, but its names count: they may get an index.
func (a *asks) count(limits []*limit, step int) {
	for _, l := range limits {
		if l.identity != 0 || l.planAt != 0 || l.rateAt != 0 || l.classes != every || l.cost != plainCost {
			a.names += step
		}
		if l.mode == config.Off {
			continue
		}
		for _, at := range [...]uint8{l.identity, l.planAt, l.rateAt} {
			if at != 0 && at != unnamed {
				a.identities[at-1] += step
			}
		}
		for i := range a.classes {
			if l.classes>>i&1 != 0 {
				a.classes[i] += step
			}
		}
	}
}

// wanted returns the identities and classes that requests need to have.
func (a *asks) wanted() (w Wanted) {
	for i, n := range a.identities {
		if n > 0 {
			w.Identities |= 1 << i
		}
	}
	for i, n := range a.classes {
		if n > 0 {
			w.Classes |= 1 << i
		}
	}
	return w
}

// countsByName reports whether a pool counts a cost that has a name.
func (s *snapshot) countsByName() bool {
	return slices.ContainsFunc(s.costs, func(c costName) bool { return c != plainCost })
}
