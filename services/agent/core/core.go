package core

import (
	"log/slog"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/activity"
	"github.com/titrate/titrate/services/agent/aggregation"
	"github.com/titrate/titrate/services/agent/applied"
	"github.com/titrate/titrate/services/agent/decisions"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/lastgood"
	"github.com/titrate/titrate/services/agent/quotas"
	"github.com/titrate/titrate/services/agent/reports"
	"github.com/titrate/titrate/services/agent/slots"
	"github.com/titrate/titrate/services/agent/spent"
	"github.com/titrate/titrate/services/agent/tokens"
	"golang.org/x/time/rate"
)

// Options of a Core.
type Options struct {
	Name, Version string
	Site          string        // of this agent, see [aggregation.Site]
	Incarnation   uint64        // of this process; differs with each start
	Period        time.Duration // P, between two announcements
	T1            time.Duration // without a majority for so long: Split
	T2            time.Duration // an unreachable replica's claims count for so long
	Everybody     int           // most agents that send all others everything, see [aggregation.Options]
	Shared        int           // and of how many keys an agent does so, see there
	// ExactWithin bounds the delay to the other agents up to which limits that state no precision are EXACT; 0: they
	// are LOCAL.
	ExactWithin time.Duration
}

// Core is one agent.
type Core struct {
	o             Options
	gossipAddress string
	aggregator    *aggregation.Aggregator
	applied       applied.State
	reports       *reports.Reports
	activity      *activity.Activity
	decisions     decisions.Store
	tokens        [exchange.Scopes]*tokens.Desk
	slots         *slots.Desk
	quotas        *quotas.Desk
	own           OwnLimits // nil: there are none
	lapses        lapses
	spent         spent.Store
	near          nearness
	doubts        doubts
	lines         *rate.Limiter // of lines about what gateways refuse
	exactness
	otherAgents
	linked
	timing
	passedOn

	ran   time.Duration // when this process ran last; 0: it has just begun
	stale time.Duration // packets that come before then have waited for this process, see pause.go

	out Effects // of the event
}

// exactness says whether limits that state no precision are EXACT.
type exactness struct {
	exact         bool
	exactWhy      string        // they are, or are not
	switches      uint64        // of exact
	unaskedLogged time.Duration // the last line about a limit that asks about too many keys; 0: none
}

type otherAgents struct {
	peers        *schedule.Peers
	peersChanged bool                     // since the last round
	alive        []tokens.Agent           // the other agents of this site, if they may own keys
	all          everywhere               // those of all sites
	lives        map[string]uint64        // as far as this agent knows
	sites        map[string]string        // of the others
	abroad       []string                 // agents of other sites that are alive
	waysAbroad   map[string]time.Duration // to the farthest agent of a site, as the coordinator is sent it
	left         map[string]bool          // by agent that is not alive: it left in order
}

// linked are the gateways of this agent.
type linked struct {
	gateways  map[Process]*gateway
	links     map[Link]*gateway   // those connected
	processes map[uint64]*gateway // by their numbers for tokens
	doubled   map[string]bool     // names that several Envoys have now
	doubles   uint64              // names that came into doubled
}

// timing has the times of what is done from time to time.
type timing struct {
	ticked time.Duration // last Tick
	sums   time.Duration // last sums
	beat   time.Duration // last heartbeat
	beats  uint64
}

// passedOn holds numbers of the coordinator for gateways.
type passedOn struct {
	whole   *config.Config       // the configuration in force; nil: not needed yet
	logged  int64                // revision of the configuration that was logged last
	members []*controlv1.Replica // of the leases
	resent  uint64               // changes that a gateway refused
}

// New returns a core that knows nothing.
func New(o Options) *Core {
	peers := schedule.NewPeers(o.Name, o.Incarnation, o.Period, o.T2)
	c := &Core{o: o,
		reports:  reports.New(),
		activity: activity.New(o.Site),
		near:     newNearness(o.ExactWithin),
		otherAgents: otherAgents{peers: peers, lives: map[string]uint64{}, sites: map[string]string{},
			left: map[string]bool{}},
		linked: linked{gateways: map[Process]*gateway{}, links: map[Link]*gateway{},
			processes: map[uint64]*gateway{}},
		lines: rate.NewLimiter(rate.Every(time.Minute/linesAtOnce), linesAtOnce),
	}
	c.aggregator = aggregation.New(aggregation.Options{Agent: o.Name, Tell: peers, Period: o.Period, T1: o.T1, T2: o.T2,
		Incarnation: o.Incarnation, Everybody: o.Everybody, Shared: o.Shared,
		Decides: func(key uint64) bool { return c.tokens[exchange.OfSite].Owns(key) }})
	c.tokens[exchange.OfSite] = tokens.New(tokens.Options{Agent: o.Name, Life: o.Incarnation, Owner: c.aggregator.Owner,
		Linked: c.isLinked, Allowed: c.allowed, Revision: c.revision,
		Registered: func(now time.Duration) { c.slots.Settled(now) },
		Listens:    func() bool { return c.slots.Listens() },
		Owned:      c.aggregator.NoteAbroad})
	c.tokens[exchange.OfAll] = tokens.New(tokens.Options{Agent: o.Name, Life: o.Incarnation, Owner: c.ownerOfAll,
		Linked: c.isLinked, Allowed: c.allowedGlobally, Revision: c.revision, Undivided: true})
	c.slots = slots.New(slots.Options{Agent: o.Name, Life: o.Incarnation, Owner: c.aggregator.Owner,
		Limit: c.slotLimit, Revision: c.revision})
	c.quotas = quotas.New(quotas.Options{Agent: o.Name, Life: o.Incarnation, Owner: c.aggregator.Owner,
		Limit: c.quotaLimit, Reset: c.quotaReset, Revision: c.revision})
	if c.near.site = o.Site; o.Site != "" {
		c.tokens[exchange.OfSite].Apart()
	}
	c.slotOwners(0)
	c.setAll(0, nil)
	c.peers.SetNearness(0, c.near.mine)
	return c
}

