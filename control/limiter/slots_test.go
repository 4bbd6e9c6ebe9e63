package limiter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

// slotFleet is engines with concurrency limits, and the one owner of all keys, who answers when settle is called.
type slotFleet struct {
	t       *testing.T
	now     int64
	engines []*Engine
	owners  map[uint64]*slots.Owner
	answers [][]exchange.SlotReply
	echo    []int64
	dead    bool
}

type slotOutbox struct {
	f   *slotFleet
	key uint64
}

func (o slotOutbox) Reply(to slots.Peer, m slots.Reply) {
	o.f.answers[to] = append(o.f.answers[to], exchange.SlotReply{Key: o.key, Reply: m})
}

const slotLife = 9

func newSlotFleet(t *testing.T, n int, c *config.Config) *slotFleet {
	t.Helper()
	f := &slotFleet{t: t, now: sec, owners: map[uint64]*slots.Owner{}, answers: make([][]exchange.SlotReply, n),
		echo: make([]int64, n)}
	for range n {
		e := New(Options{Keys: 1024, Ask: func() {}})
		mustApply(t, e, c)
		e.LinkTokens(f.now, true)
		e.LinkSlots(true)
		e.AnswerTokens(f.now, &exchange.TokenAnswers{Owners: exchange.Owners{View: 1,
			List: []exchange.Owner{{Hash: 1, Life: slotLife}}}}, nil)
		f.engines = append(f.engines, e)
	}
	f.settle()
	return f
}

// settle carries messages until there are none.
func (f *slotFleet) settle() (events []Event) {
	rounds := 0
	for busy := !f.dead; busy; {
		busy = false
		if rounds++; rounds > 120 {
			f.t.Fatal("messages without end")
		}
		for i, e := range f.engines {
			asks, _, _ := e.PollSlots(f.now, nil)
			for _, m := range asks {
				f.echo[i], busy = m.Sent, true
				for _, a := range m.List {
					f.ask(i, &a)
				}
			}
		}
		for i, e := range f.engines {
			if len(f.answers[i]) > 0 || busy {
				list := f.answers[i]
				f.answers[i] = nil
				busy = busy || len(list) > 0
				events = e.AnswerSlots(f.now, &exchange.SlotReplies{Owner: slotLife, Echo: f.echo[i], List: list}, events)
			}
		}
	}
	return events
}

func (f *slotFleet) ask(i int, a *exchange.SlotAsk) {
	o := f.owners[a.Key]
	if o == nil {
		var in config.Set
		in.Replace(f.engines[i].snap.Load().source())
		key, most, ok := SlotKey(&in, 0, &a.KeyName)
		if !ok || key != a.Key {
			f.t.Fatalf("an engine asks about %+v, which is no key of a concurrency limit", a)
		}
		o = slots.NewOwner(most, slotLife, 0)
		f.owners[a.Key] = o
	}
	o.Ask(f.now, slots.Peer(i), a.Ask, slotOutbox{f, a.Key})
}

// start sends a request and returns its outcome once it has waited.
func (f *slotFleet) start(i int, r Request, ticket uint64) Outcome {
	e := f.engines[i]
	out := e.Decide(f.now, &r)
	if out.Verdict != Wait {
		return out
	}
	out, _ = e.Enqueue(f.now, &r, ticket)
	if out.Verdict != Wait {
		return out
	}
	for range 20 {
		events := f.settle()
		events = e.Tick(f.now, events)
		for _, ev := range events {
			if ev.Ticket == ticket {
				return ev.Outcome
			}
		}
		f.now += 2e6
	}
	f.t.Fatal("a request waits for longer than it may")
	return out
}

func concurrency(n int64, more ...func(*config.Limit)) *config.Config {
	l := config.Limit{Name: "flight", Concurrency: n}
	for _, f := range more {
		f(&l)
	}
	return simple(1e6, config.Queue{Law: config.Police}, l)
}

// Two gateways start as many requests as the limit has slots, together; a slot that is freed is used again.
func TestConcurrency(t *testing.T) {
	f := newSlotFleet(t, 2, concurrency(5))
	var held []Slots
	for i := range 5 {
		out := f.start(i%2, Request{Tenant: "a", Client: "c", Pool: "api"}, uint64(i+1))
		if out.Verdict != Admit || out.Slots == 0 {
			t.Fatalf("request %d: %+v, want a slot", i, out)
		}
		held = append(held, out.Slots)
	}
	if out := f.start(0, Request{Tenant: "a", Client: "c", Pool: "api"}, 9); out.Verdict != Reject ||
		out.Reason != ClientLimit || out.Limit != "flight" || out.RetryAfter <= 0 {
		t.Errorf("a sixth request: %+v, want it refused by the limit", out)
	}
	if out := f.start(0, Request{Tenant: "a", Client: "other", Pool: "api"}, 10); out.Verdict != Admit {
		t.Errorf("another client: %+v", out)
	}
	f.engines[1].FreeSlots(f.now, held[1], nil)
	f.engines[1].FreeSlots(f.now, held[1], nil) // nothing
	if out := f.start(0, Request{Tenant: "a", Client: "c", Pool: "api"}, 11); out.Verdict != Admit {
		t.Errorf("after a request has ended: %+v", out)
	}
	if out := f.start(1, Request{Tenant: "a", Client: "c", Pool: "api"}, 12); out.Verdict != Reject {
		t.Errorf("a sixth request again: %+v", out)
	}
}

