package core

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/tokens"
)

// Whether limits that state no precision are EXACT. Gateways that decide differently admit up to
// twice a limit, so all agents decide alike: each makes up its mind about the way to all others,
// and tells them. Such limits are EXACT where nobody is far, and somebody is near.
//
//	undecided ── the way to all others is measured ──► near or far
//	near ── farLooks looks in a row beyond within, or a reason that is not the way ──► far
//	far ── nearLooks looks in a row below nearPart of within ──► near
//	far ── no other agent is there, or the reason that is not the way is gone ──► undecided
//
// An agent that joins is undecided: it does as the others do until it has measured.

const (
	// lookEvery is the time between two looks at the way.
	lookEvery = 2 * time.Second
	// farLooks and nearLooks are how many looks in a row it takes to change one's mind: 6 s and 30 s.
	// A way that comes and goes costs a switch in 36 s at most.
	farLooks, nearLooks = 3, 15
	// nearPart is how far below the bound the way must be to be near again.
	nearPart = 0.8
	// holdFor is how long limits stay LOCAL after a key found no room, or gateways asked too much.
	holdFor = 10 * time.Minute
	// mostAsked is how often per second its gateways may ask owners of keys, each time for some 0.1 ms of
	// processor time; but for the first settle of EXACT, in which every key is new.
	mostAsked = 1000
	settle    = 30 * time.Second
	// shownEvery is the time between two changes of the way that the coordinator is told.
	shownEvery = 10 * time.Second
)

// nearness is what an agent makes of the way to the others.
type nearness struct {
	within time.Duration // --exact-within; 0: never near
	mine   gossipv1.Nearness
	why    string // mine is FAR
	other  bool   // for a reason that is not the way
	looked time.Duration
	alone  bool // there is no other agent
	near   int  // looks in a row
	far    int

	tokens tokens.Stats  // as of the last look
	busy   int           // looks in a row with too many questions
	until  time.Duration // limits are LOCAL, because of held
	held   string

	shown   time.Duration // way that the coordinator is told; negative: not known
	shownAt time.Duration
}

func newNearness(within time.Duration) nearness {
	n := nearness{within: within, mine: gossipv1.Nearness_UNDECIDED, shown: -1}
	if within <= 0 {
		n.mine = gossipv1.Nearness_NEARNESS_UNSPECIFIED
	}
	return n
}

// look takes in the way to the others, and a reason against EXACT that is not the way; "": none. It
// reports whether the agent has changed its mind.
func (n *nearness) look(now time.Duration, w schedule.Way, against string) (changed bool) {
	n.looked, n.alone = now, w.Peers == 0
	if n.shown < 0 && w.To != "" || now-n.shownAt >= shownEvery {
		if n.shown, n.shownAt = -1, now; w.To != "" {
			n.shown = w.Longest
		}
	}
	before := n.mine
	switch {
	case n.within <= 0:
	case against != "":
		n.mine, n.why, n.other, n.near, n.far = gossipv1.Nearness_FAR, against, true, 0, 0
	case w.To != "" && w.Longest > n.within:
		n.near, n.far = 0, n.far+1
		if n.mine == gossipv1.Nearness_UNDECIDED || n.far >= farLooks {
			n.mine, n.other = gossipv1.Nearness_FAR, false
			n.why = fmt.Sprintf("%s to %s, beyond --exact-within %s", round(w.Longest), w.To, n.within)
		}
	case n.mine == gossipv1.Nearness_FAR && (n.other || w.Peers == 0):
		n.mine, n.why, n.other, n.near, n.far = gossipv1.Nearness_UNDECIDED, "", false, 0, 0
	case w.Unknown > 0 || w.Peers == 0:
		n.near, n.far = 0, 0
	case n.mine == gossipv1.Nearness_UNDECIDED:
		n.mine, n.far = gossipv1.Nearness_NEAR, 0
	case n.mine == gossipv1.Nearness_NEAR:
		n.far = 0
	case float64(w.Longest) <= nearPart*float64(n.within):
		if n.near, n.far = n.near+1, 0; n.near >= nearLooks {
			n.mine, n.near = gossipv1.Nearness_NEAR, 0
		}
	default:
		n.near, n.far = 0, 0
	}
	return n.mine != before
}

// hold makes limits LOCAL for a while.
func (n *nearness) hold(now time.Duration, why string) { n.until, n.held = now+holdFor, why }

// lookAtTokens takes in what was asked of owners of keys so far, and of this agent as an owner; the last
// look was since ago. How often gateways ask matters only while limits that state no precision are EXACT,
// and settled.
func (n *nearness) lookAtTokens(now, since time.Duration, s tokens.Stats, settled bool) {
	if !settled || float64(s.Asked-n.tokens.Asked) <= mostAsked*since.Seconds() {
		n.busy = 0
	} else if n.busy++; n.busy >= farLooks {
		n.hold(now, fmt.Sprintf("gateways of this agent have asked owners of keys more than %d times a second",
			mostAsked))
	}
	if s.Dropped[tokens.Crowded] > n.tokens.Dropped[tokens.Crowded] {
		n.hold(now, "this agent has had to own more keys than it can")
	}
	n.tokens = s
}

// inForce reports whether limits that state no precision are EXACT, and why or why not, in a few
// words.
func (n *nearness) inForce(others schedule.Opinions) (exact bool, why string) {
	switch {
	case n.within <= 0:
		return false, "--exact-within is 0"
	case n.mine == gossipv1.Nearness_FAR:
		return false, n.why
	case others.Against != "":
		return false, others.Against + " is against it"
	case n.mine == gossipv1.Nearness_NEAR || others.Near > 0:
		return true, "agents within " + n.within.String()
	case n.alone:
		return false, "there is no other agent"
	}
	return false, "the way between agents is not measured yet"
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
	if since := now - c.near.looked; since >= lookEvery {
		c.near.lookAtTokens(now, since, c.tokens.Stats(), c.exact && now-c.exactAt >= settle)
		if c.near.look(now, c.peers.Way(), c.againstExact(now)) {
			c.peers.SetNearness(now, c.near.mine)
			c.out.GossipSoon = true
		}
	}
	exact, why := c.near.inForce(c.peers.Opinions())
	if exact != c.exact {
		word := map[bool]string{true: "EXACT", false: "LOCAL"}[exact]
		c.log(slog.LevelInfo, "limits that state no precision are "+word+" now", "why", why)
		c.switches++
		c.exactAt = now
	}
	c.exact, c.exactWhy = exact, why
}

// againstExact is a reason why limits that state no precision cannot be EXACT here; "": none.
func (c *Core) againstExact(now time.Duration) string {
	for _, g := range c.connected() {
		if !g.hello.Exact {
			return "gateway " + g.Gateway + " cannot: an older filter, or an older agent's --rls"
		}
	}
	if now < c.near.until {
		return c.near.held
	}
	if c.aggregator.Isolation(now) != exchange.Connected {
		return "no majority of the gateways is heard"
	}
	return ""
}

// sumsFor are the sums of the others for a gateway, and whether its limits that state no precision
// are EXACT.
func (c *Core) sumsFor(now time.Duration, g *gateway, since uint64) (*exchange.Sums, uint64) {
	s, stamp := c.aggregator.Sums(now, g.Gateway, since)
	s.Exact = c.exact && g.hello.Exact
	return s, stamp
}
