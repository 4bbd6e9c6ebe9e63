package demand

import "time"

// Crowd has so many clients, each at all sites. Each asks for Rate requests per second.
type Crowd struct {
	Keys, Sites int
	Rate        float64
	New         float64 // clients per second that come to a site at first
	sent        int
}

// MostSites is the number of sites whose first requests a client's burst has room for.
const MostSites = 3

// The first request of a client costs so much that its bucket is not whole again for minutes: a key with a whole
// bucket is forgotten. The bucket has room for the first requests of MostSites sites and one more, so that each
// refusal is wrong. A key of which little of the bucket is used is not known to others. load is the part of
// its limit that each asks for.
const (
	firstCost = 3
	burst     = 11
	load      = .8
)

// Limit returns the rate and burst of a client's limit.
func (c *Crowd) Limit() (rate float64, most int) { return c.Rate / load, burst }

// Known reports whether each client has asked at each site.
func (c *Crowd) Known() bool { return c.sent >= c.Keys*c.Sites }

// begins returns the time at which each client has asked once at each site.
func (c *Crowd) begins() time.Duration {
	return time.Duration(float64(c.Keys*c.Sites) / c.New * float64(time.Second))
}

// Due returns how many requests are due now, at t since the start.
func (c *Crowd) Due(t time.Duration) int {
	begins := c.begins()
	if t < begins {
		return int(t.Seconds()*c.New) - c.sent
	}
	return c.Keys*c.Sites + int((t-begins).Seconds()*c.Rate*float64(c.Keys)) - c.sent
}

// Next returns the next request: who asks, at which site, and its cost.
func (c *Crowd) Next() (client, site int, cost float64) {
	round, client := c.sent/c.Keys, c.sent%c.Keys
	c.sent++
	if round == 0 {
		return client, client % c.Sites, firstCost
	}
	return client, (client + round) % c.Sites, 1
}
