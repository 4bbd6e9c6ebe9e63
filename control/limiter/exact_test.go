package limiter

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// exactFleet is engines with EXACT limits, and the owners of their keys, who answer when settle
// is called.
type exactFleet struct {
	roster *grant.Roster // nil: no gateway has parts
	calls  []partCall    // of parts, to be sent
	asked  int           // requests to owners

	t       *testing.T
	engines []*Engine
	owners  map[uint64]*grant.Owner
	answers [][]exchange.TokenAnswers // on their way, by engine
	events  []Event
	dead    bool
	lost    map[int]bool          // engines whose messages to owners are lost
	learned int                   // messages that send an owner what is spent
	gap     float64               // for how long some of the others were unreachable, as the sums say, seconds
	full    func(engine int) bool // owners have no room for what it asks; nil: they have
	told    announced
	waits   int
}

type exactOutbox struct {
	f   *exactFleet
	key uint64
}

func (o exactOutbox) Grant(to grant.Peer, g grant.Grant) {
	o.f.answers[to] = append(o.f.answers[to],
		exchange.TokenAnswers{Grants: []exchange.TokenGrant{{Key: o.key, Grant: g}}})
}

func (o exactOutbox) Recall(to grant.Peer, r grant.Recall) {
	o.f.answers[to] = append(o.f.answers[to],
		exchange.TokenAnswers{Recalls: []exchange.TokenRecall{{Key: o.key, Recall: r}}})
}

// CallPart has the part of a key called with the next messages.
func (o exactOutbox) CallPart(to grant.Peer) { o.f.calls = append(o.f.calls, partCall{to, o.key}) }

type partCall struct {
	to  grant.Peer
	key uint64
}

// callParts carries the calls of parts, and the answers of an engine.
func (f *exactFleet) callParts(now int64, i int, answers []exchange.PartAnswer) (busy bool) {
	for _, a := range answers {
		busy = true
		f.owners[a.Key].PartAnswer(now, grant.Peer(i), a.PartAnswer, exactOutbox{f, a.Key})
	}
	calls := f.calls
	f.calls = nil
	for _, c := range calls {
		if m, ok := f.owners[c.key].Calling(now, c.to); ok {
			busy = true
			f.answers[c.to] = append(f.answers[c.to],
				exchange.TokenAnswers{Calls: []exchange.PartCall{{Key: c.key, PartCall: m}}})
		}
	}
	return busy
}

func newExactFleet(t *testing.T, n int, c *config.Config) *exactFleet {
	t.Helper()
	f := &exactFleet{t: t, owners: map[uint64]*grant.Owner{}, answers: make([][]exchange.TokenAnswers, n)}
	for range n {
		e := New(Options{Keys: 1024, Ask: func() {}})
		mustApply(t, e, c)
		e.LinkTokens(sec, true)
		f.engines = append(f.engines, e)
	}
	return f
}

// allowedBy returns what an engine's configuration allows the key that a request names.
func allowedBy(e *Engine, q *exchange.TokenRequest) grant.Params {
	var in config.Set
	in.Replace(e.snap.Load().source())
	if key, p, ok := ExactKey(&in, 0, &q.KeyName); ok && key == q.Key {
		return p
	}
	return grant.Params{Rate: 1, Burst: grant.Token} // it is not named: nothing is granted
}

// settle carries messages until nobody has any.
func (f *exactFleet) settle(now int64) {
	for busy := !f.dead; busy; {
		busy = f.askOwners(now)
		for i, e := range f.engines {
			waiting := f.answers[i]
			f.answers[i] = nil
			for j := range waiting {
				busy = true
				f.events = e.AnswerTokens(now, &waiting[j], f.events)
			}
		}
	}
}

// askOwners carries what the engines say to owners, and reports whether they have said anything.
func (f *exactFleet) askOwners(now int64) (asks bool) {
	for i, e := range f.engines {
		var asked exchange.TokenRequests
		e.PollTokens(now, &asked)
		if f.lost[i] {
			continue
		}
		for _, q := range asked.List {
			asks = true
			if q.Register {
				f.learned++
			}
			if f.full != nil && f.full(i) {
				exactOutbox{f, q.Key}.Grant(grant.Peer(i), grant.Grant{Session: q.Session, Seq: q.Seq, NoRoom: true})
				continue
			}
			k := f.owners[q.Key]
			if k == nil {
				k = grant.NewOwner(allowedBy(e, &q), 1+q.Key, now)
				f.owners[q.Key] = k
				if f.roster != nil {
					k.BeginRoster(now, f.roster)
				}
			}
			f.asked++
			k.Request(now, grant.Peer(i), q.Request, exactOutbox{f, q.Key})
		}
		asks = f.callParts(now, i, asked.Answers) || asks
	}
	return asks
}

