package limiter

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// Places of the tests.
const (
	ipAt, userAt     = 0, 1
	writes, searches = uint32(1) << 0, uint32(1) << 5
)

func testNames() (n Names) {
	n.Identities[ipAt], n.Identities[userAt] = "ip", "user"
	n.Classes[0], n.Classes[5] = "writes", "searches"
	return n
}

func named(t testing.TB, o Options, c *config.Config) *Engine {
	t.Helper()
	e := New(o)
	e.Name(testNames())
	mustApply(t, e, c)
	return e
}

// from is a request with identities.
func from(client, ip, user string, classes uint32) *Request {
	return &Request{Tenant: "a", Client: client, Pool: "api", Cost: 1, Identities: &Identities{ipAt: ip, userAt: user},
		Classes: classes}
}

func TestIdentityTellsClientsApart(t *testing.T) {
	one := func(l config.Limit) config.Limit { l.Name, l.Rate, l.Burst = "l", 1e-3, 1; return l }
	for _, tc := range []struct {
		name          string
		limit         config.Limit
		first, second *Request
		want          Verdict // of the second, after the first took the whole burst
	}{
		{"client", one(config.Limit{}), from("x", "1", "", 0), from("y", "1", "", 0), Admit},
		{"the same ip", one(config.Limit{Identity: "ip"}), from("x", "1", "", 0), from("y", "1", "", 0), Reject},
		{"another ip", one(config.Limit{Identity: "ip"}), from("x", "1", "", 0), from("x", "2", "", 0), Admit},
		{"both without a user", one(config.Limit{Identity: "user"}),
			from("x", "1", "", 0), from("y", "2", "", 0), Reject},
		{"one without a user", one(config.Limit{Identity: "user"}),
			from("x", "1", "", 0), from("x", "1", "u", 0), Admit},
		{"no identities at all", one(config.Limit{Identity: "user"}), &Request{Tenant: "a", Client: "x", Pool: "api"},
			from("y", "2", "", 0), Reject},
		{"a name without a place", one(config.Limit{Identity: "org"}),
			from("x", "1", "u", 0), from("y", "2", "v", 0), Reject},
		{"per tenant", one(config.Limit{Identity: "ip", PerTenant: true}),
			from("x", "1", "", 0), from("y", "2", "", 0), Reject},
		{"in no class", one(config.Limit{Classes: []string{"writes"}}),
			from("x", "1", "", writes), from("x", "1", "", 0), Admit},
		{"in another class", one(config.Limit{Classes: []string{"writes"}}),
			from("x", "1", "", writes), from("x", "1", "", searches), Admit},
		{"in one of the classes", one(config.Limit{Classes: []string{"writes", "searches"}}),
			from("x", "1", "", writes), from("x", "1", "", searches|writes), Reject},
		{"a class without a place", one(config.Limit{Classes: []string{"uploads"}}), from("x", "1", "", ^uint32(0)),
			from("x", "1", "", ^uint32(0)), Admit},
		{"an override by identity", one(config.Limit{Identity: "ip",
			Overrides: map[string]config.RateBurst{"1": {Rate: 1e-3, Burst: 2}}}), from("x", "1", "", 0),
			from("y", "1", "", 0), Admit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := named(t, Options{Keys: 1024}, simple(1e6, config.Queue{}, tc.limit))
			if out := e.Decide(sec, tc.first); out.Verdict != Admit {
				t.Fatalf("the first: %+v", out)
			}
			if out := e.Decide(sec, tc.second); out.Verdict != tc.want {
				t.Fatalf("the second: %+v, want %v", out, tc.want)
			}
		})
	}
}