// A request that waits gets the slot of the next request that ends.
func TestSlotPassesOn(t *testing.T) {
	f := newSlotFleet(t, 1, concurrency(1))
	e, r := f.engines[0], Request{Tenant: "a", Client: "c", Pool: "api"}
	first := f.start(0, r, 1)
	if out, _ := e.Enqueue(f.now, &r, 2); out.Verdict != Wait {
		t.Fatalf("%+v, want it to wait", out)
	}
	events := e.FreeSlots(f.now, first.Slots, nil)
	if len(events) != 1 || events[0].Ticket != 2 || events[0].Outcome.Verdict != Admit || events[0].Outcome.Slots == 0 {
		t.Fatalf("%+v", events)
	}
	out, h := e.Enqueue(f.now, &r, 3)
	if out.Verdict != Wait || !e.Cancel(f.now, h) || e.Cancel(f.now, h) {
		t.Fatalf("%+v: a request that waits can be cancelled once", out)
	}
	if events := e.FreeSlots(f.now, events[0].Outcome.Slots, nil); len(events) != 0 {
		t.Errorf("a cancelled request goes on: %+v", events)
	}
	if s := e.slots.keys.Stats(); s.Used != 0 {
		t.Errorf("%+v", s)
	}
}

// With a queue requests wait for longer, as many as the queue says, in their order.
func TestSlotsWithAQueue(t *testing.T) {
	f := newSlotFleet(t, 1, concurrency(1, func(l *config.Limit) {
		l.Queue = config.Queue{Law: config.DropTail, MaxWait: 3 * time.Second, MaxRequests: 2}
	}))
	e, r := f.engines[0], Request{Tenant: "a", Client: "c", Pool: "api"}
	first := f.start(0, r, 1)
	for ticket := range uint64(2) {
		if out, _ := e.Enqueue(f.now, &r, 2+ticket); out.Verdict != Wait || out.RetryAfter != 3*time.Second {
			t.Fatalf("%+v, want it to wait", out)
		}
		f.settle()
	}
	if out, _ := e.Enqueue(f.now, &r, 4); out.Verdict != Reject || out.Reason != ClientLimit {
		t.Errorf("%+v, want a third one refused", out)
	}
	step := func(d time.Duration) (events []Event) {
		for until := f.now + int64(d); f.now < until; f.now += 50e6 {
			events = append(events, f.settle()...)
			events = e.Tick(f.now, events)
		}
		return events
	}
	if events := step(2 * time.Second); len(events) != 0 {
		t.Fatalf("%+v after 2 s", events)
	}
	events := e.FreeSlots(f.now, first.Slots, nil)
	if len(events) != 1 || events[0].Ticket != 2 || events[0].Outcome.Waited < 2*time.Second {
		t.Fatalf("%+v, want the first one that waited", events)
	}
	events = step(1100 * time.Millisecond)
	if len(events) != 1 || events[0].Ticket != 3 || events[0].Outcome.Verdict != Reject {
		t.Errorf("%+v, want the other one refused after 3 s", events)
	}
}

