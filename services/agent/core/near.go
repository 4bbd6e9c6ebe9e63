package core

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// Whether limits that state no precision are EXACT. Gateways that decide differently admit up to
// twice a limit, so all agents decide alike, by vote: each judges the way to all
// others, and reports that. Such limits are EXACT where somebody is near and no more agents are far than
// near. Nothing but the way counts: what one client asks for, one gateway or one agent that fails or
// stands still changes nothing for the others.
//
//	undecided ── the way to all others is measured ──► near or far
//	near ── most others are far in farLooks looks in a row, or one of them is in farAlone ──► far
//	far ── all others are below nearPart of within in nearLooks looks in a row ──► near
//	far ── no other agent is there ──► undecided
//
// An agent that joins is undecided: it does as the others do until it has measured. An agent that receives
// nothing from a majority of the gateways cannot know what the others do. It keeps its own gateways LOCAL:
// their ledgers can share a limit with gateways that are cut off. Its vote stays what it was.

const (
	// lookEvery is the time between two looks at the way.
	lookEvery = 2 * time.Second
	// farLooks is the number of looks in a row after which an agent is far if the way to most others is
	// too long. That is 30 s. The other one, farAlone, is the number if the way to at least one other
	// is too long: 2 minutes. A machine that is busy for a moment changes no agent's mind.
	farLooks, farAlone = 15, 60
	// nearLooks is the number of looks in a row after which an agent is near again: 30 s.
	nearLooks = 15
	// nearPart is the part of the bound below which the way must be to be near again.
	nearPart = 0.8
	// rejoined is for how long an agent must have received from a majority before its gateways do as the
	// others. Until then no owner knows what these gateways' ledgers have admitted, so that nobody repays it.
	rejoined = time.Second
	// rejoining bounds how long an agent that receives a majority again waits for agents that it receives to be members
	// again: one may speak and never answer.
	rejoining = 15 * time.Second
	// shownEvery is the time between two changes of the way that the coordinator is sent.
	shownEvery = 10 * time.Second
)

// nearness is an agent's judgement of the way to the others.
type nearness struct {
	within time.Duration // --exact-within; 0: never near
	site   string        // of the agents that are judged
	mine   gossipv1.Nearness
	why    string // mine is FAR
	looked time.Duration
	alone  bool // there is no other agent
	near   int  // looks in a row
	most   int  // looks in a row in which most others were far
	any    int  // and in which one of them was

	lonely   bool          // it has received no majority of the gateways
	lonelyAt time.Duration // when that was so last, or agents were not members again
	unheard  time.Duration // when it received no majority last

	shown   time.Duration // way that the coordinator is sent; negative: not known
	shownAt time.Duration
}

func newNearness(within time.Duration) nearness {
	n := nearness{within: within, mine: gossipv1.Nearness_UNDECIDED, shown: -1}
	if within <= 0 {
		n.mine = gossipv1.Nearness_NEARNESS_UNSPECIFIED
	}
	return n
}

// look takes in the way to the others. It reports whether the agent has changed its mind.
func (n *nearness) look(now time.Duration, w schedule.Way) (changed bool) {
	n.looked, n.alone = now, w.Peers == 0
	if n.shown < 0 && w.To != "" || now-n.shownAt >= shownEvery {
		if n.shown, n.shownAt = -1, now; w.To != "" {
			n.shown = w.Longest
		}
	}
	before := n.mine
	n.count(w)
	switch {
	case n.within <= 0:
	case n.alone && n.mine == gossipv1.Nearness_FAR:
		n.mine = gossipv1.Nearness_UNDECIDED
	case n.any > 0 && n.mine == gossipv1.Nearness_UNDECIDED, n.most >= farLooks, n.any >= farAlone:
		n.mine = gossipv1.Nearness_FAR
		n.why = fmt.Sprintf("%s to %s, beyond --exact-within %s", round(w.Longest), w.To, n.within)
	case w.Unknown > 0 || n.alone:
	case n.any == 0 && n.mine == gossipv1.Nearness_UNDECIDED, n.near >= nearLooks:
		n.mine = gossipv1.Nearness_NEAR
	}
	return n.mine != before
}