// ask lets an engine decide a request, and enqueues it if it has to wait.
func (f *exactFleet) ask(i int, now int64, r Request, ticket uint64) (Outcome, Handle) {
	out, h := f.engines[i].Decide(now, &r), Handle(0)
	if out.Verdict == Wait {
		out, h = f.engines[i].Enqueue(now, &r, ticket)
	}
	return out, h
}

// total plays requests to the end and counts the admitted ones.
func (f *exactFleet) total(i int, now int64, r Request, n int) (admitted int) {
	f.t.Helper()
	f.events = nil
	waits := 0
	for range n {
		switch out, _ := f.ask(i, now, r, 9); out.Verdict {
		case Admit:
			admitted++
		case Wait:
			waits++
			f.settle(now)
		}
	}
	f.settle(now)
	for _, e := range f.events {
		if waits--; e.Outcome.Verdict == Admit {
			admitted++
		}
	}
	if waits != 0 {
		f.t.Errorf("%d requests were not told what became of them", waits)
	}
	return admitted
}

func exactly(name string, rate, burst float64) config.Limit {
	return config.Limit{Name: name, Rate: rate, Burst: burst, Precision: config.Exact}
}

// A burst is spent once, in a pool, across pools and by a tenant as a whole, wherever it is spent.
func TestExactBurst(t *testing.T) {
	perTenant := exactly("l", 1, 10)
	perTenant.PerTenant = true
	for name, tc := range map[string]struct {
		l    config.Limit
		pool string
	}{
		"in a pool": {exactly("l", 1, 10), "api"}, "no pool": {exactly("l", 1, 10), "else"},
		"tenant": {perTenant, "api"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newExactFleet(t, 3, simple(1000, config.Queue{}, tc.l))
			r := Request{Tenant: "a", Client: "c", Pool: tc.pool, Cost: 1}
			sum := f.total(0, sec, r, 4) + f.total(1, sec, r, 4) + f.total(2, sec, r, 4)
			if sum != 10 {
				t.Errorf("%d admitted at once, want the burst of 10", sum)
			}
			if n := f.total(0, 4*sec, r, 10) + f.total(1, 4*sec, r, 10); n != 3 {
				t.Errorf("%d admitted 3 s later, want 3", n)
			}
			if out, _ := f.ask(2, 4*sec, r, 9); out.Verdict == Wait {
				f.settle(4 * sec)
				if out = f.events[len(f.events)-1].Outcome; out.Verdict != Reject || out.Reason != ClientLimit ||
					out.Limit != "l" || out.RetryAfter <= 0 {
					t.Errorf("one more: %+v", out)
				}
			}
		})
	}
}

// A client that stays where it is waits for its first request only, and Peek charges nothing.
func TestExactPinned(t *testing.T) {
	f := newExactFleet(t, 2, simple(1000, config.Queue{}, exactly("l", 1, 3)))
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	if n := f.total(0, sec, r, 1); n != 1 {
		t.Fatal("the first request is refused")
	}
	e := f.engines[0]
	for range 5 {
		if out, left := e.Peek(sec, &r); out.Verdict != Admit || left.Remaining != 2 {
			t.Fatalf("peek: %+v, %+v", out, left)
		}
	}
	for i, want := range []Verdict{Admit, Admit, Reject} {
		if out := e.Decide(sec, &r); out.Verdict != want {
			t.Errorf("request %d: %+v", i, out)
		}
	}
	if out, left := e.Peek(sec, &r); out.Verdict != Reject || left.Wait != time.Second {
		t.Errorf("peek at an empty bucket: %+v, %+v", out, left)
	}
	var s Stats
	e.Stats(sec, &s)
	if s.Exact.Waited != 1 || s.Exact.Unanswered != 0 || s.Exact.Keys != 1 {
		t.Errorf("counted: %+v", s.Exact)
	}
	for i := range int64(100) { // each tick looks at a part of the keys
		e.Tick(60*sec+i*sec/10, nil)
	}
	if e.Stats(70*sec, &s); s.Exact.Keys != 0 {
		t.Errorf("a key at rest is kept: %+v", s.Exact)
	}
}