// What is asked of requests follows configuration and names, and covers both
// configurations while one takes over from the other.
func TestWants(t *testing.T) {
	var told []Wanted
	e := New(Options{Keys: 1024, Wants: func(w Wanted) { told = append(told, w) }})
	last := func(want Wanted) {
		t.Helper()
		if n := len(told); n == 0 || told[n-1] != want {
			t.Fatalf("told %+v, want %+v at last", told, want)
		}
	}
	mustApply(t, e, simple(1e6, config.Queue{}, config.Limit{Name: "plain", Rate: 1}))
	last(Wanted{})
	mustApply(t, e, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: 0, Burst: 1, Identity: "ip"},
		config.Limit{Name: "off", Identity: "user", Mode: config.Off}))
	last(Wanted{}) // nobody knows the name yet
	e.Name(testNames())
	last(Wanted{Identities: 1 << ipAt})
	e.Decide(sec, from("x", "1", "", 0))
	told = nil
	mustApply(t, e, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: 0, Burst: 1, Identity: "user",
		Classes: []string{"searches"}}))
	if told[0] != (Wanted{1<<ipAt | 1<<userAt, searches}) {
		t.Fatalf("at the change %+v is asked", told[0])
	}
	last(Wanted{1 << userAt, searches})
	e.Name(Names{})
	last(Wanted{})
	if out := e.Decide(sec, from("x", "1", "u", searches)); out.Verdict != Admit {
		t.Fatalf("a class that has lost its place: %+v", out)
	}
}

// A limit with a queue keeps only those waiting whom it holds.
func TestHeldByAnIdentityOrClass(t *testing.T) {
	wait := config.Queue{Law: config.DropTail, MaxRequests: 10, MaxWait: time.Second}
	for _, tc := range []struct {
		name          string
		limit         config.Limit
		first, second *Request
	}{
		{"another user", config.Limit{Identity: "user"}, from("", "1", "u", 0), from("", "1", "v", 0)},
		{"another class", config.Limit{Classes: []string{"writes"}}, from("x", "1", "u", writes),
			from("x", "1", "u", 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.limit.Name, tc.limit.Rate, tc.limit.Burst, tc.limit.Queue = "l", 10, 1, wait
			e := named(t, Options{Keys: 1024}, simple(1e6, config.Queue{Law: config.DropTail}, tc.limit))
			e.Decide(sec, tc.first)
			if out, h := e.Enqueue(sec, tc.first, 1); out.Verdict != Wait || h == 0 {
				t.Fatalf("the second of a burst of 1: %+v", out)
			}
			if out := e.Decide(sec, tc.first); out.Verdict != Wait {
				t.Fatalf("behind it: %+v", out)
			}
			if out := e.Decide(sec, tc.second); out.Verdict != Admit {
				t.Fatalf("one that the limit does not hold: %+v", out)
			}
			events := e.Tick(sec+200*ms, nil)
			if len(events) != 1 || events[0].Outcome.Verdict != Admit {
				t.Fatalf("after two tenths of a second: %+v", events)
			}
		})
	}
}

// shop is a tenant whose requests meet up to five limits by different identities
// and classes. The limits that are audited never refill: what they hold as spent
// is what they were charged.
func shop() *config.Config {
	const refillless = 1e-6
	return simple(200, config.Queue{Law: config.DropTail, MaxRequests: 20, MaxWait: 200 * time.Millisecond,
		DelayTarget: 100 * time.Millisecond},
		config.Limit{Name: "all", PerTenant: true, Rate: refillless, Burst: 1e5},
		config.Limit{Name: "by-ip", Identity: "ip", Rate: refillless, Burst: 25},
		config.Limit{Name: "by-user", Identity: "user", Rate: refillless, Burst: 35, Classes: []string{"writes"}},
		config.Limit{Name: "queued", Identity: "user", Rate: 30, Burst: 3,
			Queue: config.Queue{Law: config.DropTail, MaxRequests: 20, MaxWait: 300 * time.Millisecond}},
		config.Limit{Name: "searches", Rate: 20, Burst: 2, Classes: []string{"searches"}})
}

// ledgers holds the cost that each audited key should have been charged.
type ledgers map[uint64]float64

