package tally

import (
	"cmp"
	"sync"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/exchange"
)

// Linger is how long something withdrawn is still gossiped as such.
const Linger = 2 * time.Second

const (
	// forgetKey is how long a key that nobody claims keeps its counts.
	forgetKey = 30 * time.Second
	// forgetOwn is the same for the local replicas' own counts.
	forgetOwn = 90 * time.Second
	// unlisted is how long a claim stands that a living filter no longer lists. It
	// reminds of a sleeping key every 3.2 s, and so do agents each other.
	unlisted = 15 * time.Second
	// refresh is within how many periods all keys are told again in which nothing
	// changes; those that change are told each period.
	refresh = 64
	// often is how soon a key must be told again to count as one that changes: what is
	// spent of it is news then.
	often = 500 * time.Millisecond
	// maxLag bounds the lag: beyond it a mesh is broken, not slow.
	maxLag = 2 * time.Second
)

// Options of a Tally. Zero values mean the defaults.
type Options struct {
	Period time.Duration // P, between two announcements; default 50 ms
	T1     time.Duration // unheard by a majority for so long: Split; default 10 s
	T2     time.Duration // a silent replica's claims count for so long; default 15 s, at least T1
	// Incarnation differs with each start of the agent: a filter tells by it that
	// counts begin anew. Sequences start from it, for peers of gossip version 1, which
	// take a new life for newer if it rises.
	Incarnation uint64
	MaxKeys     int // most keys held; default 65536
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

// Tally holds the claims of all replicas. Safe for concurrent use.
type Tally struct {
	mu       sync.Mutex
	o        Options
	table    *claims.Table
	replicas map[string]*replica
	last     claims.Peer
	own      map[process]*own
	peers    map[string]*peer
	keys     book[*key]
	delay    time.Duration // τ_max of the gossip
	swept    time.Duration

	leased      []Member // by the coordinator
	leasedUntil time.Duration
	members     []Member // in force
	reached     time.Duration
	isReached   bool
	regained    time.Duration // when an isolation ended last

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
	until   time.Duration // it is told each period: claimed, or changed lately
}

// New returns an empty tally at now = 0.
func New(o Options) *Tally {
	o = o.withDefaults()
	return &Tally{
		o: o,
		table: claims.New(claims.Params{
			Stale:   stale(o.Period).Seconds(),
			Forget:  o.T2.Seconds(),
			MaxKeys: o.MaxKeys,
		}),
		replicas:  map[string]*replica{},
		own:       map[process]*own{},
		peers:     map[string]*peer{},
		keys:      newBook[*key](),
		isReached: true,
	}
}

// stale is when a silent replica is taken to go on at its last claim: after a
// few packets that should have come.
func stale(period time.Duration) time.Duration { return max(5*period, 250*time.Millisecond) }

// replica returns what is known of a name.
func (t *Tally) replica(name string) *replica {
	r := t.replicas[name]
	if r == nil {
		t.last++
		r = &replica{id: t.last}
		t.replicas[name] = r
	}
	return r
}

// id returns the table's identity of a replica; 0 is nobody.
func (t *Tally) id(name string) claims.Peer {
	if r := t.replicas[name]; r != nil {
		return r.id
	}
	return 0
}

// apply merges one record and notes which keys are there.
func (t *Tally) apply(id claims.Peer, now time.Duration, flow bool, r claims.Record) {
	outcome, err := t.table.Apply(id, now.Seconds(), r)
	if err != nil || outcome == claims.Refused {
		t.refused++
		return
	}
	k := t.keys.get(r.Key)
	if k == nil {
		t.room()
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
		if s := t.table.Sums(r.Key, 0, now.Seconds()); s.Claims > 0 || s.Active > 0 {
			k.until += t.o.T2
		}
	}
}

// room forgets the keys that the table has made room of, when there are many.
func (t *Tally) room() {
	if t.keys.len() < t.o.MaxKeys+t.o.MaxKeys/4 {
		return
	}
	t.keys.prune(func(k uint64, _ *key) bool { return !t.table.Holds(k) })
}

// SetDelay tells the gossip's delay τ_max, one way.
func (t *Tally) SetDelay(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delay = max(d, 0)
}

// Lag is δ: how long what a filter admits takes to be known by all, at most. A
// filter tells its agent each P, the agent the others within P/2 of its last word,
// the gossip takes τ_max, and an agent tells its filter each P.
func (t *Tally) Lag() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lag()
}

func (t *Tally) lag() time.Duration {
	return min(t.delay+5*t.o.Period/2, max(maxLag, 5*t.o.Period/2))
}

// Contended reports whether any replica lately used anything.
func (t *Tally) Contended(now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, k := range t.keys.keys {
		if now-t.keys.values[i].touched > unlisted {
			continue
		}
		if uses(t.table.Sums(k, 0, now.Seconds())) {
			return true
		}
	}
	return false
}

// Sweep forgets what has been idle for long, and replicas that are no longer
// members. Call it now and then; it acts once a second.
func (t *Tally) Sweep(now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now-t.swept < time.Second {
		return
	}
	t.swept = now
	t.dropPeers(now)
	t.keys.prune(func(k uint64, v *key) bool {
		s := t.table.Sums(k, 0, now.Seconds())
		switch {
		case s.Epoch == 0: // the table made room
			return true
		case now-v.touched >= forgetKey && s.Claims == 0 && s.Active == 0:
			t.table.Evict(k)
			return true
		}
		return false
	})
	for _, o := range t.locals() {
		if o.gone(now, t.o.T2) {
			t.forget(now, o)
			continue
		}
		t.sweep(now, o)
	}
}
