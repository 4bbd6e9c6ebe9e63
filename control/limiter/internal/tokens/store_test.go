package tokens

import (
	"testing"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"pgregory.net/rapid"
)

const (
	millisecond = int64(1e6)
	second      = int64(1e9)
)

// owners has the bucket of each key, and delivers at once.
type owners struct {
	stores []*Store[int]
	by     map[uint64]*grant.Owner
	ended  []Ended[int]
	mail   []func(now int64)
	dead   bool
}

func newOwners(n, budget int) *owners {
	o := &owners{by: map[uint64]*grant.Owner{}}
	for range n {
		s := &Store[int]{}
		s.Init(budget, Hold, func() {}, nil)
		s.Link(0, true)
		o.stores = append(o.stores, s)
	}
	return o
}

type outbox struct {
	o   *owners
	key uint64
}

func (b outbox) Grant(to grant.Peer, g grant.Grant) {
	b.o.mail = append(b.o.mail, func(now int64) {
		a := &exchange.TokenAnswers{Grants: []exchange.TokenGrant{{Key: b.key, Grant: g}}}
		b.o.ended = b.o.stores[to].Answer(now, a, b.o.ended)
	})
}

func (b outbox) Recall(to grant.Peer, r grant.Recall) {
	b.o.mail = append(b.o.mail, func(now int64) {
		a := &exchange.TokenAnswers{Recalls: []exchange.TokenRecall{{Key: b.key, Recall: r}}}
		b.o.ended = b.o.stores[to].Answer(now, a, b.o.ended)
	})
}

// CallPart has nothing sent: replicas have no parts here.
func (b outbox) CallPart(grant.Peer) {}

// settle carries messages until nobody has any.
func (o *owners) settle(now int64) {
	for busy := true; busy; {
		busy = false
		for i, s := range o.stores {
			var asked exchange.TokenRequests
			s.Poll(now, &asked)
			for _, q := range asked.List {
				if o.dead {
					continue
				}
				busy = true
				k := o.by[q.Key]
				if k == nil {
					k = grant.NewOwner(grant.Params{Rate: 1, Burst: 5 * grant.Token}, 1+q.Key, now) // as key has it
					o.by[q.Key] = k
				}
				k.Request(now, grant.Peer(i), q.Request, outbox{o, q.Key})
			}
		}
		mail := o.mail
		o.mail = nil
		for _, deliver := range mail {
			busy = true
			deliver(now)
		}
	}
}

func key(n uint64) *Key { return &Key{Hash: n << 40, Numbers: Numbers{Rate: 1, Burst: 5}} }

// Two replicas spend one burst, whichever comes first; waiting requests are answered in order.
func TestOneBurst(t *testing.T) {
	o := newOwners(2, 10)
	admitted := 0
	for i := range 10 {
		s := o.stores[i%2]
		_, out := s.Join(key(1), 0, 0, &Waiter[int]{Of: i, Cost: grant.Token})
		if out == grant.Admitted {
			admitted++
		}
		o.settle(0)
	}
	last := -1
	for _, e := range o.ended {
		if e.Outcome == grant.Admitted {
			admitted++
		}
		if e.Waiter.Of < last {
			t.Errorf("%d ended after %d", e.Waiter.Of, last)
		}
		last = e.Waiter.Of
	}
	if admitted != 5 {
		t.Errorf("%d admitted, want the burst of 5", admitted)
	}
	if wait, out := o.stores[0].Take(key(1), 0, grant.Token); out != grant.Refused || wait <= 0 {
		t.Errorf("one more: %v, %d", out, wait)
	}
	if spent, wait, ok := o.stores[1].Usage(key(1), 0, grant.Token); !ok || spent != 5 || wait != second {
		t.Errorf("known: %v spent, %v to wait, %v", spent, wait, ok)
	}
}

// A client that stays at one replica waits once, and never again afterwards.
func TestAloneAsksOnce(t *testing.T) {
	o := newOwners(2, 10)
	s := o.stores[0]
	if _, out := s.Take(key(1), 0, grant.Token); out != grant.Waits {
		t.Fatalf("first: %v", out)
	}
	s.Join(key(1), 0, 0, &Waiter[int]{Cost: grant.Token})
	o.settle(0)
	for i := range 100 {
		now := second * int64(i+1)
		if _, out := s.Take(key(1), now, grant.Token); out != grant.Admitted {
			t.Fatalf("request %d: %v", i, out)
		}
		var asked exchange.TokenRequests
		if next := s.Poll(now, &asked); next != 0 || len(asked.List) != 0 {
			t.Fatalf("request %d: asked %v", i, asked.List)
		}
	}
}