// A request that a second limit refuses, or the share, has taken no token; nor has a request that
// goes away while it waits.
func TestExactAllOrNone(t *testing.T) {
	two := simple(1000, config.Queue{}, exactly("a", 1, 10), exactly("b", 1, 2))
	f := newExactFleet(t, 2, two)
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	if n := f.total(0, sec, r, 8); n != 2 {
		t.Errorf("%d admitted, want the smaller burst of 2", n)
	}
	one := simple(1000, config.Queue{}, exactly("a", 1, 10))
	one.Revision = 2
	for _, e := range f.engines {
		mustApply(t, e, one)
	}
	if n := f.total(0, sec, r, 5) + f.total(1, sec, r, 20); n != 8 {
		t.Errorf("%d more admitted by the larger one alone, want 8", n)
	}

	f = newExactFleet(t, 1, two)
	e := f.engines[0]
	out, h := e.Enqueue(sec, &r, 5)
	if out.Verdict != Wait || !e.Busy() || !e.Cancel(sec, h) || e.Cancel(sec, h) || e.Busy() {
		t.Errorf("a request that goes away: %+v", out)
	}
	f.settle(sec)
	if n := f.total(0, sec, r, 3); n != 2 || len(f.events) > 3 {
		t.Errorf("%d admitted afterwards, want 2", n)
	}
}

// A request that has its token and waits for the share can be cancelled by its handle of before.
func TestExactThenShare(t *testing.T) {
	f := newExactFleet(t, 1, simple(1, config.Queue{Law: config.DropTail, MaxWait: time.Second}, exactly("a", 1, 5)))
	e := f.engines[0]
	e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: 1}}})
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	var handles []Handle
	for i := range 5 {
		_, h := e.Enqueue(sec, &r, uint64(i+1))
		handles = append(handles, h)
	}
	f.settle(sec)
	gone := len(f.events)
	for i, h := range handles {
		if h != 0 && e.Cancel(sec, h) {
			gone++
		} else if h != 0 && gone == 0 {
			t.Errorf("request %d cannot be cancelled", i)
		}
	}
	if gone != 5 || e.Busy() && e.waiting.Load() != 0 {
		t.Errorf("%d of 5 ended, %d wait", gone, e.waiting.Load())
	}
	// All requests but the admitted ones have put their tokens back, and their ledger charges.
	left := 5.0
	for _, ev := range f.events {
		if ev.Outcome.Verdict == Admit {
			left--
		}
	}
	if free := e.Explain(sec, &r).Limits[0].Free; free != left || left == 5 {
		t.Errorf("%v tokens are left, want %v", free, left)
	}
	e.LinkTokens(sec, false)
	if free := e.Explain(sec, &r).Limits[0].Free; free != left {
		t.Errorf("the ledger has %v left, want %v", free, left)
	}
	e.Tick(sec, nil)
	if n := len(e.places.moved); n != 0 {
		t.Errorf("%d places are kept", n)
	}
	if _, flows := tallied(e, sec); flows.Waited != 5 || flows.LimitWaited != 5 {
		t.Errorf("5 requests waited for the owner, some for the share, too: %+v", flows)
	}
}

// What a response has cost beyond its estimate is debt of the one bucket.
func TestExactSettle(t *testing.T) {
	f := newExactFleet(t, 2, simple(1000, config.Queue{}, exactly("l", 1, 10)))
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	f.total(0, sec, r, 1)
	f.engines[0].Settle(sec, &r, Plain, 7)
	f.settle(sec)
	if n := f.total(1, sec, r, 10); n != 3 {
		t.Errorf("%d admitted at the other gateway after a cost of 7, want 3", n)
	}
}

// While nobody answers, the ledger decides after a wait; what it admits the owner learns later.
func TestExactSilentOwner(t *testing.T) {
	f := newExactFleet(t, 1, simple(1000, config.Queue{}, exactly("l", 1, 3)))
	f.dead = true
	e, r, now := f.engines[0], Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}, sec
	admitted := 0
	for range 6 {
		if out, _ := f.ask(0, now, r, 1); out.Verdict == Admit {
			admitted++
		}
		now += 60 * int64(time.Millisecond)
		for _, ev := range e.Tick(now, nil) {
			if ev.Outcome.Verdict == Admit {
				admitted++
			}
			if ev.Outcome.Waited < 50*time.Millisecond {
				t.Errorf("waited %v", ev.Outcome.Waited)
			}
		}
		if n := e.waiting.Load(); n != 0 {
			t.Errorf("%d wait for a silent owner again", n)
		}
	}
	if admitted != 3 {
		t.Errorf("%d admitted by the ledger, want the burst of 3", admitted)
	}
	f.dead = false
	f.settle(now + sec)
	if n := f.total(0, now+sec, r, 5); n > 1 {
		t.Errorf("%d admitted once the owner knows, want 1 at most", n)
	}
}

