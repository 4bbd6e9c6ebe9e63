package core

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/services/agent/owners"
	"github.com/titrate/titrate/services/agent/tokens"
	"github.com/titrate/titrate/services/wording"
)

// EXACT limits of the scope GLOBAL. A key has one owner among the agents of all sites. All else is as within a site,
// but no gateway has a standing part. An agent that does not receive another site, or a majority of all agents, asks
// no owner: there the ledgers of the sites decide, and keep to the last split. So a site that is cut off has no
// second owner of a key.

// everywhere are the agents of all sites.
type everywhere struct {
	others []tokens.Agent
	owners owners.Agents // this one, too
	why    string        // the ledgers decide; "": owners do
}

// setAll gives the owners of all sites' keys the agents, and whether most of them are received.
func (c *Core) setAll(now time.Duration, others []tokens.Agent) {
	why := c.apart(now)
	if why == c.all.why && c.all.owners.Names != nil && slices.Equal(others, c.all.others) {
		return
	}
	if why != c.all.why {
		word := map[bool]string{true: "owners", false: "ledgers"}[why == ""]
		c.log(slog.LevelInfo, "limits of the scope GLOBAL are by "+word+" now", "why",
			cmp.Or(why, "all sites are reachable, or gone for long"))
	}
	c.all = everywhere{others: others, why: why}
	c.all.owners.Add(c.o.Name)
	for _, a := range others {
		c.all.owners.Add(a.Name)
	}
	c.tokens[exchange.OfAll].Changed(now, others, c.hasFailed)
}

// apart says why this agent asks no owner of another site; "": it may.
func (c *Core) apart(now time.Duration) string {
	for _, s := range c.aggregator.OtherSites() {
		if !s.Reachable {
			return wording.Site(s.Name) + " is unreachable"
		}
	}
	if reached, of := c.reached(now, nil); 2*reached <= of {
		return fmt.Sprintf("%d of %d agents are reachable, no majority", reached, of)
	}
	return ""
}

// reached returns the number of agents that this one receives, itself included, without some, and the number of all. An
// agent that was never met may be an owner, too: the coordinator knows it.
func (c *Core) reached(now time.Duration, without []string) (reached, of int) {
	all, away := map[string]bool{}, map[string]bool{}
	for _, a := range c.alive {
		all[a.Name] = true
	}
	for _, name := range c.abroad {
		all[name] = true
	}
	for _, name := range slices.Concat(c.peers.Missing(now), without) {
		all[name], away[name] = true, true
	}
	return 1 + len(all) - len(away), 1 + len(all) + c.peers.Unmet(c.gossipAddress)
}

// ownerOfAll returns the agent of all sites that owns a key; "": the ledgers decide.
func (c *Core) ownerOfAll(key uint64) string {
	if c.all.why != "" {
		return ""
	}
	return c.all.owners.Of(key)
}

// allowedIn returns what the configuration in force allows a key of an EXACT limit of a scope.
func (c *Core) allowedIn(global bool, name *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	in := c.applied.Configuration()
	if in == nil {
		return 0, p, false
	}
	b, ok := limiter.BucketOf(in, c.Clock(c.ran), name)
	return b.Key, b.Params, ok && b.IsExact(true) && b.Global == global
}

// allowedGlobally is allowed for the scope GLOBAL.
func (c *Core) allowedGlobally(name *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	return c.allowedIn(true, name)
}

// lose notes that a gateway here is gone, or has no link for long.
func (c *Core) lose(now time.Duration, process uint64) {
	for _, d := range c.tokens {
		d.Lost(now, process)
	}
}
