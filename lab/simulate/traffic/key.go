package traffic

import (
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/simulate/scenario"
)

// Client is one client.
type Client struct {
	Name, Tenant, Pool string
	Patience           time.Duration
	Identities         *limiter.Identities
	Classes            uint32
	Takes              time.Duration
	Keys               []int // places in Keys that limit it
	InFlight           []int // places in InFlight that limit it
	Spends             []int // places in Quotas that limit it
	Flow               int   // place in Flows, -1 without a pool
}

// InFlight is a key of an enforced concurrency limit.
type InFlight struct {
	Tenant, Limit string
	Client        string // "" for a tenant's
	Concurrency   int64
}

// Quota is a key of an enforced limit with a calendar quota.
type Quota struct {
	Tenant, Limit string
	Client        string // "" for a tenant's
	Amount        float64
}

// Key is a key of an enforced limit: a client, or a whole tenant.
type Key struct {
	Tenant, Limit string
	Client        string // "" for a tenant's
	Rate, Burst   float64
	Queued        bool // requests beyond it may wait
}

// Flow is a tenant's use of a pool.
type Flow struct{ Tenant, Pool string }

// Cast lists the gateways, clients, keys and flows of a scenario, in a fixed order.
type Cast struct {
	Gateways []string // all that are ever there
	Weights  []float64
	Clients  []Client
	Keys     []Key // of limits with a rate
	InFlight []InFlight
	Quotas   []Quota
	Flows    []Flow
	Names    limiter.Names // of the clients' identities and classes

	origin []int // of Clients: place in the scenario's
}

// Gateways returns all gateways that ever exist in a scenario, and their weights.
func Gateways(s *scenario.Scenario) (names []string, weights []float64) {
	for _, r := range s.Replicas {
		names, weights = append(names, r.Name), append(weights, r.Weight)
	}
	for _, i := range s.Order() {
		if e := &s.Events[i]; e.Kind == scenario.Join && !slices.Contains(names, e.Replica) {
			names, weights = append(names, e.Replica), append(weights, 1)
		}
	}
	return names, weights
}

// NewCast returns the cast of a clone of a checked scenario.
func NewCast(s *scenario.Scenario) *Cast {
	c := &Cast{}
	c.Gateways, c.Weights = Gateways(s)
	identities, classes := s.Named()
	copy(c.Names.Identities[:], identities)
	copy(c.Names.Classes[:], classes)
	p := places{map[Key]int{}, map[InFlight]int{}, map[Quota]int{}, map[Flow]int{}}
	for i := range s.Clients {
		c.add(s, i, p)
	}
	return c
}

// places are the places of what is in a cast already; of keys without their numbers.
type places struct {
	keys     map[Key]int
	inFlight map[InFlight]int
	quotas   map[Quota]int
	flows    map[Flow]int
}

// place returns the place of an item in a list, which gets it if it is new.
func place[T comparable](places map[T]int, list *[]T, id, item T) int {
	at, ok := places[id]
	if !ok {
		at = len(*list)
		places[id] = at
		*list = append(*list, item)
	}
	return at
}

func (c *Cast) add(s *scenario.Scenario, origin int, p places) {
	group := &s.Clients[origin]
	flow := -1
	if group.Pool != "" {
		f := Flow{group.Tenant, group.Pool}
		flow = place(p.flows, &c.Flows, f, f)
	}
	for _, name := range group.Names() {
		client := Client{Name: name, Tenant: group.Tenant, Pool: group.Pool, Patience: group.Patience, Flow: flow,
			Takes: group.Takes, Identities: c.identities(group), Classes: c.classes(group)}
		for _, k := range limits(s, &client, group) {
			id := Key{Tenant: k.Tenant, Limit: k.Limit, Client: k.Client}
			client.Keys = append(client.Keys, place(p.keys, &c.Keys, id, k))
		}
		for _, k := range inFlight(s, &client, group) {
			id := InFlight{Tenant: k.Tenant, Limit: k.Limit, Client: k.Client}
			client.InFlight = append(client.InFlight, place(p.inFlight, &c.InFlight, id, k))
		}
		for _, k := range quotas(s, &client, group) {
			id := Quota{Tenant: k.Tenant, Limit: k.Limit, Client: k.Client}
			client.Spends = append(client.Spends, place(p.quotas, &c.Quotas, id, k))
		}
		c.Clients, c.origin = append(c.Clients, client), append(c.origin, origin)
	}
}