func (l ledgers) charge(r *Request, sign float64) {
	cost := sign * units(r.cost())
	l[hash.TenantLimit(7, "a", "all")] += cost
	l[hash.Limit(7, "a", "by-ip", r.Identities[ipAt])] += cost
	if r.Classes&writes != 0 {
		l[hash.Limit(7, "a", "by-user", r.Identities[userAt])] += cost
	}
}

// audit compares them with the engine; what waits for its share is reserved.
func (l ledgers) audit(t *rapid.T, e *Engine, now int64, requests map[uint64]*Request) {
	want := ledgers{}
	for key, cost := range l {
		want[key] = cost
	}
	if f := e.live()[0]; f.queue != nil {
		f.queue.All(func(i int32) {
			if en := f.queue.Entry(i); en.Eligible {
				want.charge(requests[en.Request.ticket], 1)
			}
		})
		if err := f.queue.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for key, cost := range want {
		if spent := spentOf(e, now, key, 1e-6); math.Abs(spent-cost) > 1e-3 {
			t.Fatalf("key %x was charged %.6f, want %.6f", key, spent, cost)
		}
	}
}

// Whatever is admitted, refused, held, released, expired or cancelled: each
// request has charged all the limits that it meets, by the identity that each of
// them goes by, or none.
func TestPropertyAllLimitsOrNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := New(Options{Keys: 4096})
		e.Name(testNames())
		if err := e.Apply(shop()); err != nil {
			t.Fatal(err)
		}
		now, ticket := sec, uint64(0)
		charged, waiting := ledgers{}, map[uint64]*Request{}
		handles := map[uint64]Handle{}
		end := func(ticket uint64, admitted bool) {
			if admitted {
				charged.charge(waiting[ticket], 1)
			}
			delete(waiting, ticket)
			delete(handles, ticket)
		}
		pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			r := from(pick("client", "x", "y"), pick("ip", "1", "2", ""), pick("user", "u", "v", ""),
				rapid.SampledFrom([]uint32{0, writes, searches, writes | searches}).Draw(t, "classes"))
			r.Cost = float64(rapid.IntRange(1, 3).Draw(t, "cost"))
			out := e.Decide(now, r)
			if out.Verdict == Wait {
				ticket++
				if out, handles[ticket] = e.Enqueue(now, r, ticket); out.Verdict == Wait {
					waiting[ticket] = r
				}
			}
			if out.Verdict == Admit {
				charged.charge(r, 1)
			}
			if h := handles[ticket]; h != 0 && rapid.IntRange(0, 3).Draw(t, "cancel") == 0 {
				e.Cancel(now, h)
				end(ticket, false)
			}
			if rapid.Bool().Draw(t, "tick") {
				now += rapid.Int64Range(0, 100*ms).Draw(t, "dt")
				for _, ev := range e.Tick(now, nil) {
					end(ev.Ticket, ev.Outcome.Verdict == Admit)
				}
			}
			charged.audit(t, e, now, waiting)
		}
	})
}

// Configurations and names may change while requests are decided, held and
// released; afterwards nothing waits and every charge is where it belongs.
func TestNamesChangeMeanwhile(t *testing.T) {
	e := named(t, Options{Keys: 1024}, shop())
	done := make(chan struct{})
	var threads sync.WaitGroup
	var clock, tickets atomic.Int64
	clock.Store(sec)
	for thread := range 3 {
		threads.Go(func() {
			for i := range 2000 {
				r := from("c", fmt.Sprint(thread), fmt.Sprint(i%3), uint32(i)%64)
				now := clock.Add(10_000)
				if e.Decide(now, r).Verdict == Wait {
					if _, h := e.Enqueue(now, r, uint64(tickets.Add(1))); i%4 == 0 {
						e.Cancel(now, h)
					}
				}
			}
		})
	}
	go func() { threads.Wait(); close(done) }()
	for i, under := 0, true; under; i++ {
		e.Tick(clock.Add(1e6), nil)
		if i%2 == 0 {
			e.Name(Names{})
		} else {
			e.Name(testNames())
		}
		if i%5 == 0 {
			mustApply(t, e, shop())
		}
		select {
		case <-done:
			under = false
		default:
		}
	}
	for range 100 {
		e.Tick(clock.Add(10*ms), nil)
	}
	if held := e.waiting.Load(); held != 0 {
		t.Errorf("%d still wait", held)
	}
	if q := e.live()[0].queue; q != nil && (q.Len() != 0 || q.EligibleCost() != 0 || q.Check() != nil) {
		t.Errorf("the queue holds %d of cost %d: %v", q.Len(), q.EligibleCost(), q.Check())
	}
}

