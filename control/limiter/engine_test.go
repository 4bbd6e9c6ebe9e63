package limiter

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

func mustApply(t testing.TB, e *Engine, c *config.Config) {
	t.Helper()
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
}

// simple is one pool and one tenant with one limit.
func simple(capacity float64, q config.Queue, limits ...config.Limit) *config.Config {
	return &config.Config{
		Revision: 1, Seed: 7,
		Pools:   []config.Pool{{Name: "api", Capacity: capacity, Queue: q}},
		Tenants: []config.Tenant{{Name: "a", Limits: limits}},
	}
}

func TestBeforeAndBesideTheConfiguration(t *testing.T) {
	known := &config.Config{Pools: []config.Pool{{Name: "api", Capacity: 10}}, Tenants: []config.Tenant{{Name: "a"}}}
	withDefault := &config.Config{Pools: known.Pools, Tenants: []config.Tenant{{Name: "a"},
		{Name: "-", Limits: []config.Limit{{Name: "l", Rate: 0}}}}}
	for _, tc := range []struct {
		name string
		o    Options
		c    *config.Config
		r    Request
		want Outcome
	}{
		{"open before", Options{}, nil, Request{Tenant: "a", Pool: "api"}, Outcome{}},
		{"closed before", Options{Boot: BootClosed}, nil, Request{Tenant: "a", Pool: "api"},
			Outcome{Verdict: Reject, Reason: NotConfigured}},
		{"known", Options{}, known, Request{Tenant: "a", Pool: "api"}, Outcome{}},
		{"unknown, no default", Options{}, known, Request{Tenant: "x", Pool: "api"},
			Outcome{Verdict: Reject, Reason: UnknownTenant}},
		{"unknown, default", Options{}, withDefault, Request{Tenant: "x", Pool: "api"},
			Outcome{Verdict: Reject, Reason: ClientLimit, Limit: "l"}},
		{"unknown, refused", Options{Unknown: UnknownReject}, withDefault, Request{Tenant: "x", Pool: "api"},
			Outcome{Verdict: Reject, Reason: UnknownTenant}},
		{"unknown, bypassed", Options{Unknown: UnknownBypass}, withDefault, Request{Tenant: "x", Pool: "api"},
			Outcome{}},
		{"unknown pool", Options{}, known, Request{Tenant: "a", Pool: "elsewhere"}, Outcome{}},
		{"unknown pool, limited", Options{}, withDefault, Request{Tenant: "-", Pool: "elsewhere"},
			Outcome{Verdict: Reject, Reason: ClientLimit, Limit: "l"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.Keys = 1024
			e := New(tc.o)
			if tc.c != nil {
				mustApply(t, e, tc.c)
			}
			if got := e.Decide(sec, &tc.r); got != tc.want {
				t.Errorf("Decide = %+v, want %+v", got, tc.want)
			}
			if got, h := e.Enqueue(sec, &tc.r, 1); got != tc.want || h != 0 {
				t.Errorf("Enqueue = %+v, %d, want %+v, 0", got, h, tc.want)
			}
		})
	}
}

// A request that one limit refuses is charged to none.
func TestRefusedRequestChargesNothing(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e6, config.Queue{},
		config.Limit{Name: "tenant", PerTenant: true, Rate: 10, Burst: 10},
		config.Limit{Name: "client", Rate: 1, Burst: 2}))
	for i := range 100 { // one noisy client cannot drain its tenant
		e.Decide(sec+int64(i), &Request{Tenant: "a", Client: "noisy", Pool: "api"})
	}
	admitted := 0
	for i := range 10 {
		if e.Decide(sec+200, &Request{Tenant: "a", Client: fmt.Sprint(i), Pool: "api"}).Verdict == Admit {
			admitted++
		}
	}
	if admitted != 8 {
		t.Errorf("the tenant's limit of 10 has room for %d after a client was admitted 2, want 8", admitted)
	}
}

