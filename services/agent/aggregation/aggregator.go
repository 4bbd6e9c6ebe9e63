package aggregation

import (
	"cmp"
	"time"
	"unique"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"github.com/titrate/titrate/services/agent/owners"
)

// Linger is the time for which a withdrawn claim or replica is still gossiped as such.
const Linger = 2 * time.Second

const (
	// forgetKey is the time for which a key without claims keeps its counts.
	forgetKey = 30 * time.Second
	// forgetLocal is the same for the local replicas' own counts.
	forgetLocal = 90 * time.Second
	// relist bounds the time in which a filter lists all claims on a new link.
	relist = 4 * time.Second
	// unlisted is the time for which a claim stands that a filter does not list again on a new link, where it lists
	// all within 3.2 s. It holds for the spent cost of a key, too, of which no agent reminds: agents remind each
	// other of sleeping keys every 3.2 s.
	unlisted = 15 * time.Second
	// tolerance is the part by which a claim may change without being sent.
	tolerance = 1. / 256
	// sweepCycle is the number of seconds within which all keys are looked at, to forget some.
	sweepCycle = 16
	// often is the time within which a key must be listed again to count as changing.
	often = 500 * time.Millisecond
	// maxLag bounds the lag: a network that is slower counts as broken.
	maxLag = 2 * time.Second
)

// Teller takes note that another agent is to know the new state of an item. That is for the first time, or again, if
// another agent was sent it before in its place.
type Teller interface {
	Tell(now time.Duration, agent string, item delivery.Item, level delivery.Urgency)
	TellAgain(now time.Duration, agent string, item delivery.Item, level delivery.Urgency)
}

// Options of an Aggregator. Zero values mean the defaults.
type Options struct {
	Agent  string        // name of this agent; default "agent"
	Tell   Teller        // nil: there are no other agents with owners
	Period time.Duration // P, between two announcements; default 50 ms
	T1     time.Duration // unheard by a majority for so long: Split; default 14 s
	T2     time.Duration // an unreachable replica's claims count for so long; default 15 s, at least T1
	// Incarnation differs with each start of the agent: with it a filter knows that counts restart.
	Incarnation uint64
	MaxKeys     int // most keys kept of each sort, see doc.go; default 1,048,576
	// Everybody is the number of agents up to which each sends its claims to all others. That is one hop, and a
	// client that comes to another gateway finds there what it has spent. With more agents a claim goes to the key's
	// owner, and only the agents that use the key receive it. A larger number costs packets with its square, a
	// smaller one a hop. Default 16.
	Everybody int
	// Shared is the number of keys of which an agent does so. Further EXACT keys are single: they have one owner in a
	// small fleet, too. All agents together could not keep them, nor send them again. Default 512.
	Shared int
	// Decides reports whether this agent grants the tokens of a key; nil: of none.
	Decides func(key uint64) bool
}

func (o Options) withDefaults() Options {
	o.Agent = cmp.Or(o.Agent, "agent") // "" stands for none
	o.Period = cmp.Or(o.Period, exchange.DefaultPeriod)
	o.T1 = cmp.Or(o.T1, exchange.DefaultSplitAfter)
	o.T2 = max(cmp.Or(o.T2, exchange.DefaultForgetAfter), o.T1)
	o.MaxKeys = cmp.Or(o.MaxKeys, 1<<20)
	o.Everybody = cmp.Or(o.Everybody, exchange.DefaultEverybody)
	o.Shared = cmp.Or(o.Shared, exchange.DefaultShared)
	return o
}

// Member is one replica of the membership.
type Member struct {
	Name   string
	Weight float64
}

// Aggregator holds the claims of all replicas. Not safe for concurrent use.
type Aggregator struct {
	o     Options
	table *claims.Table // of the gateways here: their own claims, and the owners' sums
	keys  ordered[*key] // of table
	gateways
	owning
	using
	membership
	elsewhere

	notes notes         // of keys whose sums have changed
	delay time.Duration // τ_max of the gossip
	late  time.Duration // what it waits beyond that
	swept time.Duration
	fresh bool // sums have changed since Fresh was asked

	silent time.Duration // not before then may another peer become unreachable
	// telling is the number of replicas with sums to send, see silence; toTell was that in the round before.
	telling, toTell int

	refused   uint64 // records with bad numbers, or beyond MaxKeys
	conflicts uint64 // states of a local replica received from elsewhere
}

