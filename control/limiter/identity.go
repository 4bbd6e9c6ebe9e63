package limiter

import (
	"strings"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/keys"
)

// Whose request it is, as limits see it. A limit without an identity distinguishes clients
// by Request.Client, a limit with an identity by the value that the request has under that
// name. Requests without such a value belong to one client, "". A limit with classes
// applies only to requests that are in one of them.
//
// Names become indices in small tables when a configuration is compiled, so that a
// request carries an array and a bitmask instead of names. The caller says which name has
// which index, see [Engine.Name].

// Bounds of the identities and classes that requests may have, in one process.
const (
	MaxIdentities = 8
	MaxClasses    = 32
)

// Identities are the values of one request by index; "" where it has none. Like all
// strings of a Request they may alias foreign memory.
type Identities [MaxIdentities]string

// clone copies the values, which outlive their request while it is held.
func (ids *Identities) clone() *Identities {
	if ids == nil {
		return nil
	}
	c := new(Identities)
	for i, value := range ids {
		if value != "" {
			c[i] = strings.Clone(value)
		}
	}
	return c
}

// Names says which identity, class and cost has which index; "" is a free one.
type Names struct {
	Identities [MaxIdentities]string
	Classes    [MaxClasses]string
	Costs      [MaxCosts]string
}

// Known lists the identities, classes and costs that have an index.
func (n *Names) Known() *exchange.Names {
	return &exchange.Names{Identities: given(n.Identities[:]), Classes: given(n.Classes[:]),
		Costs: given(n.Costs[:])}
}

// given are the names that are not "".
func given(names []string) (out []string) {
	for _, name := range names {
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// Wanted says which indices the limits of a configuration ask for, a bit each.
type Wanted struct {
	Identities uint8
	Classes    uint32
}

// or returns the indices that either asks for.
func (w Wanted) or(o Wanted) Wanted {
	return Wanted{w.Identities | o.Identities, w.Classes | o.Classes}
}

// unnamed says that no request has a limit's identity, see Names.identity.
const unnamed = MaxIdentities + 1

// identity says where a limit finds its client: 0 in Request.Client, 1 + index among the
// identities, unnamed nowhere.
func (n *Names) identity(identity string) uint8 {
	if identity == "" {
		return 0
	}
	for i, name := range n.Identities {
		if name == identity {
			return uint8(i) + 1
		}
	}
	return unnamed
}

// every is the class that all requests are in.
const every = 1 << MaxClasses

// classes returns the mask of a limit's classes. No request is of a class without an
// index.
func (n *Names) classes(names []string) (mask uint64) {
	if len(names) == 0 {
		return every
	}
	for _, name := range names {
		for i, known := range n.Classes {
			if name == known && name != "" {
				mask |= 1 << i
			}
		}
	}
	return mask
}

// subject identifies the client of a request.
type subject struct {
	client  string
	ids     *Identities
	classes uint64 // with every
}

// under returns the name by which a limit knows the subject.
func (w *subject) under(l *limit) string {
	if l.identity == 0 {
		return w.client
	}
	if w.ids == nil || l.identity == unnamed {
		return ""
	}
	return w.ids[l.identity-1]
}

// keysOf returns the keys of a limit that the subject is counted by.
func (w *subject) keysOf(l *limit) *keys.Group {
	if l.plans != nil {
		return w.keysOfPlan(l)
	}
	return &l.keys
}

// keysOfPlan is keysOf for a limit with plans; apart, so that keysOf costs no call.
//
//go:noinline
func (w *subject) keysOfPlan(l *limit) *keys.Group { return l.keysOf(w.planOf(l)) }

// planOf returns the plan that the subject names, if the limit has that plan and no other numbers for the client; else
// "".
func (w *subject) planOf(l *limit) string {
	if l.plans == nil {
		return ""
	}
	if plan := w.planNamed(l); l.plans[plan] != nil && !l.keys.Overrides(w.under(l)) {
		if l.bounds != nil {
			if _, stated := w.statedRate(l); stated {
				return ""
			}
		}
		return plan
	}
	return ""
}

// planNamed returns the name that the subject has for a plan, of which the limit may know nothing.
func (w *subject) planNamed(l *limit) string { return w.at(l.planAt) }

// at returns the value of an identity by its place, as limits have it; "": it has none.
func (w *subject) at(place uint8) string {
	if w.ids == nil || place == 0 || place == unnamed {
		return ""
	}
	return w.ids[place-1]
}

// keysOf returns the keys of the requests of one of the limit's plans; "": of those without one.
func (l *limit) keysOf(plan string) *keys.Group {
	if plan == "" {
		return &l.keys
	}
	return l.plans[plan]
}

// apart lists what distinguishes the lines of a route, besides the client: a request that
// waits for one limit must not keep others waiting that this limit does not hold.
type apart struct {
	identities uint8  // of limits with a queue
	classes    uint64 // likewise
	costs      uint8  // likewise, as bits
}

// add takes in a limit of the route.
func (a *apart) add(l *limit) {
	if !l.queued {
		return
	}
	for _, at := range [...]uint8{l.identity, l.planAt} {
		if at != 0 && at != unnamed {
			a.identities |= 1 << (at - 1)
		}
	}
	a.classes |= l.classes &^ every
	if l.cost != plainCost && l.cost != unnamedCost {
		a.costs |= 1 << (l.cost - 1)
	}
}

// lineKey returns the key of the line that a request waits in.
func (f *flow) lineKey(c *call) uint64 {
	by := &c.route.apart
	if *by == (apart{}) {
		return hash.Client(f.salt, c.client)
	}
	const afterClasses = MaxClasses + 1
	kinds := by.classes&c.classes | uint64(by.costs&c.named.known())<<afterClasses
	h := f.salt.Absorb(c.client).AbsorbNumber(kinds)
	for i := range MaxIdentities {
		if by.identities>>i&1 != 0 && c.ids != nil {
			h = h.Absorb(c.ids[i])
		}
	}
	return h.Sum()
}