// Overrides, a limit per tenant, SHADOW, and a rate beside the concurrency.
func TestKindsOfConcurrency(t *testing.T) {
	few := func(l *config.Limit) { l.Overrides = map[string]config.RateBurst{"small": {Concurrency: 1}} }
	whole := func(l *config.Limit) { l.PerTenant = true }
	shadow := func(l *config.Limit) { l.Mode = config.Shadow }
	for _, c := range []struct {
		what   string
		config *config.Config
		client []string
		want   int
	}{
		{"override", concurrency(5, few), []string{"small"}, 1},
		{"per tenant", concurrency(3, whole), []string{"x", "y"}, 3},
		{"shadow", concurrency(2, shadow), []string{"x"}, 20},
	} {
		f, got := newSlotFleet(t, 2, c.config), 0
		for i := range 20 {
			out := f.start(i%2, Request{Tenant: "a", Client: c.client[i%len(c.client)], Pool: "api"}, uint64(i+1))
			if out.Verdict == Admit {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d started, want %d", c.what, got, c.want)
		}
	}
}

// A request that a rate refuses keeps no slot.
func TestRefusedKeepsNoSlot(t *testing.T) {
	c := concurrency(5)
	c.Tenants[0].Limits = append(c.Tenants[0].Limits, config.Limit{Name: "rate", Rate: 1, Burst: 2})
	f := newSlotFleet(t, 1, c)
	for i := range 10 {
		f.start(0, Request{Tenant: "a", Client: "c", Pool: "api"}, uint64(i+1))
	}
	if s := f.engines[0].slots.keys.Stats(); s.Used != 2 {
		t.Errorf("%d slots in use by 2 requests", s.Used)
	}
}

// Whatever requests come, end, wait and are cancelled at three gateways, no more are in flight than the limit says.
func TestConcurrencyAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		f := newSlotFleet(t, 3, concurrency(4))
		type flying struct {
			engine int
			slots  Slots
		}
		var in []flying
		waits := map[uint64]int{}
		handles := map[uint64]Handle{}
		note := func(events []Event) {
			for _, ev := range events {
				engine, known := waits[ev.Ticket]
				if !known {
					t.Fatalf("seed %d: an event of %d, which does not wait", seed, ev.Ticket)
				}
				delete(waits, ev.Ticket)
				if ev.Outcome.Verdict == Admit {
					in = append(in, flying{engine, ev.Outcome.Slots})
				}
			}
		}
		ticket := uint64(0)
		for range 4000 {
			f.now += int64(r.IntN(3e6))
			i := r.IntN(3)
			e := f.engines[i]
			switch r.IntN(6) {
			case 0, 1:
				req := Request{Tenant: "a", Client: "c", Pool: "api"}
				out := e.Decide(f.now, &req)
				if out.Verdict == Wait {
					ticket++
					var h Handle
					if out, h = e.Enqueue(f.now, &req, ticket); out.Verdict == Wait {
						waits[ticket], handles[ticket] = i, h
					}
				}
				if out.Verdict == Admit {
					in = append(in, flying{i, out.Slots})
				}
			case 2, 3:
				if len(in) > 0 {
					n := r.IntN(len(in))
					one := in[n]
					in = append(in[:n], in[n+1:]...)
					note(f.engines[one.engine].FreeSlots(f.now, one.slots, nil))
				}
			case 4:
				note(f.settle())
			case 5:
				for t, i := range waits {
					if f.engines[i].Cancel(f.now, handles[t]) {
						delete(waits, t)
					}
					break
				}
				note(e.Tick(f.now, nil))
			}
			if len(in) > 4 {
				t.Fatalf("seed %d: %d in flight, the limit is 4", seed, len(in))
			}
		}
	}
}

// A limit in SHADOW beside a limit that makes the request wait is asked once.
func TestALimitInShadowIsAskedOnce(t *testing.T) {
	c := simple(1e6, config.Queue{Law: config.Police}, config.Limit{Name: "watched", Concurrency: 5, Mode: config.Shadow},
		config.Limit{Name: "flight", Concurrency: 5})
	f := newSlotFleet(t, 1, c)
	if out := f.start(0, Request{Tenant: "a", Client: "c", Pool: "api"}, 1); out.Verdict != Admit || out.Slots == 0 {
		t.Fatalf("%+v", out)
	}
	if n := f.engines[0].slots.keys.Stats().Waited; n != 2 {
		t.Errorf("%d waits, want one for each limit", n)
	}
}

// Slots that were lent to a stream which does not begin are free a second later; kept ones are not.
func TestLentSlotsAreFreed(t *testing.T) {
	f := newSlotFleet(t, 1, concurrency(2))
	e := f.engines[0]
	kept := f.start(0, Request{Tenant: "a", Client: "c", Pool: "api"}, 1).Slots
	lost := f.start(0, Request{Tenant: "a", Client: "c", Pool: "api"}, 2).Slots
	e.LendSlots(f.now, kept)
	e.LendSlots(f.now, lost)
	if !e.KeepSlots(kept) || e.KeepSlots(kept) {
		t.Error("lent slots are kept once")
	}
	for _, c := range []struct {
		after int64
		used  int
	}{{lendFor - 1, 2}, {lendFor, 1}} {
		e.Tick(f.now+c.after, nil)
		if n := e.slots.keys.Stats().Used; n != c.used {
			t.Errorf("%d slots in use after %d ns, want %d", n, c.after, c.used)
		}
	}
	if e.KeepSlots(lost) {
		t.Error("slots that are free were kept")
	}
}

// A decision that panics once a request has its slots keeps none.
func TestAPanicKeepsNoSlot(t *testing.T) {
	f := newSlotFleet(t, 1, concurrency(2))
	e := f.engines[0]
	r := Request{Tenant: "a", Client: "c", Pool: "api"}
	f.start(0, r, 1)
	e.FreeSlots(f.now, f.start(0, r, 2).Slots, nil) // the gateway has an idle slot
	rt, _ := e.findRoute(&r)
	rt.limits = append(rt.limits, nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing panicked")
			}
		}()
		e.Decide(f.now, &r)
	}()
	if n := e.slots.keys.Stats().Used; n != 1 {
		t.Errorf("%d slots in use, want the first request's", n)
	}
}
