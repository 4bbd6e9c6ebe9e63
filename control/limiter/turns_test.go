package limiter

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// One dear request does not take the others' turns: while its client saves up for
// it, theirs pass, and afterwards turns are as long as before.
func TestDearRequestLeavesTheTurnsAlone(t *testing.T) {
	play := func(dear float64) (during, after tally) {
		c := newCluster(t, 1, &config.Config{
			Pools: []config.Pool{{Name: "api", Capacity: 100, Queue: config.Queue{DelayTarget: 2 * time.Second,
				MaxWait: 20 * time.Second}}},
			Tenants: []config.Tenant{{Name: "acme"}},
		}, Options{})
		light := c.source("acme", "light", "api", constant(10), pinned(0))
		c.source("acme", "greedy", "api", constant(200), pinned(0))
		c.run(2 * time.Second) // the greedy one keeps the queue full
		start := c.now
		if dear > 0 {
			r := &source{req: Request{Tenant: "acme", Client: "dear", Pool: "api", Cost: dear}}
			c.ask(r, 0, c.now)
		}
		c.run(4 * time.Second)
		middle := c.now
		c.run(10 * time.Second)
		return c.tally(start, middle, of(light)), c.tally(middle, c.now, of(light))
	}
	plain, _ := play(0)
	during, after := play(100)
	t.Logf("a light client waits %v at the median, %v at the 99th percentile; "+
		"beside a request of cost 100 %v and %v, afterwards %v and %v",
		plain.wait50, plain.wait99, during.wait50, during.wait99, after.wait50, after.wait99)
	if during.wait50 > plain.wait50+20*time.Millisecond || during.wait99 > plain.wait99+40*time.Millisecond {
		t.Errorf("beside a dear request %v and %v, want about %v and %v", during.wait50, during.wait99, plain.wait50,
			plain.wait99)
	}
	if after.wait50 > plain.wait50+20*time.Millisecond || after.wait99 > plain.wait99+40*time.Millisecond {
		t.Errorf("afterwards %v and %v, want about %v and %v", after.wait50, after.wait99, plain.wait50, plain.wait99)
	}
}

// A meter is there while clients compete, follows what requests really cost, and is
// gone when the flow rests.
func TestMeterFollowsAndGoes(t *testing.T) {
	c := newCluster(t, 1, &config.Config{
		Pools: []config.Pool{{Name: "api", Capacity: 10}}, Tenants: []config.Tenant{{Name: "acme"}},
	}, Options{})
	s := c.source("acme", "x", "api", constant(50), pinned(0))
	c.run(2 * time.Second)
	f := c.engines[0].live()[0]
	m, key := f.meter.Load(), hash.Client(f.salt, "x")
	if m == nil || m.Pressure(key, unit) == 0 {
		t.Fatal("no meter, or nothing in it")
	}
	before := m.Spent(key)
	c.engines[0].Settle(c.now, &s.req, Plain, 0)
	if after := m.Spent(key); after != before-unit {
		t.Errorf("a request of no cost leaves %d of %d, want %d", after, before, before-unit)
	}
	s.rate = constant(0)
	c.run(30 * time.Second)
	if f.meter.Load() != nil {
		t.Error("the meter outlives the competition")
	}
}