func TestOverridesPoolsModes(t *testing.T) {
	e := New(Options{Keys: 1024})
	c := simple(1e6, config.Queue{},
		config.Limit{Name: "l", Rate: 1, Burst: 1, Overrides: map[string]config.RateBurst{"vip": {Rate: 10, Burst: 5}}},
		config.Limit{Name: "only", Rate: 1, Burst: 1, Pools: []string{"other"}},
		config.Limit{Name: "off", Rate: 0, Mode: config.Off},
	)
	c.Pools = append(c.Pools, config.Pool{Name: "other", Capacity: 1e6})
	mustApply(t, e, c)
	count := func(client, pool string) (n int) {
		for range 10 {
			if e.Decide(sec, &Request{Tenant: "a", Client: client, Pool: pool}).Verdict == Admit {
				n++
			}
		}
		return n
	}
	if n := count("vip", "api"); n != 5 {
		t.Errorf("vip: %d, want its override's burst of 5", n)
	}
	if n := count("x", "api"); n != 1 {
		t.Errorf("x: %d, want 1", n)
	}
	if n := count("vip2", "other"); n != 1 {
		t.Errorf("other pool: %d, want 1", n)
	}
	c.Tenants[0].Limits[0].Mode = config.Shadow
	mustApply(t, e, c)
	out := e.Decide(sec, &Request{Tenant: "a", Client: "x", Pool: "api"})
	if out.Verdict != Admit || !out.Shadow {
		t.Errorf("SHADOW limit: %+v, want an admit in shadow", out)
	}
}

// A raised limit helps a client that has used up the old one at once.
func TestRaisedLimitActs(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: 1.0 / 3600, Burst: 10}))
	r := &Request{Tenant: "a", Client: "x", Pool: "api"}
	for e.Decide(sec, r).Verdict == Admit {
	}
	mustApply(t, e, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: 100, Burst: 10}))
	if e.Decide(2*sec, r).Verdict == Admit {
		t.Error("the raise of a limit handed out a burst")
	}
	if e.Decide(2*sec+20*ms, r).Verdict != Admit {
		t.Error("still locked out by the old rate")
	}
}

func TestApplyNamesTheField(t *testing.T) {
	good := simple(10, config.Queue{}, config.Limit{Name: "l", Rate: 1})
	for field, spoil := range map[string]func(*config.Config){
		"pools[api].capacity":           func(c *config.Config) { c.Pools[0].Capacity = math.NaN() },
		"pools[api].queue.law":          func(c *config.Config) { c.Pools[0].Queue.Law = 9 },
		"pools[api].queue.max_wait":     func(c *config.Config) { c.Pools[0].Queue.MaxWait = time.Hour },
		"pools[api].queue.delay_target": func(c *config.Config) { c.Pools[0].Queue.DelayTarget = 1 },
		"pools[api].queue.max_requests": func(c *config.Config) { c.Pools[0].Queue.MaxRequests = -1 },
		"pools[api].on_loss":            func(c *config.Config) { c.Pools[0].OnLoss = 7 },
		"pools[api].hard_expiry":        func(c *config.Config) { c.Pools[0].HardExpiry = -1 },
		"pools[api].name":               func(c *config.Config) { c.Pools = append(c.Pools, c.Pools[0]) },
		"tenants[].name":                func(c *config.Config) { c.Tenants[0].Name = "" },
		"tenants[a].weight":             func(c *config.Config) { c.Tenants[0].Weight = -1 },
		"tenants[a].limits[l].rate":     func(c *config.Config) { c.Tenants[0].Limits[0].Rate = math.Inf(1) },
		"tenants[a].limits[l].burst":    func(c *config.Config) { c.Tenants[0].Limits[0].Burst = -1 },
		"tenants[a].limits[l].mode":     func(c *config.Config) { c.Tenants[0].Limits[0].Mode = 3 },
		"tenants[a].limits[l].overrides[v].rate": func(c *config.Config) {
			c.Tenants[0].Limits[0].Overrides = map[string]config.RateBurst{"v": {Rate: -1}}
		},
		"tenants[a].limits[l].queue.max_wait": func(c *config.Config) { c.Tenants[0].Limits[0].Queue.MaxWait = 1 },
		"tenants[a].quotas[nil].pool":         func(c *config.Config) { c.Tenants[0].Quotas = []config.Quota{{Pool: "nil"}} },
		"tenants[a].quotas[api].max": func(c *config.Config) {
			c.Tenants[0].Quotas = []config.Quota{{Pool: "api",
				Guaranteed: 2, Max: 1}}
		},
		"tenants[a].quotas[api].guaranteed": func(c *config.Config) {
			c.Tenants[0].Quotas = []config.Quota{{Pool: "api",
				Guaranteed: -2}}
		},
	} {
		e := New(Options{Keys: 1024})
		mustApply(t, e, good)
		bad := simple(10, config.Queue{}, config.Limit{Name: "l", Rate: 1})
		bad.Revision = 2
		spoil(bad)
		var fe *config.FieldError
		if err := e.Apply(bad); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("Apply = %v, want an error that names %s", err, field)
		}
		s := Stats{Keys: -1}
		if e.Stats(0, &s); s.Revision != 1 {
			t.Errorf("%s: revision %d in force, want the old one", field, s.Revision)
		}
	}
}

