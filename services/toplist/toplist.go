// Package toplist sums the outcomes of requests by tenant, pool, limit, client, gateway or site, and picks the names
// with the most. An agent does that for its gateways, and the coordinator for all agents; so an agent sends few rows,
// however many it has.
//
// # Invariants
//
// The rows of an answer and its other row together are all that was summed. A name that is among the first of the fleet
// but not of some agent is counted too low: by at most what the last row of that agent has.
package toplist

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Share is the limit of rows that say what the share of a pool did.
const Share = "tenant-share"

// Sum sums activity by name.
type Sum map[Name]*quotav1.Activity

// Name names the activity of a sum; the sum is over each field that is "".
type Name struct{ Tenant, Pool, Limit, Client, Gateway, Site string }

// Add adds activity under the names that it has.
func (s Sum) Add(m *quotav1.Activity) {
	of := Name{m.Tenant, m.Pool, m.Limit, m.Client, m.Gateway, m.Site}
	s[of] = Plus(s[of], m)
}

// Copy returns a copy of m's own.
func Copy(m *quotav1.Activity) *quotav1.Activity { return proto.CloneOf(m) }

// Plus is the sum of two, under the names of the first. It has no parts if one of the two has requests without parts:
// parts of some of the requests would be taken for those of all.
func Plus(a, b *quotav1.Activity) *quotav1.Activity {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	if lacksParts(a) || lacksParts(b) {
		a.AdmittedParts, a.RefusedParts, a.NewestPart = nil, nil, nil
	} else {
		a.AdmittedParts, a.RefusedParts = plus(a.AdmittedParts, b.AdmittedParts), plus(a.RefusedParts, b.RefusedParts)
		a.NewestPart = longer(a.NewestPart, b.NewestPart)
	}
	a.Admitted += b.Admitted
	a.Waited += b.Waited
	a.Marked += b.Marked
	a.Shadowed += b.Shadowed
	a.Refused += b.Refused
	a.ClientLimit += b.ClientLimit
	a.TenantShare += b.TenantShare
	a.QueueFull += b.QueueFull
	a.QueueTimeout += b.QueueTimeout
	a.LimitWaited += b.LimitWaited
	a.LimitShadowed += b.LimitShadowed
	a.OwnerWaited += b.OwnerWaited
	a.OwnerWaitedSeconds += b.OwnerWaitedSeconds
	a.OwnerSilent += b.OwnerSilent
	a.OwnerUnasked += b.OwnerUnasked
	a.WaitedSeconds += b.WaitedSeconds
	a.Error += b.Error
	a.Window, a.Since = longer(a.Window, b.Window), longer(a.Since, b.Since)
	return a
}

// lacksParts reports whether there are requests of which the parts are not known.
func lacksParts(m *quotav1.Activity) bool {
	return m.Admitted+m.Refused > 0 && (len(m.AdmittedParts) == 0 || len(m.RefusedParts) == 0)
}

// plus adds numbers of parts of time, of which the newest are last. Agents do not begin their parts at the same moment,
// so a part of the sum has some of its neighbour.
func plus(a, b []uint64) []uint64 {
	if more := len(b) - len(a); more > 0 {
		a = append(make([]uint64, more, len(b)), a...)
	}
	for i, n := range b {
		a[len(a)-len(b)+i] += n
	}
	return a
}

// part is the time of one of Activity's parts.
const part = 10 * time.Second

// Recent returns the requests that were admitted and refused in the last ten to twenty seconds, and the length of that
// time; 0 if parts are not known.
func Recent(m *quotav1.Activity) (admitted, refused uint64, window time.Duration) {
	n := min(2, len(m.GetAdmittedParts()))
	if n == 0 || len(m.GetRefusedParts()) < n {
		return 0, 0, 0
	}
	for i := 1; i <= n; i++ {
		admitted += m.AdmittedParts[len(m.AdmittedParts)-i]
		refused += m.RefusedParts[len(m.RefusedParts)-i]
	}
	return admitted, refused, min(m.GetNewestPart().AsDuration()+time.Duration(n-1)*part, m.GetWindow().AsDuration())
}

func longer(a, b *durationpb.Duration) *durationpb.Duration {
	if a == nil || b != nil && b.AsDuration() > a.AsDuration() {
		return b
	}
	return a
}

// DefaultMost is the number of rows that are sent unless the selection has another one.
const DefaultMost = 20

// Most returns the first rows in the selection's order, and the sum of the others, nil if there are none.
func (s Sum) Most(of *quotav1.Selection) (rows []*quotav1.Activity, other *quotav1.Activity) {
	rows = make([]*quotav1.Activity, 0, len(s))
	for _, m := range s {
		rows = append(rows, m)
	}
	slices.SortFunc(rows, func(a, b *quotav1.Activity) int { return compare(a, b, of.GetOrder()) })
	most := min(len(rows), cmp.Or(int(of.GetMost()), DefaultMost))
	for _, m := range rows[most:] {
		if other == nil {
			other = &quotav1.Activity{}
		}
		Plus(other, m)
	}
	return rows[:most], other
}

// compare puts the row first that has more of what the order names, then the one of which more
// was limited or admitted, then that of the first name.
func compare(a, b *quotav1.Activity, order quotav1.Selection_Order) int {
	key := func(m *quotav1.Activity) uint64 {
		switch order {
		case quotav1.Selection_ADMITTED:
			return m.Admitted
		case quotav1.Selection_WAITED:
			return m.Waited + uint64(m.WaitedSeconds)
		case quotav1.Selection_SHADOWED:
			return m.Shadowed
		case quotav1.Selection_MARKED:
			return m.Marked
		}
		return m.Refused
	}
	return cmp.Or(cmp.Compare(key(b), key(a)), cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Shadowed, a.Shadowed),
		cmp.Compare(b.Waited, a.Waited), cmp.Compare(b.WaitedSeconds, a.WaitedSeconds),
		cmp.Compare(b.Admitted, a.Admitted),
		cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Limit, b.Limit),
		cmp.Compare(a.Client, b.Client), cmp.Compare(a.Gateway, b.Gateway), cmp.Compare(a.Site, b.Site))
}

// OfShare leaves of a flow's row what its share of the pool did.
func OfShare(m *quotav1.Activity) {
	m.Limit = Share
	if m.ClientLimit > 0 { // which parts of it limits have, is not known
		m.AdmittedParts, m.RefusedParts, m.NewestPart = nil, nil, nil
	}
	m.Refused, m.ClientLimit = m.Refused-m.ClientLimit, 0
	m.Waited, m.LimitWaited = m.Waited-m.LimitWaited, 0
	m.Shadowed, m.LimitShadowed = m.Shadowed-m.LimitShadowed, 0
}