// An attacker invents a million clients in a minute, against a table of a
// thousand. It gets no more than that many honest clients would, a client that
// is known keeps its rate and no more, the tenant's own limit holds, and memory
// stays.
func TestInventedKeys(t *testing.T) {
	for _, tenantRate := range []float64{1e6, 500} {
		t.Run(fmt.Sprint("tenant=", tenantRate), func(t *testing.T) { inventKeys(t, tenantRate) })
	}
}

func inventKeys(t *testing.T, tenantRate float64) {
	const rate, burst, seconds, keys = 2.0, 4.0, 60, 1_000_000
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e9, config.Queue{},
		config.Limit{Name: "client", Rate: rate, Burst: burst},
		config.Limit{Name: "tenant", PerTenant: true, Rate: tenantRate, Burst: 1}))
	var stats Stats
	e.Stats(sec, &stats)
	room := float64(stats.Capacity)
	client := &Request{Tenant: "a", Client: "known", Pool: "api", Cost: 1}
	invented, known := 0, 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range keys {
		now := sec + int64(i)*seconds*sec/keys
		if i%100 == 0 && e.Decide(now, client).Verdict == Admit {
			known++
		}
		r := &Request{Tenant: "a", Client: fmt.Sprint("invented-", i), Pool: "api", Cost: 1}
		if e.Decide(now, r).Verdict == Admit {
			invented++
		}
		if i%5000 == 0 {
			e.Tick(now, nil)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	e.Stats(61*sec, &stats)
	t.Logf("admitted %d of %d invented and %d of the known one; %d decisions by the shared key", invented, keys, known,
		stats.Overflow)
	if most := (room + 1) * (rate*seconds + burst); float64(invented) > most {
		t.Errorf("%d invented clients admitted, a full table of honest ones gets %.0f", invented, most)
	}
	if most := tenantRate*seconds + 1; float64(invented+known) > most {
		t.Errorf("%d admitted, the tenant's limit allows %.0f", invented+known, most)
	}
	most := rate*seconds + burst
	if float64(known) > most || tenantRate > keys/seconds && float64(known) < most-2 {
		t.Errorf("a known client was admitted %d times, its limit allows %.0f", known, most)
	}
	if tenantRate > keys/seconds && stats.Overflow < keys/2 || float64(stats.Keys) > room {
		t.Errorf("%d decisions by the shared key, %d keys in a table of %.0f", stats.Overflow, stats.Keys, room)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func TestIdentitiesDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	conf := simple(1e9, config.Queue{}, config.Limit{Name: "ip", Rate: 1e6, Burst: 1e6, Identity: "ip"},
		config.Limit{Name: "user", Rate: 1e6, Burst: 1e6, Identity: "user", Classes: []string{"writes"}})
	e := named(t, Options{Keys: 1024}, conf)
	now := sec
	if n := testing.AllocsPerRun(1000, func() {
		now += 1000
		ids := Identities{ipAt: "1", userAt: "u"}
		e.Decide(now, &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1, Identities: &ids, Classes: writes})
	}); n != 0 {
		t.Errorf("%v allocations per decision", n)
	}
}