// A request without an answer is left to the ledger. That is after Hold, and at once when the owner is
// known to be unreachable, when there is no agent, or when there is no room.
func TestUnanswered(t *testing.T) {
	o := newOwners(1, 1)
	o.dead = true
	s := o.stores[0]
	for _, at := range []int64{0, 4 * Hold} {
		s.Join(key(1), at, 0, &Waiter[int]{Cost: grant.Token, Since: at})
		o.settle(at)
		if e := s.Expire(at+Hold-1, nil); len(e) != 0 {
			t.Errorf("ended early: %+v", e)
		}
		if e := s.Expire(at+Hold, nil); len(e) != 1 || e[0].Outcome != grant.Unanswered {
			t.Errorf("ended: %+v", e)
		}
	}
	if _, out := s.Take(key(1), 5*Hold, grant.Token); out != grant.Unanswered {
		t.Errorf("a silent owner: %v", out)
	}
	if _, out := s.Join(key(2), 0, 0, &Waiter[int]{Cost: grant.Token}); out != grant.Unowned || s.Stats().Unowned != 1 {
		t.Errorf("no room: %v, %+v", out, s.Stats())
	}
	s.Link(0, false)
	if _, out := s.Take(key(3), 0, grant.Token); out != grant.Unanswered {
		t.Errorf("no agent: %v", out)
	}
	blocked := &Key{Hash: 9, Numbers: Numbers{Burst: 5}}
	if _, out := s.Take(blocked, 0, grant.Token); out != grant.Unanswered {
		t.Errorf("a rate of 0: %v", out)
	}
	if wait, out := s.Take(key(4), 0, 6*grant.Token); out != grant.Refused || wait != Never {
		t.Errorf("more than the burst: %v, %d", out, wait)
	}
	if none := (&Store[int]{}); true {
		none.Init(1, Hold, nil, nil)
		if _, out := none.Take(key(1), 0, grant.Token); out != grant.Unanswered {
			t.Errorf("nobody carries questions: %v", out)
		}
	}
}

// While the link is down a replica goes on with the bucket that it has, and forgets it in the end.
func TestLinkDown(t *testing.T) {
	o := newOwners(1, 10)
	s := o.stores[0]
	s.Join(key(1), 0, 0, &Waiter[int]{Cost: grant.Token})
	o.settle(0)
	s.Link(0, false)
	if _, out := s.Take(key(1), 0, grant.Token); out != grant.Admitted {
		t.Errorf("its own bucket: %v", out)
	}
	s.Link(0, true)
	var told exchange.TokenRequests
	if s.Poll(0, &told); len(told.List) != 0 {
		t.Errorf("an agent that lives on is told %+v", told.List)
	}
	s.Answer(0, &exchange.TokenAnswers{Owners: exchange.Owners{View: 7, List: []exchange.Owner{{Hash: 1, Life: 2}}}}, nil)
	if s.Poll(0, &told); len(told.List) != 1 || !told.List[0].Register || !told.List[0].Exclusive || told.Registered != 0 {
		t.Errorf("another owner is told %+v", told)
	}
	s.Link(0, false)
	s.Forget()
	if _, out := s.Take(key(1), 0, grant.Token); out != grant.Unanswered || s.Stats().Keys != 0 {
		t.Errorf("forgotten: %v, %+v", out, s.Stats())
	}
}

// A request that joins while the link goes ends as those before it: it does not wait until the link
// is up again.
func TestLinkGoesWhileJoining(t *testing.T) {
	s := newOwners(1, 10).stores[0]
	k, w := key(1), &Waiter[int]{Cost: grant.Token}
	sh := s.shard(k.Hash)
	join := func() { // as Join does it
		sh.mu.Lock()
		defer sh.mu.Unlock()
		en := s.obtain(sh, k, 0, 0)
		if out := en.g.Take(0, w.Cost); out != grant.Waits {
			t.Fatalf("the first request: %v", out)
		}
		en.join(w)
		s.linked.Store(false)
		s.end(sh, en, 0, grant.Waits)
	}
	join()
	if e := s.Expire(0, nil); len(e) != 1 || e[0].Waiter != w || e[0].Outcome != grant.Unanswered {
		t.Errorf("ended: %+v", e)
	}
}

// A key at rest is released, and its owner can give the bucket to another replica at once.
func TestSweep(t *testing.T) {
	o := newOwners(2, 10)
	o.stores[0].Join(key(1), 0, 0, &Waiter[int]{Cost: grant.Token})
	o.settle(0)
	now := keep + 2*second
	for range shards {
		o.stores[0].Sweep(now)
		now += sweepAll / shards
	}
	if n := o.stores[0].Stats().Keys; n != 0 {
		t.Fatalf("%d keys", n)
	}
	o.settle(now)
	if len(o.ended) != 1 {
		t.Fatalf("%d ended", len(o.ended))
	}
	o.stores[1].Join(key(1), now, 0, &Waiter[int]{Cost: grant.Token, Since: now})
	o.settle(now)
	if len(o.ended) != 2 || o.ended[1].Outcome != grant.Admitted {
		t.Errorf("ended: %+v", o.ended)
	}
}

