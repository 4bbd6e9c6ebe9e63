package agentlink

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
)

// lapser is a client on virtual time, whose agent is the test.
type lapser struct {
	*Client
	engine  *limiter.Engine
	applies int
}

// noon is the agents' time of day when a test begins.
const noon = config.Instant(1_800_000_000_000)

func newLapser(t *testing.T) *lapser {
	l := &lapser{engine: limiter.New(limiter.Options{Keys: 1024})}
	began := time.Now()
	l.Client = New(Options{Engine: l.engine, Now: func() int64 { return int64(time.Since(began)) + 1 },
		Apply:        func(c *config.Config) error { l.applies++; return l.engine.Apply(c) },
		Change:       func(d *config.Delta) error { l.applies++; return l.engine.Change(d) },
		RecoverPanic: func(string) {}, Log: func(string) {}, AnswerSlots: func(*exchange.SlotReplies) {}})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { l.lapseWhenDue(ctx) })
	t.Cleanup(func() { cancel(); all.Wait() })
	return l
}

// admits reports whether a client passes.
func (l *lapser) admits(tenant, client string) bool {
	r := &limiter.Request{Tenant: tenant, Client: client, Pool: "api", Cost: 1}
	return l.engine.Decide(l.o.Now(), r).Verdict != limiter.Reject
}

func blocked(until ...config.Instant) *config.Config {
	l := config.Limit{Name: "l", Rate: 1e6, Overrides: map[string]config.RateBurst{}}
	for i, u := range until {
		l.Overrides[fmt.Sprint("c", i)] = config.RateBurst{Until: u}
	}
	return &config.Config{Revision: 7, Pools: []config.Pool{{Name: "api", Capacity: 1e6}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{l}}}}
}

// Several lapse one after the other, with no agent there, and with a wall clock that is an hour wrong: the process
// counts on from the agent's time.
func TestLapsesWithoutAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLapser(t)
		l.setClock(noon)
		l.apply(blocked(noon+2000, noon+5000, 0, noon-1))
		want := func(pass ...bool) {
			t.Helper()
			for i, is := range pass {
				if got := l.admits("acme", fmt.Sprint("c", i)); got != is {
					t.Errorf("c%d passes: %t, want %t", i, got, is)
				}
			}
		}
		want(false, false, false, true)
		time.Sleep(1990 * time.Millisecond)
		want(false, false, false, true)
		time.Sleep(20 * time.Millisecond)
		want(true, false, false, true)
		time.Sleep(3 * time.Second)
		want(true, true, false, true)
		if applies := l.applies; applies != 3 {
			t.Errorf("%d changes of the engine, want one and two lapses", applies)
		}
		if l.Revision.Load() != 7 {
			t.Errorf("revision %d after the lapses", l.Revision.Load())
		}
		// A change of the agent's comes as after any configuration.
		d := &config.Delta{Base: 7, Revision: 8, Tenants: blocked(noon+2000, noon+60_000).Tenants}
		l.change(d)
		want(true, false)
		time.Sleep(time.Hour)
		want(true, true)
	})
}

// A limit and a quota lapse as if they were deleted: what tenants/- has of the limit's name holds again. So does a
// lapse of tenants/- itself.
func TestLimitsAndQuotasLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLapser(t)
		l.setClock(noon)
		l.apply(&config.Config{Revision: 1, Pools: []config.Pool{{Name: "api", Capacity: 1e6}},
			Defaults: []config.Limit{{Name: "l"}, {Name: "all", Until: noon + 1000}}, // rates of 0
			Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{{Name: "l", Rate: 1e6, Until: noon + 5000}}},
				{Name: "bolt", Limits: []config.Limit{{Name: "l", Rate: 1e6}},
					Quotas: []config.Quota{{Pool: "api", Until: noon + 3000}}}}}) // a max of 0
		for i, want := range []struct{ acme, bolt bool }{{false, false}, {true, false}, {true, true}, {false, true}} {
			if acme, bolt := l.admits("acme", "x"), l.admits("bolt", "x"); acme != want.acme || bolt != want.bolt {
				t.Errorf("%d: acme passes: %t, bolt: %t; want %+v", i, acme, bolt, want)
			}
			time.Sleep(map[int]time.Duration{0: 1500, 1: 2000, 2: 2000}[i] * time.Millisecond)
		}
	})
}

// Nothing lapses before a time of day is known, and then at once. A heartbeat that corrects it counts.
func TestLapsesNeedATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLapser(t)
		l.apply(blocked(noon+1000, noon+3_600_000))
		time.Sleep(time.Hour)
		if l.admits("acme", "c0") {
			t.Error("a lapse without a time of day")
		}
		l.setClock(noon + 2000)
		time.Sleep(10 * time.Millisecond)
		if !l.admits("acme", "c0") || l.admits("acme", "c1") {
			t.Error("the first time of day counts at once")
		}
		l.setClock(noon + 4_000_000)
		time.Sleep(time.Second)
		if !l.admits("acme", "c1") {
			t.Error("a later time of day counts")
		}
	})
}

// 100,000 overrides that lapse one after the other within a minute cost the engine one change a second.
func TestManyLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLapser(t)
		l.setClock(noon)
		c := blocked()
		const each = 1000
		c.Tenants = nil
		for i := range 100 {
			one := blocked().Tenants[0]
			one.Name = fmt.Sprint("t", i)
			for j := range each {
				n := i*each + j
				one.Limits[0].Overrides[fmt.Sprint("c", j)] = config.RateBurst{Until: noon + config.Instant(n*60_000/100_000) + 1}
			}
			c.Tenants = append(c.Tenants, one)
		}
		l.apply(c)
		time.Sleep(62 * time.Second)
		for _, tenant := range []string{"t0", "t50", "t99"} {
			if !l.admits(tenant, "c0") || !l.admits(tenant, "c999") {
				t.Errorf("%s: an override has not lapsed", tenant)
			}
		}
		if l.applies > 63 {
			t.Errorf("%d changes of the engine in a minute", l.applies)
		}
	})
}

// The agent's time comes with its Hello, before the configuration: a process that starts after a lapse never has it in
// force.
func TestAProcessThatStartsAfterALapse(t *testing.T) {
	b := newFixture(t)
	s := b.accept(&link.Hello{Version: link.Version, Replica: "agent", Weight: 1, Clock: noon})
	s.send(blocked(noon, noon+3_600_000))
	await(s, func(h *link.Heartbeat) bool { return h.Revision == 7 })
	for client, want := range map[string]limiter.Verdict{"c0": limiter.Admit, "c1": limiter.Reject} {
		r := &limiter.Request{Tenant: "acme", Client: client, Pool: "api", Cost: 1}
		if got := b.engine.Decide(b.client.o.Now(), r); got.Verdict != want {
			t.Errorf("%s: %+v", client, got)
		}
	}
	s.send(&link.Heartbeat{Sequence: 1, Clock: noon + 3_700_000})
	for range 200 {
		r := &limiter.Request{Tenant: "acme", Client: "c1", Pool: "api", Cost: 1}
		if b.engine.Decide(b.client.o.Now(), r).Verdict == limiter.Admit {
			return
		}
		await(s, func(*exchange.Report) bool { return true })
	}
	t.Error("a heartbeat's time does not count")
}