// A drain ends all waits by the boot policy; SHADOW and OFF requests never wait.
func TestExactDrainAndShadow(t *testing.T) {
	f := newExactFleet(t, 1, simple(1000, config.Queue{}, exactly("l", 1, 3)))
	e, r := f.engines[0], Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	for i := range 3 {
		e.Enqueue(sec, &r, uint64(i+1))
	}
	if out := e.Drain(sec, nil); len(out) != 3 || out[0].Outcome.Verdict != Admit || e.Busy() {
		t.Errorf("drained: %+v", out)
	}
	for _, m := range []config.Mode{config.Shadow, config.Off} {
		r.Mode = m
		if out := e.Decide(sec, &r); out.Verdict != Admit {
			t.Errorf("%v: %+v", m, out)
		}
	}
}

// Reports say of each EXACT limit how often requests waited for the owner, for how long, and how
// often the ledger decided since the owner did not answer.
func TestExactIsCounted(t *testing.T) {
	f := newExactFleet(t, 1, simple(1000, config.Queue{}, exactly("l", 1, 3)))
	e, r := f.engines[0], Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	if out, _ := f.ask(0, sec, r, 1); out.Verdict != Wait {
		t.Fatalf("the first request: %+v", out)
	}
	f.settle(sec + 2*int64(time.Millisecond))
	if n := f.total(0, sec+3*int64(time.Millisecond), r, 1); n != 1 {
		t.Fatalf("%d admitted of the bucket that it has", n)
	}
	limits, flows := tallied(e, 2*sec)
	got := limits[limitName{"a", "l"}]
	if got.OwnerWaited != 1 || got.OwnerMicros != 2000 || got.OwnerSilent != 0 {
		t.Errorf("an owner that answers: %+v", got)
	}
	if flows.Waited != 1 || flows.LimitWaited != 1 {
		t.Errorf("the wait is not the limit's: %+v", flows)
	}
	f.dead = true
	other := Request{Tenant: "a", Client: "d", Pool: "api", Cost: 1}
	f.ask(0, 3*sec, other, 2)
	e.Tick(3*sec+60*int64(time.Millisecond), nil)
	limits, _ = tallied(e, 4*sec)
	got = limits[limitName{"a", "l"}]
	if got.OwnerWaited != 1 || got.OwnerMicros != 60_000 || got.OwnerSilent != 1 {
		t.Errorf("a silent owner: %+v", got)
	}
	if x := e.Explain(4*sec, &other); !x.Limits[0].Exact || x.Limits[0].Silent {
		t.Errorf("it may answer yet: %+v", x.Limits[0])
	}
	f.ask(0, 4*sec, other, 3)
	if x := e.Explain(4*sec, &other); !x.Limits[0].Silent {
		t.Errorf("a silent owner: %+v", x.Limits[0])
	}
	nobody := Request{Tenant: "a", Client: "nobody", Pool: "api", Cost: 1}
	if x := e.Explain(4*sec, &nobody); !x.Limits[0].Exact || x.Limits[0].Silent {
		t.Errorf("an owner that was not asked: %+v", x.Limits[0])
	}
	e.LinkTokens(4*sec, false)
	if x := e.Explain(4*sec, &nobody); !x.Limits[0].Silent {
		t.Errorf("no link: %+v", x.Limits[0])
	}
}

// A client may invent names of pools: the event of a request that waited does not have them.
func TestEventsNameNoInventedPools(t *testing.T) {
	f := newExactFleet(t, 1, unstated(1, 20))
	f.gossip(sec, true)
	for ticket, pool := range []string{"invented", "api"} {
		f.events = nil
		r := Request{Tenant: "a", Client: "c" + pool, Pool: pool, Cost: 1}
		if out, _ := f.ask(0, sec, r, uint64(ticket+1)); out.Verdict != Wait {
			t.Fatalf("%s: %+v", pool, out)
		}
		f.settle(sec)
		want := pool
		if pool == "invented" {
			want = ""
		}
		if len(f.events) != 1 || f.events[0].Pool != want {
			t.Errorf("%s: %+v", pool, f.events)
		}
	}
}