// TestPropertyEnds: whatever comes in whatever order, each wait ends once, and no more than
// rate·t + burst is admitted while the owners answer.
func TestPropertyEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOwners(3, 100)
		waiting, now, admitted := map[*Waiter[int]]*Store[int]{}, int64(0), map[uint64]int{}
		end := func() {
			for _, e := range o.ended {
				if waiting[e.Waiter] == nil {
					t.Fatal("a wait ended twice")
				}
				delete(waiting, e.Waiter)
				if e.Outcome == grant.Admitted {
					admitted[e.Waiter.key]++
				}
			}
			o.ended = nil
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s := o.stores[rapid.IntRange(0, 2).Draw(t, "store")]
			k := key(uint64(rapid.IntRange(1, 2).Draw(t, "key")))
			now += int64(rapid.IntRange(0, 20).Draw(t, "ms")) * millisecond
			switch rapid.SampledFrom([]string{"join", "join", "join", "take", "leave", "settle", "moved", "sweep"}).Draw(t, "what") {
			case "join":
				w := &Waiter[int]{Cost: grant.Token, Since: now}
				switch _, out := s.Join(k, now, 0, w); out {
				case grant.Waits:
					waiting[w] = s
				case grant.Admitted:
					admitted[k.Hash]++
				}
			case "take":
				if _, out := s.Take(k, now, grant.Token); out == grant.Admitted {
					if rapid.Bool().Draw(t, "put back") {
						s.PutBack(k, now, grant.Token)
					} else {
						admitted[k.Hash]++
					}
				}
			case "leave":
				for w, s := range waiting {
					if s.Leave(w, now) {
						delete(waiting, w)
					}
					break
				}
			case "settle":
				o.settle(now)
			case "moved":
				s.Link(now, true)
			case "sweep":
				s.Sweep(now)
			}
			for _, s := range o.stores {
				o.ended = s.Expire(now, o.ended)
			}
			end()
		}
		o.settle(now)
		for _, s := range o.stores {
			o.ended = s.Expire(now+Hold, o.ended)
		}
		end()
		if len(waiting) != 0 {
			t.Fatalf("%d wait for ever", len(waiting))
		}
		for k, n := range admitted {
			if most := 5 + float64(now)/1e9 + 1e-6; float64(n) > most {
				t.Fatalf("%d admitted of key %d, at most %v", n, k>>40, most)
			}
		}
	})
}

// A question that its owner has received is repeated within the time of a request that waits, since the answer may
// be lost; while the owner listens it is not.
func TestPendingIsRepeated(t *testing.T) {
	for wait, want := range map[int64]int{0: 1, second: 0} {
		o := newOwners(1, 10)
		s := o.stores[0]
		s.Join(key(1), second, 0, &Waiter[int]{Cost: grant.Token, Since: second})
		var asked, again exchange.TokenRequests
		s.Poll(second, &asked)
		q := asked.List[0]
		s.Answer(second+millisecond, &exchange.TokenAnswers{Grants: []exchange.TokenGrant{{Key: q.Key, Grant: grant.Grant{
			Owner: 9, Session: q.Session, Seq: q.Seq, Pending: true, Wait: wait}}}}, nil)
		if s.Poll(second+Hold*3/4, &again); len(again.List) != want {
			t.Errorf("the owner listens for %d s: asked %d times more within Hold", wait/second, len(again.List))
		}
	}
}

// A store without keys has nothing to say until it is woken: then it says whose owners it goes by.
func TestPollWithoutKeys(t *testing.T) {
	s, woken := &Store[int]{}, 0
	var out exchange.TokenRequests
	s.Init(1, HoldGlobal, func() { woken++ }, nil)
	s.Link(0, true)
	for view := range uint64(2) {
		s.Answer(0, &exchange.TokenAnswers{Owners: exchange.Owners{View: view + 1, List: []exchange.Owner{{Hash: 1, Life: 2}}}}, nil)
		if s.Poll(0, &out); out.Registered != view+1 || woken != int(view)+1 {
			t.Errorf("registered with the owners %d, want %d; woken %d times", out.Registered, view+1, woken)
		}
		if s.Poll(0, &out); !out.Empty() {
			t.Errorf("again: %+v, want nothing", out)
		}
	}
}
