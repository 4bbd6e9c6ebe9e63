package tokens

import (
	"cmp"
	"slices"
	"time"

	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/services/agent/owners"
)

// Book is a key as its owner has it, in cost units.
type Book struct {
	Free float64 // may be granted; negative: a debt
	Out  float64 // granted and not spent
	Uses []Use   // in the order of their agents
}

// Use is one process's.
type Use struct {
	owners.Process
	grant.Use
}

// Look returns the book of a key that this agent owns. O(gateways that use the key).
func (d *Desk) Look(now time.Duration, key uint64) (b Book, ok bool) {
	k := d.owned[key]
	if k == nil || k.away || k.name.Tenant == "" {
		return b, false
	}
	b.Free = float64(k.params.Burst-k.o.Level(int64(now))) / grant.Token
	b.Out = float64(k.o.Out()) / grant.Token
	k.o.Uses(func(u grant.Use) {
		if c := d.numbers[u.Peer]; c != nil {
			b.Uses = append(b.Uses, Use{c.Process, u})
		}
	})
	slices.SortFunc(b.Uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Number, b.Number))
	})
	return b, true
}

// Plus returns the counters of two desks together; Divided is of the first one.
func (s Stats) Plus(o Stats) Stats {
	s.Keys, s.Asked, s.Requests = s.Keys+o.Keys, s.Asked+o.Asked, s.Requests+o.Requests
	s.Grants, s.Recalls, s.Calls = s.Grants+o.Grants, s.Recalls+o.Recalls, s.Calls+o.Calls
	for why, n := range o.Dropped {
		s.Dropped[why] += n
	}
	return s
}

// Stats returns the counters.
func (d *Desk) Stats() Stats {
	s := d.stats
	s.Keys, s.Divided = len(d.owned), d.parts.plan.Least
	return s
}