// SetGossipAddress sets the host:port that the coordinator passes to other agents.
func (c *Core) SetGossipAddress(address string) { c.gossipAddress = address }

// Effects are the caller's duties after an event.
type Effects struct {
	Frames []Frame // in this order
	Close  []Link  // of a process that has a newer link
	// Packets to other agents that are sent at once, in addition to those of Round.
	Packets    []schedule.Outgoing
	Bookings   []quotas.Booking // for the coordinators
	GossipSoon bool             // call Round before the next period
	Save       bool             // the snapshot has changed
	Log        []Entry
}

// Frame is a message to a gateway. It is that gateway's own, but for a *config.Config and a
// *config.Delta, which are only read.
type Frame struct {
	To      Link
	Message link.Message
}

// Entry is a line for the log.
type Entry struct {
	Level   slog.Level
	Text    string
	Details []any // names and values
}

// take returns the effects of an event.
func (c *Core) take() Effects {
	c.chargeSites()
	c.sendTokens()
	c.sendSlots()
	c.sendQuotas()
	out := c.out
	c.out = Effects{}
	return out
}

func (c *Core) send(g *gateway, m link.Message) {
	if g.state == connected {
		c.out.Frames = append(c.out.Frames, Frame{g.link, m})
	}
}

func (c *Core) log(level slog.Level, text string, details ...any) {
	c.out.Log = append(c.out.Log, Entry{level, text, details})
}

// Restore puts a snapshot in force, whose configuration compiled to config. An error says
// why it cannot be used; nothing has changed then.
func (c *Core) Restore(now time.Duration, s *lastgood.Snapshot, config *applied.Configuration) error {
	if err := c.applied.Restore(s, config); err != nil {
		return err
	}
	_, c.lapses.next = c.applied.Lapse(0)
	c.aggregator.RestoreMembers(now, members(s.Leases.GetMembers()))
	c.setAddresses(s.Leases.GetMembers())
	for _, d := range c.tokens {
		d.Restarted()
	}
	return nil
}

// LastLeases are the leases in force, nil before the first.
func (c *Core) LastLeases() *controlv1.Leases { return c.applied.LastLeases() }

// sweepSpentEvery is the number of heartbeats between two sweeps of the spent costs of clients, and of the outcomes of
// requests.
const sweepSpentEvery = 10

// Tick does what time brings: leases expire, gateways and keys are forgotten, gateways
// get sums while something is contended, and heartbeats. Call it each half period, or when it
// is Due.
func (c *Core) Tick(now time.Duration) Effects {
	c.run(now)
	c.ticked = now
	if s := c.applied.Expire(now); s != nil {
		if s.Stale {
			c.log(slog.LevelWarn,
				"leases are stale: the coordinator was unreachable for their soft expiry; shares are frozen",
				"epoch", s.Epoch)
		}
		c.sendState()
	}
	c.lapse(now)
	c.setOwners(now)
	if c.slots.Keys()+c.quotas.Keys() > 0 {
		c.slotPart(now)
	}
	c.forgetGateways(now)
	c.aggregator.Advance(now)
	for _, d := range c.tokens {
		d.Sweep(now)
	}
	second := now-c.beat >= link.HeartbeatEvery
	if second || c.near.lonely || c.peers.NearnessChanged() {
		c.lookAround(now)
	}
	if second {
		c.beat = now
		c.beats++
		c.aggregator.Sweep(now)
		c.sendHeartbeats(now)
		c.findDoubles()
		c.loseTokens(now)
		c.setAll(now, c.all.others)
		for _, d := range c.tokens {
			d.Second(now, c.peers.OwnerNames())
		}
		c.logDropped(now)
		c.logDoubts(now)
		if c.beats%sweepSpentEvery == 0 {
			c.spent.Sweep(now)
			c.activity.Sweep(now)
		}
	}
	fresh := c.aggregator.Fresh()
	if second || fresh || now-c.sums >= c.o.Period-c.o.Period/8 {
		c.sums = now
		c.sendSums(now, second)
	}
	return c.take()
}

func (c *Core) sendHeartbeats(now time.Duration) {
	beat := link.Heartbeat{Sequence: c.beats, Clock: c.Clock(now)}
	if in := c.applied.Configuration(); in != nil {
		beat.Revision = in.Revision()
	}
	for _, g := range c.connected() {
		own := beat
		c.send(g, &own)
	}
}

// sendSums sends each gateway the sums of the others: if all is set, if something is
// contended, or if the membership or the isolation changed.
func (c *Core) sendSums(now time.Duration, all bool) {
	if len(c.links) == 0 {
		return
	}
	contended := c.aggregator.Contended()
	for _, g := range c.connected() {
		s, stamp := c.sumsFor(now, g, g.sumsSince())
		changed := !aggregation.SameMembers(&g.sentSums, s)
		g.noteSums(s)
		if all || contended || changed {
			g.sumsStamp = stamp
			c.send(g, s)
		}
	}
}
