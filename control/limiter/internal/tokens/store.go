package tokens

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter/internal/lock"
)

const (
	// shards of the keys, a power of two.
	shards = 64
	// keep is the time for which a key without anything to remember is kept after its last use, in nanoseconds. Sweep
	// looks at all keys within sweepAll, if no limit has too many.
	keep, sweepAll = int64(15e9), int64(4e9)
	// session is the difference between sessions of one key: a gateway counts the owners
	// that it meets from there on.
	session = 1 << 20
	// Hold is the time for which a request waits for an owner of its site, HoldGlobal for one of all sites. A gateway
	// asks the latter ahead for HorizonGlobal. Nanoseconds.
	Hold, HoldGlobal, HorizonGlobal = int64(50e6), int64(1e9), int64(500e6)
	// Never is the wait for a request that can never pass.
	Never = int64(1<<63 - 1)
)

// Key is a key of an EXACT limit, and what the limit allows it.
type Key struct {
	Hash   uint64
	Tenant string
	Limit  string
	Client string    // may alias foreign memory: the store copies it
	Plan   string    // whose numbers it has, a name of the configuration; "": none
	Part   budget.ID // of the budgets, for this limit
	Numbers
}

// Numbers has the rate, the burst and the kind of the limit.
type Numbers struct {
	Rate, Burst float64 // cost units/s, > 0; cost units
	Strict      bool
	// While: the limit is EXACT only while [Store.While] says so.
	While bool
	// Version of the limit's numbers: a later one is greater, and it wraps around.
	Version uint32
}

// Store has the keys. W is the caller's knowledge of a request that waits. All methods may be
// called from any thread.
type Store[W any] struct {
	shards   [shards]shard[W]
	budgets  budgets
	keys     atomic.Int64
	sessions atomic.Uint64
	linked   atomic.Bool
	while    atomic.Bool
	hold     int64       // for which a request waits
	horizon  int64       // for which a gateway asks ahead; 0: the default
	touched  atomic.Bool // by wake, since Poll looked
	wake     func()
	allowed  func(k *Key) bool
	next     atomic.Uint32 // shard that Sweep looks at
	sweepAt  atomic.Int64  // when it looks at the next one
	counts   counts
	eras     atomic.Pointer[eras]
	divided  atomic.Int64 // when the agent said so last
	confirms atomic.Bool  // the agent is to be informed that this one goes by it

	owners   atomic.Pointer[exchange.Owners] // of keys; nil: not known yet
	view     atomic.Uint64                   // of owners, once all shards know them
	reported atomic.Uint64                   // view that was reported to the agent as registered
}

type counts struct{ waited, unanswered, unowned, byPart, uncalled atomic.Uint64 }

// shard is a part of the keys.
type shard[W any] struct {
	mu   lock.Mutex[lock.Leaf]
	keys map[uint64]*entry[W]
	out  []exchange.TokenRequest // not polled yet
	busy []*entry[W]             // with waiters

	parts   map[uint64]record // that may not be full
	away    map[uint64]*away
	answers []exchange.PartAnswer // not polled yet

	roads       map[uint64]*road[W] // to owners, by their lives
	used        []*road[W]          // roads whose lines may have a key
	registering int                 // keys whose owners do not know them yet
}

// road is the way to an agent that owns keys.
type road[W any] struct {
	grant.Line[*entry[W]]
	used bool // in shard.used
}

// entry is a key.
type entry[W any] struct {
	key  Key
	g    *grant.Gateway
	line []*Waiter[W] // in the order in which they came
	busy bool         // in shard.busy
	used int64
	// learned is the time of the gateway's latest knowledge of what others see as spent.
	learned int64

	owner       uint64   // life of the agent that owns it; 0: not known yet
	road        *road[W] // to the owner
	lined       bool     // in the road's line
	asked       bool     // there, and it was sent
	registering bool     // in shard.registering
}

// Waiter is a request that waits for tokens of one key at a time. Its Join and Leave are called one
// at a time.
type Waiter[W any] struct {
	Of    W
	Cost  int64 // millionths
	Since int64 // when it came; it waits until then and the store's hold, for all its keys together
	key   uint64
}

// isLate reports whether a request has waited for as long as it may.
func (s *Store[W]) isLate(w *Waiter[W], now int64) bool { return w.Since+s.hold <= now }

// Ended is a wait that has ended.
type Ended[W any] struct {
	Waiter  *Waiter[W]
	Outcome grant.Outcome // not Waits
	Wait    int64         // of a refused one: nanoseconds until it may pass
}