// Defaults hold for each tenant that has no limit of the same name, and count
// among its limits.
func TestDefaultsAreInherited(t *testing.T) {
	c := simple(10, config.Queue{}, config.Limit{Name: "b", Rate: 1, Burst: 7})
	c.Defaults = []config.Limit{{Name: "a", Rate: 2, Overrides: map[string]config.RateBurst{"vip": {Rate: 9}}},
		{Name: "b", Rate: 3}, {Name: "c", Rate: 4}}
	c.Tenants = append(c.Tenants, config.Tenant{Name: "other"})
	e := New(Options{Keys: 1024})
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
	s := e.snap.Load()
	for tenant, want := range map[string]string{"a": "a 2 b 1 c 4 ", "other": "a 2 b 3 c 4 "} {
		got := ""
		for _, l := range s.tenants[tenant].limits {
			got += fmt.Sprint(l.name, " ", l.keys.Numbers("").Rate, " ")
		}
		if got != want || s.tenants[tenant].limits[0].keys.Numbers("vip").Rate != 9 {
			t.Errorf("%s has %q, want %q", tenant, got, want)
		}
	}
	for i := range config.MaxLimits - 3 {
		c.Tenants[0].Limits = append(c.Tenants[0].Limits, config.Limit{Name: fmt.Sprint("n", i), Rate: 1})
	}
	if left := c.LeaveOut(); left != nil {
		t.Errorf("%d limits, the overriding one counted once, are too many: %v", config.MaxLimits, left)
	}
	c.Tenants[0].Limits = append(c.Tenants[0].Limits, config.Limit{Name: "last", Rate: 1})
	c.Defaults = append(c.Defaults, config.Limit{Name: "minus", Rate: -1})
	if left := c.LeaveOut(); len(left) != 3 || left[0].Tenant != config.DefaultTenant || left[0].Limit != "minus" ||
		left[2].Limit != "last" {
		t.Errorf("left out %v", left)
	}
	if err := c.Validate(); err != nil || len(c.Defaults) != 3 {
		t.Errorf("%v, %d defaults", err, len(c.Defaults))
	}
}

