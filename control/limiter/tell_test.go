package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// told walks the whole table once and returns what it was told, by key.
func told(e *Engine, now int64, w *SpentWalk) map[uint64]exchange.KeySpent {
	out := map[uint64]exchange.KeySpent{}
	for end := false; !end; {
		end = e.TellSpent(now, w, 5, 1<<30, func(s exchange.KeySpent) { out[s.Key] = s })
	}
	return out
}

// An engine that takes over what a walk has told admits what the first one would
// have, but for what is below Least. Only news are told again.
func TestTellSpent(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		parent, child := heirs(t, replicas)
		now := 100 * sec
		w := &SpentWalk{Least: 1500 * time.Millisecond} // 1.5 of a rate of 1/s
		for i := range 8 {
			for range i {
				parent.Decide(now, &Request{Tenant: "a", Client: fmt.Sprint("client-", i), Pool: "api"})
			}
		}
		admitted(parent, now, "named")
		first := told(parent, now, w)
		if len(first) != 7 { // clients 2 to 7, and the one with a name
			t.Errorf("%d replicas: %d keys told, want 7: %v", replicas, len(first), first)
		}
		if again := told(parent, now, w); len(again) != 0 {
			t.Errorf("%d replicas: told again without news: %v", replicas, again)
		}
		for _, s := range first {
			child.Inherit(now, s)
		}
		for _, client := range []string{"client-0", "client-1", "client-2", "client-5", "client-7", "named"} {
			slack := 0
			if client == "client-1" {
				slack = 1
			}
			want, got := admitted(parent, now, client), admitted(child, now, client)
			if got > want+slack {
				t.Errorf("%d replicas: %s gets %d more from the child, %d more from its parent", replicas, client, got, want)
			}
		}
		if news := told(parent, now, w); len(news) != 5 && replicas == 1 {
			t.Errorf("%d keys told after five have spent more", len(news))
		}
	}
}

// What is given back is told too, and then forgotten.
func TestTellRefund(t *testing.T) {
	e, _ := heirs(t, 1)
	now := 100 * sec
	w := &SpentWalk{Least: 500 * time.Millisecond}
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 8}
	e.Decide(now, r)
	before := told(e, now, w)
	e.Settle(now, r, 0)
	after := told(e, now, w)
	if len(before) != 1 || len(after) != 1 {
		t.Fatalf("told %v, then %v", before, after)
	}
	for key, s := range after {
		if before[key].Ahead < 7*time.Second || s.Ahead > 100*time.Millisecond {
			t.Errorf("told %v, then %v", before[key], s)
		}
	}
	if again := told(e, now, w); len(again) != 0 {
		t.Errorf("told again: %v", again)
	}
}

// A call tells no more than it may, and the walk goes on from there.
func TestTellBounded(t *testing.T) {
	e, _ := heirs(t, 1)
	now := 100 * sec
	for i := range 1000 {
		e.Decide(now, &Request{Tenant: "a", Client: fmt.Sprint(i), Pool: "api", Cost: 5})
	}
	w := &SpentWalk{Least: 1}
	seen, calls := 0, 0
	for end := false; !end; calls++ {
		n := 0
		end = e.TellSpent(now, w, 1, 50, func(exchange.KeySpent) { n++ })
		if n > 50+64*slotsPerBucket {
			t.Fatalf("%d told in one call", n)
		}
		seen += n
	}
	if seen != 1000 || calls < 2 {
		t.Errorf("%d of 1000 keys told in %d calls", seen, calls)
	}
}

// One tick's part of a table of a million keys, all told before.
func BenchmarkTellSpent(b *testing.B) {
	e := New(Options{Keys: 1 << 20})
	mustApply(b, e, simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: 1. / 3600, Burst: 10}))
	for i := range 1 << 20 {
		e.Decide(sec, &Request{Tenant: "a", Client: fmt.Sprint(i), Pool: "api"})
	}
	w := &SpentWalk{Least: 250 * time.Millisecond}
	for e.TellSpent(sec, w, 1, 1<<30, func(exchange.KeySpent) {}); b.Loop(); {
		e.TellSpent(sec, w, 5, 4096, func(exchange.KeySpent) {})
	}
}
