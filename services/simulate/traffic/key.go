package traffic

import (
	"slices"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/services/simulate/scenario"
)

// Client is one client.
type Client struct {
	Name, Tenant, Pool string
	Patience           time.Duration
	Keys               []int // places in Keys that limit it
	Flow               int   // place in Flows, -1 without a pool
}

// Key is what an enforced limit counts: a client, or a tenant as a whole.
type Key struct {
	Tenant, Limit string
	Client        string // "" for a tenant's
	Rate, Burst   float64
	Queued        bool // requests beyond it may wait
}

// Flow is a tenant's use of a pool.
type Flow struct{ Tenant, Pool string }

// Cast is who acts in a scenario, in a fixed order.
type Cast struct {
	Gateways []string // all that are ever there
	Weights  []float64
	Clients  []Client
	Keys     []Key
	Flows    []Flow

	origin []int // of Clients: place in the scenario's
}

// NewCast lists who acts in a checked scenario.
func NewCast(s *scenario.Scenario) *Cast {
	c := &Cast{}
	for _, r := range s.Replicas {
		c.Gateways, c.Weights = append(c.Gateways, r.Name), append(c.Weights, r.Weight)
	}
	for _, i := range s.Order() {
		if e := &s.Events[i]; e.Kind == scenario.Join && !slices.Contains(c.Gateways, e.Replica) {
			c.Gateways, c.Weights = append(c.Gateways, e.Replica), append(c.Weights, 1)
		}
	}
	keys := map[Key]int{}
	flows := map[Flow]int{}
	for i := range s.Clients {
		c.add(s, i, keys, flows)
	}
	return c
}

func (c *Cast) add(s *scenario.Scenario, origin int, keys map[Key]int, flows map[Flow]int) {
	group := &s.Clients[origin]
	flow := -1
	if group.Pool != "" {
		f := Flow{group.Tenant, group.Pool}
		at, ok := flows[f]
		if !ok {
			at = len(c.Flows)
			flows[f] = at
			c.Flows = append(c.Flows, f)
		}
		flow = at
	}
	for _, name := range group.Names() {
		client := Client{Name: name, Tenant: group.Tenant, Pool: group.Pool, Patience: group.Patience, Flow: flow}
		for _, k := range limits(s, &client) {
			id := Key{Tenant: k.Tenant, Limit: k.Limit, Client: k.Client}
			at, ok := keys[id]
			if !ok {
				at = len(c.Keys)
				keys[id] = at
				c.Keys = append(c.Keys, k)
			}
			client.Keys = append(client.Keys, at)
		}
		c.Clients, c.origin = append(c.Clients, client), append(c.origin, origin)
	}
}

// limits are the keys of the limits that a client meets.
func limits(s *scenario.Scenario, c *Client) (keys []Key) {
	for i := range s.Tenants {
		for j := range s.Tenants[i].Limits {
			l := &s.Tenants[i].Limits[j]
			if s.Tenants[i].Name != c.Tenant || l.Mode != config.Enforce ||
				len(l.Pools) > 0 && !slices.Contains(l.Pools, c.Pool) {
				continue
			}
			k := Key{Tenant: c.Tenant, Limit: l.Name, Queued: l.Queued()}
			rb := config.RateBurst{Rate: l.Rate, Burst: l.Burst}
			if !l.PerTenant {
				k.Client = c.Name
				if o, ok := l.Overrides[c.Name]; ok {
					rb = o
				}
			}
			rb = rb.WithDefaults()
			k.Rate, k.Burst = rb.Rate, rb.Burst
			keys = append(keys, k)
		}
	}
	return keys
}

// Refresh takes over the limits' numbers from a scenario that has changed.
func (c *Cast) Refresh(s *scenario.Scenario) {
	for i := range c.Clients {
		for j, k := range limits(s, &c.Clients[i]) {
			c.Keys[c.Clients[i].Keys[j]] = k
		}
	}
}