// Init sets up a store for so many keys, whose requests wait for hold nanoseconds at most. wake is called, from any
// thread, when Poll has messages for the owners; nil: nobody carries them, and everything is Unanswered. allowed gives
// a key the numbers of now, and reports whether its limit is known; it must not call the store.
func (s *Store[W]) Init(keys int, hold int64, wake func(), allowed func(k *Key) bool) {
	if s.hold, s.allowed = hold, allowed; hold == HoldGlobal {
		s.horizon = HorizonGlobal
	}
	if wake != nil {
		s.wake = func() { s.touched.Store(true); wake() }
	}
	s.budgets.init(keys)
	for i := range s.shards {
		s.shards[i].keys, s.shards[i].roads = map[uint64]*entry[W]{}, map[uint64]*road[W]{}
		s.shards[i].parts, s.shards[i].away = map[uint64]record{}, map[uint64]*away{}
	}
	s.eras.Store(&eras{list: []era{{}}})
}

func (s *Store[W]) shard(key uint64) *shard[W] { return &s.shards[key>>58%shards] }

// Take spends a token for a request that would not wait. Waits says that it has to Join.
func (s *Store[W]) Take(k *Key, now, cost int64) (wait int64, out grant.Outcome) {
	if wait, out, done := s.unasked(k, cost); done {
		return wait, out
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	en := sh.keys[k.Hash]
	alone := en != nil && en.g.HasBucket() // then the part is in it
	if (en == nil || len(en.line) == 0) && !alone && s.takePart(sh, k, now, cost) {
		return 0, grant.Admitted
	}
	if en == nil {
		if out = s.unlessLinked(grant.Waits); out == grant.Waits && !s.budgets.fits(k, now) {
			out = s.leave()
		}
		return 0, out
	}
	s.use(en, k, now)
	out = s.unlessLinked(en.g.Try(now, cost))
	return s.end(sh, en, now, out), out
}

// Join is Take for a request that waits if it has to and has time left: then it is in the line of the
// key. Of a key that is new here, known is what of its burst is spent, in millionths, if the owner may
// not know.
func (s *Store[W]) Join(k *Key, now, known int64, w *Waiter[W]) (wait int64, out grant.Outcome) {
	if wait, out, done := s.unasked(k, w.Cost); done {
		return wait, out
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	en := s.obtain(sh, k, now, known)
	switch {
	case en == nil:
		return 0, s.leave()
	case !s.linked.Load():
		s.counts.unanswered.Add(1)
		return 0, grant.Unanswered
	}
	s.use(en, k, now)
	if s.isLate(w, now) {
		if out = en.g.Try(now, w.Cost); out == grant.Waits {
			out = grant.Unanswered
		}
	} else if out = en.g.Take(now, w.Cost); out == grant.Waits {
		en.join(w)
		s.counts.waited.Add(1)
	}
	return s.end(sh, en, now, out), out
}

// join puts a waiter into the line, behind the waiters that came before it. A waiter that has waited
// for another key came before some waiters in the line.
func (en *entry[W]) join(w *Waiter[W]) {
	w.key = en.key.Hash
	i := len(en.line)
	for i > 0 && en.line[i-1].Since > w.Since {
		i--
	}
	en.line = slices.Insert(en.line, i, w)
}

// unasked answers a request that no owner needs to be asked about.
func (s *Store[W]) unasked(k *Key, cost int64) (wait int64, out grant.Outcome, done bool) {
	switch {
	case s.wake == nil || !(k.Rate > 0) || len(k.Tenant)+len(k.Limit)+len(k.Client)+len(k.Plan) > exchange.MaxKeyName:
		return 0, grant.Unanswered, true
	case float64(cost) > k.Burst*grant.Token:
		return Never, grant.Refused, true
	}
	return 0, grant.Waits, false
}

// leave counts a request for a key that nobody is asked about.
func (s *Store[W]) leave() grant.Outcome {
	s.counts.unanswered.Add(1)
	s.counts.unowned.Add(1)
	return grant.Unowned
}

// unlessLinked is the outcome of a request that would wait while the link is down.
func (s *Store[W]) unlessLinked(out grant.Outcome) grant.Outcome {
	if out == grant.Waits && !s.linked.Load() {
		out = grant.Unanswered
	}
	return out
}

// end ends a call about a request: it puts out the messages for the owner, and returns how long
// a refused request has to wait.
func (s *Store[W]) end(sh *shard[W], en *entry[W], now int64, out grant.Outcome) (wait int64) {
	s.poll(sh, en, now)
	return s.count(en, now, out)
}

// count counts an outcome, and returns how long a refused request has to wait.
func (s *Store[W]) count(en *entry[W], now int64, out grant.Outcome) (wait int64) {
	switch out {
	case grant.Refused:
		return max(1, en.g.Until()-now)
	case grant.Unanswered:
		s.counts.unanswered.Add(1)
	case grant.Unowned:
		s.leave()
	}
	return 0
}

// obtain returns the entry of a key; nil: its limit has no room or no question left for it.
func (s *Store[W]) obtain(sh *shard[W], k *Key, now, known int64) *entry[W] {
	en := sh.keys[k.Hash]
	if en != nil {
		return en
	}
	if !s.budgets.take(k, now) {
		return nil
	}
	s.keys.Add(1)
	en = &entry[W]{key: *k, g: grant.NewGateway(s.params(k), s.sessions.Add(session)), used: now, learned: now}
	en.key.Client = strings.Clone(k.Client)
	en.g.Know(now, known)
	if o := s.owners.Load(); o != nil {
		en.owner = o.Of(k.Hash)
	}
	en.road = sh.road(en.owner)
	sh.keys[k.Hash] = en
	return en
}

// use notes that a key is used, by the numbers of now.
func (s *Store[W]) use(en *entry[W], k *Key, now int64) {
	en.used = now
	if en.key.Numbers != k.Numbers && int32(k.Version-en.key.Version) >= 0 {
		en.key.Numbers = k.Numbers
		en.g.Configure(s.params(k), now)
	}
}

// renew puts the numbers of now in force for a key that nobody has used since they changed.
func (s *Store[W]) renew(en *entry[W], now int64) {
	if k := en.key; s.allowed != nil && s.allowed(&k) {
		used := en.used
		s.use(en, &k, now)
		en.used = used
	}
}

// poll puts out the messages for the owner of a key, questions as far as the road has room. A key
// with waiters is busy in any case: the link may have gone since they joined.
func (s *Store[W]) poll(sh *shard[W], en *entry[W], now int64) {
	if s.linked.Load() {
		told := false
		if q, ok := en.g.Poll(now); ok {
			s.tell(sh, en, q, now)
			told = true
		}
		if sh.line(en, now) && s.send(sh, en.road, now) || told {
			s.wake()
		}
	}
	if !en.busy && len(en.line) > 0 {
		en.busy = true
		sh.busy = append(sh.busy, en)
	}
}

// line puts a key into the line to its owner if there is something to ask, or takes it out. It reports
// whether the line may have something to send.
func (sh *shard[W]) line(en *entry[W], now int64) (changed bool) {
	if r := en.g.Registers(); r != en.registering {
		en.registering = r
		sh.registering += map[bool]int{true: 1, false: -1}[r]
	}
	is, urgent := en.g.Wants(now)
	if en.lined && (!is || en.asked && !en.g.Open()) {
		en.road.Done(now, en, en.asked)
		en.lined, en.asked, changed = false, false, true
	}
	if is && (!en.lined || urgent) {
		en.road.Add(en, urgent)
		en.lined, changed = true, true
		if !en.road.used {
			en.road.used = true
			sh.used = append(sh.used, en.road)
		}
	}
	return changed
}

// send puts out the questions of a road for which there is room.
func (s *Store[W]) send(sh *shard[W], r *road[W], now int64) (told bool) {
	for en, ok := r.Next(now); ok; en, ok = r.Next(now) {
		if q, ok := en.g.Ask(now); ok {
			s.tell(sh, en, q, now)
			en.asked, told = true, true
		} else {
			r.Done(now, en, false)
			en.lined, en.asked = false, false
		}
	}
	return told
}

// road returns the way to an agent.
func (sh *shard[W]) road(life uint64) *road[W] {
	r := sh.roads[life]
	if r == nil {
		r = &road[W]{}
		sh.roads[life] = r
	}
	return r
}

// remove forgets a key.
func (s *Store[W]) remove(sh *shard[W], en *entry[W], now int64) {
	if en.lined {
		en.road.Done(now, en, false)
	}
	if en.registering {
		sh.registering--
	}
	delete(sh.keys, en.key.Hash)
	s.keys.Add(-1)
	s.budgets.free(en.key.Part)
	if en.busy {
		sh.busy = slices.DeleteFunc(sh.busy, func(b *entry[W]) bool { return b == en })
	}
}

func (s *Store[W]) tell(sh *shard[W], en *entry[W], q grant.Request, now int64) {
	if q.Need > 0 { // else it gives back, or registers
		s.budgets.ask(&en.key, now)
	}
	r := exchange.TokenRequest{Key: en.key.Hash, Request: q}
	if r.Named() {
		r.KeyName = exchange.KeyName{Tenant: en.key.Tenant, Limit: en.key.Limit, Client: en.key.Client,
			Plan: en.key.Plan}
	}
	sh.out = append(sh.out, r)
}