// identities are a client's as requests carry them, nil without any.
func (c *Cast) identities(of *scenario.Client) *limiter.Identities {
	if len(of.Identities) == 0 {
		return nil
	}
	out := new(limiter.Identities)
	for i, name := range c.Names.Identities {
		out[i] = of.Identities[name]
	}
	return out
}

// classes are a client's as requests carry them.
func (c *Cast) classes(of *scenario.Client) (mask uint32) {
	for i, name := range c.Names.Classes {
		if name != "" && slices.Contains(of.Classes, name) {
			mask |= 1 << i
		}
	}
	return mask
}

// applies reports whether a limit is enforced on a client's requests.
func applies(l *config.Limit, c *scenario.Client) bool {
	in := func(class string) bool { return slices.Contains(c.Classes, class) }
	return l.Mode == config.Enforce && (len(l.Pools) == 0 || slices.Contains(l.Pools, c.Pool)) &&
		(len(l.Classes) == 0 || slices.ContainsFunc(l.Classes, in))
}

// nameIn returns the name by which a limit counts a client; "" if it counts the tenant.
func nameIn(l *config.Limit, c *Client, group *scenario.Client) string {
	switch {
	case l.PerTenant:
		return ""
	case l.Identity != "":
		return group.Identities[l.Identity]
	}
	return c.Name
}

// inFlight returns the keys of the concurrency limits that apply to a client of a group.
func inFlight(s *scenario.Scenario, c *Client, group *scenario.Client) (keys []InFlight) {
	for _, l := range s.InForce.Limits[c.Tenant] {
		if l.Concurrency == 0 || !applies(&l, group) {
			continue
		}
		k := InFlight{Tenant: c.Tenant, Limit: l.Name, Client: nameIn(&l, c, group), Concurrency: l.Concurrency}
		if o, ok := l.Overrides[k.Client]; ok && !l.PerTenant {
			k.Concurrency = o.Concurrency
		}
		keys = append(keys, k)
	}
	return keys
}

// quotas returns the keys of the calendar quotas that apply to a client of a group.
func quotas(s *scenario.Scenario, c *Client, group *scenario.Client) (keys []Quota) {
	for _, l := range s.InForce.Limits[c.Tenant] {
		if l.Quota != nil && applies(&l, group) {
			name := nameIn(&l, c, group)
			keys = append(keys, Quota{c.Tenant, l.Name, name, l.AmountOf(name, 0)})
		}
	}
	return keys
}

// limits returns the keys of the limits with a rate that apply to a client of a group.
func limits(s *scenario.Scenario, c *Client, group *scenario.Client) (keys []Key) {
	for _, l := range s.InForce.Limits[c.Tenant] {
		if l.Concurrency > 0 || l.Quota != nil || !applies(&l, group) {
			continue
		}
		k := Key{Tenant: c.Tenant, Limit: l.Name, Client: nameIn(&l, c, group), Queued: l.Queued(), Rate: l.Rate,
			Burst: l.Burst}
		if o, ok := l.Overrides[k.Client]; ok && !l.PerTenant {
			k.Rate, k.Burst = o.Rate, o.Burst
		}
		keys = append(keys, k)
	}
	return keys
}

// Refresh takes over the limits' numbers from a scenario that has changed.
func (c *Cast) Refresh(s *scenario.Scenario) {
	for i := range c.Clients {
		for j, k := range inFlight(s, &c.Clients[i], &s.Clients[c.origin[i]]) {
			c.InFlight[c.Clients[i].InFlight[j]] = k
		}
		for j, k := range quotas(s, &c.Clients[i], &s.Clients[c.origin[i]]) {
			c.Quotas[c.Clients[i].Spends[j]] = k
		}
		for j, k := range limits(s, &c.Clients[i], &s.Clients[c.origin[i]]) {
			c.Keys[c.Clients[i].Keys[j]] = k
		}
	}
}