// FuzzApply: whatever the numbers, a configuration is refused with its field
// named or works without panic and without NaN.
func FuzzApply(f *testing.F) {
	f.Add(10.0, 1.0, 1.0, 5.0, 100.0, int64(0), 0, uint8(0), uint8(0), "c")
	f.Add(math.NaN(), math.Inf(1), -1.0, 0.0, 1e300, int64(-5), 1<<30, uint8(7), uint8(3), "")
	f.Fuzz(func(
		t *testing.T, capacity, weight, rate, burst, quotaMax float64,
		wait int64, most int, law, mode uint8, client string,
	) {
		e := New(Options{Keys: 1024})
		c := simple(capacity, config.Queue{Law: config.Law(law), MaxWait: time.Duration(wait), MaxRequests: most},
			config.Limit{Name: "l", Rate: rate, Burst: burst, Mode: config.Mode(mode),
				Queue: config.Queue{Law: config.Law(law), MaxWait: time.Duration(wait)}})
		c.Tenants[0].Weight = weight
		c.Tenants[0].Quotas = []config.Quota{{Pool: "api", Max: quotaMax, Mode: config.Mode(mode)}}
		if err := e.Apply(c); err != nil {
			var fe *config.FieldError
			if !errors.As(err, &fe) || fe.Field == "" {
				t.Fatalf("error without a field: %v", err)
			}
			return
		}
		r := &Request{Tenant: "a", Client: client, Pool: "api", Cost: burst}
		now, tickets := sec, uint64(0)
		for range 50 {
			if e.Decide(now, r).Verdict == Wait {
				tickets++
				e.Enqueue(now, r, tickets)
			}
			now += 3 * ms
			for _, ev := range e.Tick(now, nil) {
				if ev.Outcome.Verdict == Wait || ev.Outcome.Waited < 0 || ev.Outcome.RetryAfter < 0 {
					t.Fatalf("event %+v", ev)
				}
			}
		}
		flow := e.live()[0]
		if math.IsNaN(flow.pace.controller.Backlog()) || math.IsNaN(flow.pace.pacer.Credit()) {
			t.Fatal("NaN in the controller")
		}
	})
}

// 10⁶ invented keys: memory stays as it is, a limited client stays limited, and
// all newcomers together get no more than one client once the table is full.
func TestInventedKeysWinNothing(t *testing.T) {
	e := New(Options{Keys: 1 << 14})
	mustApply(t, e, simple(1e12, config.Queue{}, config.Limit{Name: "l", Rate: 1.0 / 60, Burst: 10}))
	victim := &Request{Tenant: "a", Client: "victim", Pool: "api"}
	for e.Decide(sec, victim).Verdict == Admit {
	}
	room := e.keys.Stats().Capacity
	admitted, firsts := 0, 0
	keys := 1_000_000
	if raceEnabled {
		keys /= 10
	}
	for i := range keys {
		r := &Request{Tenant: "a", Client: fmt.Sprint("invented", i), Pool: "api"}
		if e.Decide(sec+int64(i), r).Verdict == Admit {
			admitted++
			if i >= keys*9/10 {
				firsts++
			}
		}
		if i%1000 == 0 && e.Decide(sec+int64(i), victim).Verdict == Admit {
			t.Fatal("a limited key was reset")
		}
	}
	if room += 10; admitted > room {
		t.Errorf("%d admitted, want at most %d: a slot each and one shared burst", admitted, room)
	}
	if firsts > 0 {
		t.Errorf("%d admitted of the last tenth, want 0: the shared key is used up", firsts)
	}
	if e.keys.Stats().Capacity != room-10 || e.keys.Stats().Overflow == 0 {
		t.Error("the table grew, or overflow was not counted")
	}
}