// gateways has the gateways of this agent, and the other agents.
type gateways struct {
	replicas map[string]*replica
	last     claims.Peer
	locals   map[process]*local
	// localsByName are the same by name and generation; nil: to be made.
	localsByName []*local
	numbered     map[int32]*local // as items of the delivery name them
	numbers      int32
	remotes      map[string]*remote
	// remotesByName are the same by name; nil: to be made.
	remotesByName []*remote
	speaksFor     map[string]int // agents, and for how many of remotes
}

// owning has the state of the keys that this agent owns.
type owning struct {
	owned       *claims.Table      // the claims of all replicas
	ours        ordered[*ownedKey] // of owned
	own         *source            // this agent as an owner
	ownSeq      uint64             // of its sums to itself
	news        []uint64           // owned keys whose new sums are not queued yet
	ownNews     []uint64           // the same of this agent itself
	comparisons []comparison       // in the order in which they are due
}

// using has the state of owners, and of their sums.
type using struct {
	owners  owners.Agents
	self    claims.Group // this agent
	sources map[agentLife]*source
	waiting []uint64       // keys of which a new owner's sum waits
	rests   []turn         // in their order
	named   named          // the group asked for last
	sums    []gossipv1.Sum // memory for the next
	changes int            // how many keys the changes had that Sums returned last
	used    map[bool]int   // keys in use here: how many are single, and how many are not
}

// membership has the gateways that share the limits, and what is known of the majority of their agents.
type membership struct {
	leased       []Member // by the coordinator
	leasedUntil  time.Duration
	members      []Member      // in force; they and the leased ones are ordered by name
	weights      float64       // of members
	given        bool          // every leased member is a replica here; false: that is to be looked at
	recount      time.Duration // members stay as they are until then; 0: something has changed
	lastMajority time.Duration // packets came from more than half of the members' agents
	hasMajority  bool
	majorityBack time.Duration // when an isolation ended last
}

// elsewhere has the other sites.
type elsewhere struct {
	sites  map[string]*site
	siteOf map[string]*site // by agent
	abroad []uint64         // keys whose use there has changed
}

// process is one life of a replica.
type process struct {
	name       string
	generation uint64
}

// kinds says whether a key is of a limit or of a flow. The key's users say so; if they disagree it is both. A gateway
// is then sent the sums of both kinds, and uses those of the kind that it knows: no other gateway can hide them.
type kinds uint8

const (
	ofLimit kinds = 1 << iota
	ofFlow
)

func kindOf(flow bool) kinds {
	if flow {
		return ofFlow
	}
	return ofLimit
}

// onlyFlow reports whether all users say that the key is of a flow.
func (k kinds) onlyFlow() bool { return k == ofFlow }

// key is this agent's state of a key, besides the table's.
type key struct {
	kinds
	inUse   bool          // some replica claims it, or has spent some of it
	alone   bool          // as its owner says, and changes are not sent meanwhile
	touched time.Duration // its sums changed last
	stamp   uint64        // of its latest note
	again   bool          // a gateway here has used it before this agent began
	abroad  bool          // other sites use it, as its owner says
	single  bool          // it has one owner in a small fleet, too
	use
}

// New returns an empty aggregator at now = 0.
func New(o Options) *Aggregator {
	o = o.withDefaults()
	params := claims.Params{Stale: stale(o.Period).Seconds(), Forget: o.T2.Seconds(), MaxKeys: o.MaxKeys}
	t := &Aggregator{
		o:     o,
		table: claims.New(params),
		keys:  newOrdered[*key](),
		gateways: gateways{replicas: map[string]*replica{}, locals: map[process]*local{}, numbered: map[int32]*local{},
			remotes: map[string]*remote{}, speaksFor: map[string]int{}},
		owning:     owning{owned: claims.New(params), ours: newOrdered[*ownedKey]()},
		using:      using{self: unique.Make(o.Agent), sources: map[agentLife]*source{}, used: map[bool]int{}},
		membership: membership{hasMajority: true},
		notes:      notes{last: 1},
		elsewhere:  elsewhere{sites: map[string]*site{}, siteOf: map[string]*site{}},
	}
	t.owners.Add(o.Agent)
	t.own = t.source(0, o.Agent, 0)
	return t
}

