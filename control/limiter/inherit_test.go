package limiter

import (
	"fmt"
	"testing"
)

// heirs are an engine and the one that takes its place.
func heirs(t *testing.T, replicas int) (parent, child *Engine) {
	t.Helper()
	config := simple(1e9, Queue{}, Limit{Name: "l", Rate: 1, Burst: 10, Overrides: map[string]RateBurst{"named": {1, 20}}})
	for _, e := range []**Engine{&parent, &child} {
		*e = New(Options{Keys: 4096})
		mustApply(t, *e, config)
		(*e).SetSums(0, &Sums{Replicas: replicas, Lag: 100e6})
	}
	return parent, child
}

// admitted counts how many of a client's requests pass before the first that does not.
func admitted(e *Engine, now int64, client string) (n int) {
	for e.Decide(now, &Request{Tenant: "a", Client: client, Pool: "api"}).Verdict == Admit {
		n++
	}
	return n
}

// What one engine has given away, the other does not give again: of keys in the
// table, of those that are contended, and of those that have a name.
func TestInherit(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		parent, child := heirs(t, replicas)
		now := 100 * sec
		for i := range 8 {
			for range i {
				parent.Decide(now, &Request{Tenant: "a", Client: fmt.Sprint("client-", i), Pool: "api"})
			}
		}
		spent := admitted(parent, now, "named")
		later := now + 2*sec // 2 of each are won back
		seen := 0
		parent.Bequeath(later, func(s Spent) { seen++; child.Inherit(later+sec/2, s) })
		if seen == 0 {
			t.Fatal("nothing to inherit")
		}
		for i := range 8 {
			client := fmt.Sprint("client-", i)
			want, got := admitted(parent, later, client), admitted(child, later+sec/2, client)
			if got > want {
				t.Errorf("%d replicas: %s gets %d more from the child, %d more from its parent", replicas, client, got, want)
			}
			if least := 10 - max(0, i-2); replicas == 1 && got < least {
				t.Errorf("%s spent %d two seconds ago and gets %d from the child, %d are due", client, i, got, least)
			}
		}
		if got := admitted(child, later+sec/2, "named"); got > 20-spent+3 {
			t.Errorf("%d replicas: the named client spent %d and gets %d more of 20", replicas, spent, got)
		}
	}
}

// An engine inherits over what it has decided itself: the larger counts.
func TestInheritLate(t *testing.T) {
	_, child := heirs(t, 1)
	now := 100 * sec
	r := &Request{Tenant: "a", Client: "x", Pool: "api"}
	for range 6 {
		child.Decide(now, r)
	}
	var key uint64
	child.Bequeath(now, func(s Spent) { key = s.Key })
	child.Inherit(now, Spent{Key: key, Ahead: 3e9})
	child.Inherit(now, Spent{Key: key, Ahead: -1})
	if n := admitted(child, now, "x"); n != 4 {
		t.Errorf("%d left of 10 after 6, want 4", n)
	}
}
