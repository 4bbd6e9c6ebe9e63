package limiter

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
)

// One dear request does not take the others' turns: while its client saves up for
// it, theirs pass, and afterwards turns are as long as before.
func TestDearRequestLeavesTheTurnsAlone(t *testing.T) {
	play := func(dear float64) (during, after tally) {
		c := newCluster(t, 1, &config.Config{
			Pools:   []config.Pool{{Name: "api", Capacity: 100, Queue: config.Queue{DelayTarget: 2 * time.Second, MaxWait: 20 * time.Second}}},
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
	t.Logf("a light client waits %v at the median, %v at the 99th percentile; beside a request of cost 100 %v and %v, afterwards %v and %v",
		plain.wait50, plain.wait99, during.wait50, during.wait99, after.wait50, after.wait99)
	if during.wait50 > plain.wait50+20*time.Millisecond || during.wait99 > plain.wait99+40*time.Millisecond {
		t.Errorf("beside a dear request %v and %v, want about %v and %v", during.wait50, during.wait99, plain.wait50, plain.wait99)
	}
	if after.wait50 > plain.wait50+20*time.Millisecond || after.wait99 > plain.wait99+40*time.Millisecond {
		t.Errorf("afterwards %v and %v, want about %v and %v", after.wait50, after.wait99, plain.wait50, plain.wait99)
	}
}

// Whatever the costs: while two clients both wait, what they have been served
// and what is saved for their heads differ by at most two quanta.
func TestPropertyTurnsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(0)
		n := rapid.IntRange(2, 6).Draw(t, "clients")
		costs := rapid.SampledFrom([]int64{1, unit / 1000, unit, 7 * unit, 1000 * unit})
		for c := range n {
			cost := [3]int64{costs.Draw(t, "cost"), costs.Draw(t, "cost"), costs.Draw(t, "cost")}
			for k := range 200 {
				q.push(q.subOf(uint64(c)+1, ""), entry{ticket: uint64(c), cost: cost[k%3], eligible: true, class: back})
			}
		}
		step := rapid.Int64Range(unit/10, 100*unit).Draw(t, "step")
		got := make([]int64, n)
		credit, largest := int64(0), int64(0)
		for range 50 {
			credit += rapid.Int64Range(0, 100*unit).Draw(t, "credit")
			for q.eligible > 0 {
				largest = max(largest, q.quantum(step))
				i := q.next(credit-q.banked, step)
				if i == nobody {
					break
				}
				got[q.entries[i].ticket] += q.entries[i].cost
				credit -= q.entries[i].cost
				q.serve(i)
			}
			low, high := int64(1<<62), int64(0)
			for c := range n {
				s := q.find(uint64(c) + 1)
				if s == nil {
					return // one has nothing left
				}
				low, high = min(low, got[c]+s.deficit), max(high, got[c]+s.deficit)
			}
			if high-low > 2*largest {
				t.Fatalf("clients have had %d to %d, want equal within two quanta of %d", low, high, largest)
			}
			q.verify(t)
		}
	})
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
	m, key := f.meter.Load(), clientKey(f.salt, "x")
	if m == nil || m.pressure(key, unit) == 0 {
		t.Fatal("no meter, or nothing in it")
	}
	before := m.spent(key)
	c.engines[0].Settle(c.now, &s.req, 0)
	if after := m.spent(key); after != before-unit {
		t.Errorf("a request of no cost leaves %d of %d, want %d", after, before, before-unit)
	}
	s.rate = constant(0)
	c.run(30 * time.Second)
	if f.meter.Load() != nil {
		t.Error("the meter outlives the competition")
	}
}
