package limiter

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// A request that waits for its limit is asked again after a reload under the flow's
// lock. Its new route, with the counters of an adaptive pool, must not need that lock.
func TestReloadWhileHeldAtAnAdaptivePool(t *testing.T) {
	conf := func() *config.Config {
		c := simple(100, config.Queue{}, config.Limit{Name: "l", Rate: 10, Burst: 1,
			Queue: config.Queue{MaxWait: 10 * time.Second}})
		c.Pools[0].Adaptive = true
		return c
	}
	e := New(Options{Keys: 1024})
	mustApply(t, e, conf())
	now, held := sec, 0
	for i := range 3 {
		if out, _ := e.Enqueue(now, &Request{Tenant: "a", Client: "x", Pool: "api"}, uint64(i+1)); out.Verdict == Wait {
			held++
		}
	}
	mustApply(t, e, conf()) // also an unchanged configuration is a new one
	released := make(chan int)
	go func() {
		n := 0
		for range 200 {
			now += 5 * ms
			n += len(e.Tick(now, nil))
		}
		released <- n
	}()
	select {
	case n := <-released:
		if held != 2 || n != held {
			t.Errorf("%d held, %d released within a second, want 2 and all", held, n)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the tick does not end: it waits for the flow's lock, which it has itself")
	}
}