// Workers, ticker, link and administrator at once; run with -race.
func TestConcurrentUse(t *testing.T) {
	e := New(Options{Keys: 1024, Contended: 64})
	conf := simple(2000, config.Queue{},
		config.Limit{Name: "c", Rate: 50, Burst: 20, Queue: config.Queue{MaxRequests: 50,
			MaxWait: 200 * time.Millisecond}},
		config.Limit{Name: "t", PerTenant: true, Rate: 1500, Burst: 100})
	mustApply(t, e, conf)
	var clock, asked, admitted, rejected, cancelled, events atomic.Int64
	clock.Store(sec)
	var workers, rest sync.WaitGroup
	stop := make(chan struct{})
	worker := func(w int) {
		defer workers.Done()
		rng := rand.New(rand.NewPCG(uint64(w), 3))
		var held []Handle
		for i := range 20000 {
			now := clock.Add(50_000)
			r := &Request{Tenant: "a", Client: fmt.Sprint(rng.IntN(200)), Pool: "api", Cost: float64(1 + rng.IntN(3))}
			asked.Add(1)
			out, h := e.Decide(now, r), Handle(0)
			if out.Verdict == Wait {
				out, h = e.Enqueue(now, r, uint64(w)<<32|uint64(i))
			}
			switch out.Verdict {
			case Admit:
				admitted.Add(1)
			case Reject:
				rejected.Add(1)
			default:
				held = append(held, h)
			}
			if len(held) > 20 {
				if e.Cancel(now, held[0]) {
					cancelled.Add(1)
				}
				held = held[1:]
			}
		}
	}
	background := func(f func(now int64)) {
		rest.Add(1)
		go func() {
			defer rest.Done()
			for {
				select {
				case <-stop:
					return
				default:
					f(clock.Load())
				}
			}
		}()
	}
	for w := range 4 {
		workers.Add(1)
		go worker(w)
	}
	background(func(now int64) { events.Add(int64(len(e.Tick(now, nil)))) })
	background(func(now int64) {
		var c exchange.Claims
		e.Claims(now, &c)
		s := &exchange.Sums{Full: true, Replicas: 1 + int(now>>20)%3, TotalWeight: 3, Lag: 100 * time.Millisecond}
		for i := range 40 {
			s.Keys = append(s.Keys, exchange.KeySum{Key: hash.Limit(7, "a", "c", fmt.Sprint(i)),
				Admitted: float64(now / 1e7), Claims: 5, Active: 1, Spent: 2, Epoch: 1})
		}
		e.SetSums(now, s)
		var r exchange.Report
		e.Report(now, &r)
	})
	background(func(now int64) {
		if err := e.Apply(conf); err != nil {
			t.Error(err)
		}
		e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "a", Pool: "api",
			Share: 1000 + float64(now%1000)}}})
		s := Stats{}
		e.Stats(now, &s)
	})
	workers.Wait()
	close(stop)
	rest.Wait()
	events.Add(int64(len(e.Drain(clock.Load(), nil))))
	if sum := admitted.Load() + rejected.Load() + cancelled.Load() + events.Load(); sum != asked.Load() {
		t.Errorf("admitted %d + rejected %d + cancelled %d + events %d = %d, want the %d asked",
			admitted.Load(), rejected.Load(), cancelled.Load(), events.Load(), sum, asked.Load())
	}
	if e.waiting.Load() != 0 {
		t.Errorf("%d still held", e.waiting.Load())
	}
	for _, f := range e.live() {
		for i := range f.held.Load().byLine {
			if n := f.held.Load().byLine[i].Load(); n != 0 {
				t.Errorf("waiter count %d is %d", i, n)
			}
		}
	}
}

func TestAdmitAndRejectDoNotAllocate(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		e := New(Options{Keys: 4096})
		mustApply(t, e, simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: 1e6, Burst: 1e6},
			config.Limit{Name: "none", Rate: 1e-3, Burst: 1, Overrides: map[string]config.RateBurst{"good": {Rate: 1e9,
				Burst: 1e9}}}))
		e.SetSums(0, &exchange.Sums{Full: true, Replicas: replicas, Lag: time.Second})
		now := sec
		for _, client := range []string{"good", "bad"} {
			r := &Request{Tenant: "a", Client: client, Pool: "api"}
			e.Decide(now, r)
			if n := testing.AllocsPerRun(1000, func() { now += 1000; e.Decide(now, r) }); n != 0 {
				t.Errorf("%d replicas, %s: %v allocations per decision, want 0", replicas, client, n)
			}
		}
	}
	e := New(Options{Keys: 4096})
	mustApply(t, e, simple(10, config.Queue{Law: config.Police}))
	now := sec
	if n := testing.AllocsPerRun(1000,
		func() { now += 1000; e.Decide(now, &Request{Tenant: "a", Pool: "api"}) }); n != 0 {
		t.Errorf("police: %v allocations per decision, want 0", n)
	}
}