// count counts the looks in a row.
func (n *nearness) count(w schedule.Way) {
	far := w.Beyond(n.within)
	inRow := func(count *int, is bool) {
		if *count++; !is {
			*count = 0
		}
	}
	inRow(&n.any, far > 0)
	inRow(&n.most, 2*far > w.Peers-w.Unknown)
	inRow(&n.near, w.Peers > 0 && w.Unknown == 0 && float64(w.Longest) <= nearPart*float64(n.within))
}

// isolated notes whether the agent receives a majority of the gateways now. An agent that did not is isolated until
// the agents that it receives have joined it again, too: before, it takes itself for the owner of what they own.
func (n *nearness) isolated(now time.Duration, lonely, rejoins bool) {
	switch {
	case lonely:
		n.lonely, n.lonelyAt, n.unheard = true, now, now
	case n.lonely && rejoins && now-n.unheard < rejoining:
		n.lonelyAt = now
	case now-n.lonelyAt >= rejoined:
		n.lonely = false
	}
}

// inForce reports whether limits that state no precision are EXACT, and why or why not, in a few
// words.
func (n *nearness) inForce(others schedule.Opinions) (exact bool, why string) {
	near, far := others.Near, others.Far
	switch n.mine {
	case gossipv1.Nearness_NEAR:
		near++
	case gossipv1.Nearness_FAR:
		far++
	}
	switch {
	case n.within <= 0:
		return false, "--exact-within is 0"
	case n.lonely:
		return false, "no majority of the gateways is reachable"
	case near >= far && near > 0:
		return true, n.who() + " within " + n.within.String()
	case n.mine == gossipv1.Nearness_FAR:
		return false, n.why
	case far > 0:
		return false, others.Against + " is against it"
	case n.alone:
		return false, "there is no other agent"
	}
	return false, "the way between agents is not measured yet"
}

// who are the agents that are judged.
func (n *nearness) who() string {
	if n.site == "" {
		return "agents"
	}
	return "agents of site " + n.site
}

// round leaves two digits of a time.
func round(d time.Duration) time.Duration {
	unit := time.Microsecond
	for d >= 100*unit {
		unit *= 10
	}
	return d.Round(unit)
}

// lookAround makes up this agent's mind, and gateways do what all agents together say.
func (c *Core) lookAround(now time.Duration) {
	if now-c.near.looked >= lookEvery && c.near.look(now, c.peers.Way()) {
		c.peers.SetNearness(now, c.near.mine)
		c.out.GossipSoon = true
	}
	if now == c.near.shownAt {
		c.lookAbroad()
	}
	c.near.isolated(now, c.aggregator.Isolation(now) != exchange.Connected, c.peers.Rejoins(now))
	exact, why := c.near.inForce(c.peers.Opinions())
	if exact != c.exact {
		word := map[bool]string{true: "EXACT", false: "LOCAL"}[exact]
		c.log(slog.LevelInfo, "limits that state no precision are "+word+" now", "why", why)
		c.switches++
	}
	c.exact, c.exactWhy = exact, why
}

// lookAbroad measures the way to the other sites.
func (c *Core) lookAbroad() {
	c.waysAbroad = map[string]time.Duration{}
	for _, s := range c.aggregator.OtherSites() {
		if w := c.peers.WayAbroad(func(name string) bool { return c.sites[name] == s.Name }); w.To != "" {
			c.waysAbroad[s.Name] = w.Longest
		}
	}
}

// sumsFor are the sums of the others for a gateway, and whether its limits that state no precision
// are EXACT.
func (c *Core) sumsFor(now time.Duration, g *gateway, since uint64) (*exchange.Sums, uint64) {
	s, stamp := c.aggregator.Sums(now, g.Gateway, since)
	s.Exact = c.exact
	return s, stamp
}