// stale is the silence after which a replica is assumed to go on at its last claim:
// a few packets were missed by then.
func stale(period time.Duration) time.Duration { return max(5*period, 250*time.Millisecond) }

// replica returns what is known of a name.
func (t *Aggregator) replica(name string) *replica {
	r := t.replicas[name]
	if r == nil {
		t.last++
		r = &replica{id: t.last}
		t.replicas[name] = r
	}
	return r
}

// id returns the table's identity of a replica; 0 is nobody.
func (t *Aggregator) id(name string) claims.Peer {
	if r := t.replicas[name]; r != nil {
		return r.id
	}
	return 0
}

// apply merges one record. It returns its key, nil if the record is refused.
func (t *Aggregator) apply(id claims.Peer, now time.Duration, flow bool, r claims.Record) *key {
	outcome, err := t.table.Apply(id, now.Seconds(), r)
	if err != nil || outcome == claims.Refused {
		t.refused++
		return nil
	}
	return t.keyOf(r.Key, kindOf(flow))
}

// keyOf returns what is known of a key that the table has.
func (t *Aggregator) keyOf(k uint64, of kinds) *key {
	info := t.keys.get(k)
	if info == nil {
		t.forgetEvicted()
		info = &key{}
		t.keys.put(k, info)
	}
	info.kinds |= of
	return info
}

// forgetEvicted forgets the keys that the table has evicted, when there are many.
func (t *Aggregator) forgetEvicted() {
	if t.keys.len() < t.o.MaxKeys+t.o.MaxKeys/4 {
		return
	}
	t.keys.prune(func(k uint64, v *key) bool {
		if t.table.Holds(k) {
			return false
		}
		t.drop(k, v)
		return true
	})
}

// drop lets go of what a key refers to that is forgotten.
func (t *Aggregator) drop(at uint64, k *key) {
	t.ends(k)
	k.forgetRest(nil)
	t.follow(k, nil)
	t.setInUse(k, false)
	t.notes.add(at)
}

// SetDelay sets the gossip's delay τ_max, one way, and the time for which claims and sums wait because they are more
// than the agents' budgets allow.
func (t *Aggregator) SetDelay(d, late time.Duration) {
	was := t.Lag()
	t.delay, t.late = max(d, 0), max(late, 0)
	if t.Lag() > was {
		t.recount = 0 // an unreachable replica may only be late
	}
}

// Lag is δ, the longest time until all filters that use a key know what a filter has
// admitted. A filter sends its claims each P, and its agent passes them on at most P/2 later.
// The gossip takes τ_max, and the other agents send sums to their filters each P. Beyond
// Everybody agents: to the owner, which sends sums at most P/2 later, and the other agents pass them to their filters
// at most P/2 later; and twice τ_max. So it is with single keys. Between sites three agents each wait for P/2 more.
func (t *Aggregator) Lag() time.Duration {
	hops := time.Duration(1)
	if !t.small() || t.used[true] > 0 {
		hops = 2
	}
	rest := 5 * t.o.Period / 2
	if len(t.sites) > 0 {
		rest = 4 * t.o.Period
	}
	return min(hops*(t.delay+t.late)+rest, max(maxLag, rest))
}

// Contended reports whether any replica used anything in the last seconds.
func (t *Aggregator) Contended() bool { return t.notes.inUse > 0 }

// Sweep forgets keys that have been idle for long, and replicas that are no longer
// members. It acts at most once a second.
func (t *Aggregator) Sweep(now time.Duration) {
	if now-t.swept < time.Second {
		return
	}
	t.swept = now
	t.dropRemotes(now)
	t.dropSources(now)
	t.keys.pruneSome(max(1024, t.keys.len()/sweepCycle), func(k uint64, v *key) bool {
		switch {
		case !t.table.Holds(k): // the table made room
		case now-v.touched >= forgetKey && !v.isUsed() && !t.table.Claimed(k, now.Seconds()):
			t.table.Evict(k)
		default:
			if was := v.inUse; t.count(now, k, v) != was { // what was spent is of no interest any more
				t.note(now, k, v)
			}
			return false
		}
		t.drop(k, v)
		return true
	})
	t.sweepOwned(now)
	t.sweepSites(now)
	for _, o := range t.sortedLocals() {
		t.sweep(now, o)
	}
}
