package limiter

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// changes goes through the whole table once and returns what is reported, by key.
func changes(e *Engine, now int64, c *SpentCursor) map[uint64]exchange.KeySpent {
	out := map[uint64]exchange.KeySpent{}
	for end := false; !end; {
		end = e.SpentChanges(now, c, 5, 1<<30, func(s exchange.KeySpent) { out[s.Key] = s })
	}
	return out
}

// An engine that takes over what a cursor has reported admits what the first one would
// have, but for what is below Least. Only changes are reported again.
func TestSpentChanges(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		parent, child := successors(t, replicas)
		now := 100 * sec
		c := &SpentCursor{Least: 1500 * time.Millisecond} // 1.5 of a rate of 1/s
		for i := range 8 {
			for range i {
				parent.Decide(now, &Request{Tenant: "a", Client: fmt.Sprint("client-", i), Pool: "api"})
			}
		}
		admitted(parent, now, "named")
		first := changes(parent, now, c)
		if len(first) != 7 { // clients 2 to 7, and the one with a name
			t.Errorf("%d replicas: %d keys reported, want 7: %v", replicas, len(first), first)
		}
		for _, later := range []int64{0, sec / 3} { // what is refilled meanwhile is no change
			if again := changes(parent, now+later, c); len(again) != 0 {
				t.Errorf("%d replicas: reported again without a change: %v", replicas, again)
			}
		}
		for _, s := range first {
			child.RestoreSpent(now, s)
		}
		for _, client := range []string{"client-0", "client-1", "client-2", "client-5", "client-7", "named"} {
			slack := 0
			if client == "client-1" {
				slack = 1
			}
			want, got := admitted(parent, now, client), admitted(child, now, client)
			if got > want+slack {
				t.Errorf("%d replicas: %s gets %d more from the child, %d more from its parent", replicas, client, got,
					want)
			}
		}
		if news := changes(parent, now, c); len(news) != 5 && replicas == 1 {
			t.Errorf("%d keys reported after five have spent more", len(news))
		}
	}
}

// What is refunded is reported, too, and then forgotten.
func TestSpentChangesOfRefunds(t *testing.T) {
	e, _ := successors(t, 1)
	now := 100 * sec
	c := &SpentCursor{Least: 500 * time.Millisecond}
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 8}
	e.Decide(now, r)
	before := changes(e, now, c)
	e.Settle(now, r, Plain, 0)
	after := changes(e, now, c)
	if len(before) != 1 || len(after) != 1 {
		t.Fatalf("reported %v, then %v", before, after)
	}
	for key, s := range after {
		if before[key].Ahead < 7*time.Second || s.Ahead > 100*time.Millisecond {
			t.Errorf("reported %v, then %v", before[key], s)
		}
	}
	if again := changes(e, now, c); len(again) != 0 {
		t.Errorf("reported again: %v", again)
	}
}

// A call reports no more than it may, and the next one goes on from there. Nor does it look at more states, also if
// there is nothing to report.
func TestSpentChangesAreBounded(t *testing.T) {
	for replicas, walks := range map[int]int{1: 1, 3: 2} {
		walkBounded(t, replicas, walks)
	}
}

func walkBounded(t *testing.T, replicas, walks int) {
	t.Helper()
	e, _ := successors(t, replicas)
	now := 100 * sec
	for i := range 1000 {
		e.Decide(now, &Request{Tenant: "a", Client: fmt.Sprint(i), Pool: "api", Cost: 5})
	}
	c := &SpentCursor{Least: 1}
	seen := 0
	for walk := range walks {
		calls := 0
		for end := false; !end; calls++ {
			n := 0
			end = e.SpentChanges(now, c, 1, 50, func(exchange.KeySpent) { n++ })
			if n > 50+64*8 {
				t.Fatalf("%d reported in one call", n)
			}
			seen += n
		}
		if seen != 1000 || calls < 2 {
			t.Errorf("%d replicas, walk %d: %d of 1000 keys reported in %d calls", replicas, walk, seen, calls)
		}
	}
}

// States that nobody has locked for a change cost a walk nothing. The next walk reports each change.
func TestStatesWithoutChange(t *testing.T) {
	e, _ := successors(t, 3)
	now, c := 100*sec, &SpentCursor{Least: 1}
	for i := range 1000 {
		e.Decide(now, &Request{Tenant: "a", Client: fmt.Sprint(i), Pool: "api", Cost: 5})
	}
	all := changes(e, now, c)
	calls := 0
	for end := false; !end; calls++ {
		end = e.SpentChanges(now, c, 5, 1, func(s exchange.KeySpent) { t.Errorf("reported again: %+v", s) })
	}
	if calls > 6 {
		t.Errorf("a walk without a change takes %d calls, want 5 or 6", calls)
	}
	r := Request{Tenant: "a", Client: "0", Pool: "api"}
	for what, change := range map[string]func(){
		"admitted here": func() { e.Decide(now, &r) },
		"settled":       func() { e.Settle(now, &r, Plain, 2) },
		"admitted elsewhere": func() {
			e.SetSums(now, &exchange.Sums{Replicas: 3, Lag: 100e6, Keys: []exchange.KeySum{
				{Key: slices.Min(slices.Collect(maps.Keys(all))), Admitted: 3, Spent: 3, Own: 3, Epoch: 1}}})
		},
	} {
		change()
		if news := changes(e, now, c); len(news) != 1 {
			t.Errorf("%s: %d changes reported, want 1", what, len(news))
		}
	}
}

// One tick's part of a table of keys, all reported before: a million keys of one gateway, 131,072 that others may use.
func BenchmarkSpentChanges(b *testing.B) {
	for replicas, keys := range map[int]int{1: 1 << 20, 3: 1 << 17} {
		b.Run(fmt.Sprintf("replicas=%d", replicas), func(b *testing.B) {
			e := New(Options{Keys: keys})
			mustApply(b, e, simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: 1. / 3600, Burst: 10}))
			e.SetSums(0, &exchange.Sums{Full: true, Replicas: replicas, Lag: 100e6})
			for i := range keys {
				e.Decide(sec, &Request{Tenant: "a", Client: fmt.Sprint(i), Pool: "api", Cost: 3})
			}
			c := &SpentCursor{Least: 250 * time.Millisecond}
			for end := false; !end; {
				end = e.SpentChanges(sec, c, 1, 1<<30, func(exchange.KeySpent) {})
			}
			for b.Loop() {
				e.SpentChanges(sec, c, 5, 4096, func(exchange.KeySpent) {})
			}
		})
	}
}
