package limiter

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// within fails the test, with the stacks, when do does not return: a thread spins or
// waits for a lock that nobody gives back.
func within(t *testing.T, patience time.Duration, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		stacks := make([]byte, 1<<16)
		t.Fatalf("still not done:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
}

func sumsOf(replicas int, keys ...exchange.KeySum) *exchange.Sums {
	return &exchange.Sums{Full: true, Replicas: replicas, Weight: 1, TotalWeight: float64(replicas),
		Lag: 100 * time.Millisecond, Keys: keys}
}

// checkKeys holds every slot against the table of the slot protocol.
func checkKeys(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.keys.Check(); err != nil {
		t.Error(err)
	}
}

// Keys get and lose their state all the time when the membership flips between one
// gateway and three. No key may end in a form that is none.
func TestKeysSurviveFlippingMembership(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: 1e5, Burst: 10},
		config.Limit{Name: "all", PerTenant: true, Rate: 1e6, Burst: 100}))
	const workers, keys = 6, 3
	flips := 3000
	if raceEnabled {
		flips = 300
	}
	var clock atomic.Int64
	clock.Store(sec)
	var stop atomic.Bool
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; !stop.Load(); i++ {
				r := Request{Tenant: "a", Client: fmt.Sprint(i % keys), Pool: "api"}
				if e.Decide(clock.Add(1000), &r).Verdict == Admit && i%5 == 0 {
					e.Settle(clock.Load(), &r, Plain, float64(i%3))
				}
				e.Explain(clock.Load(), &r)
			}
		})
	}
	within(t, time.Minute, func() {
		var c exchange.Claims
		for i := range flips {
			n := 1 + 2*(i%2)
			e.SetSums(clock.Load(), sumsOf(n, exchange.KeySum{Key: hash.Limit(7, "a", "l", fmt.Sprint(i%keys)),
				Claims: 1, Active: 1}))
			c.Reset()
			e.Claims(clock.Add(int64(100*time.Microsecond)), &c)
			runtime.Gosched()
		}
		stop.Store(true)
		all.Wait()
	})
	checkKeys(t, e)
}

// The others may use a limit of the tenant as a whole before this gateway does. What
// they use must reach the slot that the limit has here.
func TestTenantKeyHeardBeforeItsFirstRequest(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e9, config.Queue{}, config.Limit{Name: "all", PerTenant: true, Rate: 10, Burst: 10}))
	key := hash.TenantLimit(7, "a", "all")
	now := sec
	spent := exchange.KeySum{Key: key, Admitted: 1e4, Claims: 10, Active: 1, Spent: 10, Epoch: 1}
	e.SetSums(now, sumsOf(3, spent))
	var c exchange.Claims
	within(t, 10*time.Second, func() {
		admitted := 0
		for range 400 { // 20 s
			now += 50 * ms
			spent.Admitted += 0.5
			e.SetSums(now, sumsOf(3, spent))
			for range 5 {
				if e.Decide(now, &Request{Tenant: "a", Pool: "api"}).Verdict == Admit {
					admitted++
				}
			}
			c.Reset()
			e.Claims(now, &c)
		}
		if admitted > 20 {
			t.Errorf("%d admitted in 20 s of a limit of 10/s that the others use in full", admitted)
		}
		for range 400 { // silence
			now += 50 * ms
			e.SetSums(now, sumsOf(3))
			c.Reset()
			e.Claims(now, &c)
		}
		if out := e.Decide(now, &Request{Tenant: "a", Pool: "api"}); out.Verdict != Admit {
			t.Errorf("after 20 s of silence: %+v", out)
		}
	})
	checkKeys(t, e)
}

// A hot restart's parent hands over what keys have spent while it goes on announcing them.
func TestVisitSpentBesideClaims(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e9, config.Queue{}, config.Limit{Name: "all", PerTenant: true, Rate: 1e5, Burst: 1e5}))
	now := sec
	within(t, time.Minute, func() {
		var c exchange.Claims
		for range 200 {
			e.SetSums(now, sumsOf(3))
			for range 10 {
				e.Decide(now, &Request{Tenant: "a", Pool: "api", Cost: 1e4})
			}
			told := make(chan int)
			go func() {
				n := 0
				var own exchange.Claims
				e.VisitSpent(now, func(exchange.KeySpent) {
					n++
					e.SetSums(now, sumsOf(1))
					e.Claims(now, &own) // releases the key's state
				})
				told <- n
			}()
			c.Reset()
			e.Claims(now, &c)
			<-told
			now += 10 * ms
		}
	})
}

// A client that uses one of three gateways gets rate·t + burst there and no more, also when
// its key is contended. A key is contended when it was used enough to be announced.
func TestAClientOfOneGatewayHasOneBucket(t *testing.T) {
	for _, l := range []config.Limit{
		{Name: "l", Rate: 1. / 3600, Burst: 1}, {Name: "l", Rate: 0.5, Burst: 1}, {Name: "l", Rate: 10, Burst: 1},
		{Name: "l", Rate: 100, Burst: 2},
	} {
		e := New(Options{Keys: 1024})
		mustApply(t, e, simple(1e6, config.Queue{}, l))
		var claims exchange.Claims
		passed := 0.0
		for i := range 2000 {
			now := sec + int64(i)*10*ms
			if i%5 == 0 {
				e.SetSums(now, &exchange.Sums{Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 125 * time.Millisecond})
				claims.Reset()
				e.Claims(now, &claims)
			}
			if e.Decide(now, &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}).Verdict == Admit {
				passed++
			}
			if most := l.Rate*float64(i)/100 + l.Burst; passed > most+1e-6 {
				t.Fatalf("%v/s, burst %v: %v passed in %v s, at most %v may", l.Rate, l.Burst, passed, float64(i)/100, most)
			}
		}
		if passed < l.Rate*19.99+l.Burst-1 {
			t.Errorf("%v/s, burst %v: only %v passed", l.Rate, l.Burst, passed)
		}
		var stats Stats
		if e.Stats(21*sec, &stats); stats.Contended != 1 {
			t.Errorf("%v/s: %d contended keys, want 1", l.Rate, stats.Contended)
		}
	}
}
