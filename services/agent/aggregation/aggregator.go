package aggregation

import (
	"cmp"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
)

// Linger is how long something withdrawn is still gossiped as such.
const Linger = 2 * time.Second

const (
	// forgetKey is how long a key that nobody claims keeps its counts.
	forgetKey = 30 * time.Second
	// forgetLocal is the same for the local replicas' own counts.
	forgetLocal = 90 * time.Second
	// unlisted is how long a claim stands that a filter does not list again on a new link,
	// where it lists all within 3.2 s; and what is spent of a key of which no agent reminds:
	// agents remind each other of sleeping keys every 3.2 s.
	unlisted = 15 * time.Second
	// refresh is the number of periods within which every key without changes is sent
	// again; keys that change are sent each period.
	refresh = 64
	// often is the time within which a key must be listed again to count as one that
	// changes.
	often = 500 * time.Millisecond
	// maxLag bounds the lag: a network that is slower counts as broken.
	maxLag = 2 * time.Second
)

// Options of a Aggregator. Zero values mean the defaults.
type Options struct {
	Period time.Duration // P, between two announcements; default 50 ms
	T1     time.Duration // unheard by a majority for so long: Split; default 10 s
	T2     time.Duration // a silent replica's claims count for so long; default 15 s, at least T1
	// Incarnation differs with each start of the agent: with it a filter knows that
	// counts begin anew. Sequences start from it, for peers of gossip version 1, which
	// take a new life for newer if it rises.
	Incarnation uint64
	MaxKeys     int // most keys kept; default 65536
}

func (o Options) withDefaults() Options {
	o.Period = cmp.Or(o.Period, exchange.DefaultPeriod)
	o.T1 = cmp.Or(o.T1, exchange.DefaultSplitAfter)
	o.T2 = max(cmp.Or(o.T2, exchange.DefaultForgetAfter), o.T1)
	o.MaxKeys = cmp.Or(o.MaxKeys, 1<<16)
	return o
}

// Member is one replica of the membership.
type Member struct {
	Name   string
	Weight float64
}

// Aggregator holds the claims of all replicas. Not safe for concurrent use.
type Aggregator struct {
	o        Options
	table    *claims.Table
	replicas map[string]*replica
	last     claims.Peer
	locals   map[process]*local
	remotes  map[string]*remote
	keys     ordered[*key]
	delay    time.Duration // τ_max of the gossip
	swept    time.Duration

	leased       []Member // by the coordinator
	leasedUntil  time.Duration
	members      []Member // in force
	lastMajority time.Duration
	hasMajority  bool
	majorityBack time.Duration // when an isolation ended last

	refused   uint64 // records with bad numbers, or beyond MaxKeys
	conflicts uint64 // states of a local replica heard from elsewhere
}

// process is one life of a replica.
type process struct {
	name       string
	generation uint64
}

// key is what the table does not know of a key.
type key struct {
	flow    bool
	touched time.Duration // a record came last
	until   time.Duration // it is sent each period: claimed, or changed lately
}

// New returns an empty aggregator at now = 0.
func New(o Options) *Aggregator {
	o = o.withDefaults()
	return &Aggregator{
		o: o,
		table: claims.New(claims.Params{
			Stale:   stale(o.Period).Seconds(),
			Forget:  o.T2.Seconds(),
			MaxKeys: o.MaxKeys,
		}),
		replicas:    map[string]*replica{},
		locals:      map[process]*local{},
		remotes:     map[string]*remote{},
		keys:        newOrdered[*key](),
		hasMajority: true,
	}
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

// apply merges one record and notes which keys are there.
func (t *Aggregator) apply(id claims.Peer, now time.Duration, flow bool, r claims.Record) {
	outcome, err := t.table.Apply(id, now.Seconds(), r)
	if err != nil || outcome == claims.Refused {
		t.refused++
		return
	}
	k := t.keys.get(r.Key)
	if k == nil {
		t.forgetEvicted()
		k = &key{flow: flow}
		t.keys.put(r.Key, k)
	}
	if outcome == claims.Old {
		return
	}
	changes := outcome == claims.Applied || now-k.touched < often
	k.touched = now
	switch claimed := r.Claim > 0 || r.Active > 0; {
	case claimed: // also while its peer is silent
		k.until = now + t.o.T2 + Linger
	case changes:
		k.until = now + Linger
		if t.table.Claimed(r.Key, now.Seconds()) {
			k.until += t.o.T2
		}
	}
}

// forgetEvicted forgets the keys that the table has evicted, when there are many.
func (t *Aggregator) forgetEvicted() {
	if t.keys.len() < t.o.MaxKeys+t.o.MaxKeys/4 {
		return
	}
	t.keys.prune(func(k uint64, _ *key) bool { return !t.table.Holds(k) })
}

// SetDelay sets the gossip's delay τ_max, one way.
func (t *Aggregator) SetDelay(d time.Duration) {
	t.delay = max(d, 0)
}

// Lag is δ, the longest time until all filters know what a filter has admitted: a filter
// sends its claims each P, its agent gossips at most P/2 later, the gossip takes τ_max,
// and the other agents send sums to their filters each P.
func (t *Aggregator) Lag() time.Duration {
	return min(t.delay+5*t.o.Period/2, max(maxLag, 5*t.o.Period/2))
}

// Contended reports whether any replica lately used anything.
func (t *Aggregator) Contended(now time.Duration) bool {
	for i, k := range t.keys.keys {
		if now-t.keys.values[i].touched > unlisted {
			continue
		}
		if inUse(t.table.Sums(k, 0, now.Seconds())) {
			return true
		}
	}
	return false
}

// Sweep forgets keys that have been idle for long, and replicas that are no longer
// members. It acts at most once a second.
func (t *Aggregator) Sweep(now time.Duration) {
	if now-t.swept < time.Second {
		return
	}
	t.swept = now
	t.dropRemotes(now)
	t.keys.prune(func(k uint64, v *key) bool {
		switch {
		case !t.table.Holds(k): // the table made room
			return true
		case now-v.touched >= forgetKey && !t.table.Claimed(k, now.Seconds()):
			t.table.Evict(k)
			return true
		}
		return false
	})
	for _, o := range t.sortedLocals() {
		t.sweep(now, o)
	}
}
