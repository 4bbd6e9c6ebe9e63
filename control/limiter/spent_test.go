package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// successors returns an engine and the engine that takes its place.
func successors(t *testing.T, replicas int) (parent, child *Engine) {
	t.Helper()
	config := simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: 1, Burst: 10,
		Overrides: map[string]config.RateBurst{"named": {Rate: 1, Burst: 20}}})
	for _, e := range []**Engine{&parent, &child} {
		*e = New(Options{Keys: 4096})
		mustApply(t, *e, config)
		(*e).SetSums(0, &exchange.Sums{Full: true, Replicas: replicas, Lag: 100e6})
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
// table, of contended keys, and of keys that have a name.
func TestRestoreSpent(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		parent, child := successors(t, replicas)
		now := 100 * sec
		for i := range 8 {
			for range i {
				parent.Decide(now, &Request{Tenant: "a", Client: fmt.Sprint("client-", i), Pool: "api"})
			}
		}
		spent := admitted(parent, now, "named")
		later := now + 2*sec // 2 of each are won back
		seen := 0
		parent.VisitSpent(later, func(s exchange.KeySpent) { seen++; child.RestoreSpent(later+sec/2, s) })
		if seen == 0 {
			t.Fatal("nothing to restore")
		}
		for i := range 8 {
			client := fmt.Sprint("client-", i)
			want, got := admitted(parent, later, client), admitted(child, later+sec/2, client)
			if got > want {
				t.Errorf("%d replicas: %s gets %d more from the child, %d more from its parent", replicas, client, got,
					want)
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

// An engine restores over what it has decided itself: the larger counts.
func TestRestoreSpentLate(t *testing.T) {
	_, child := successors(t, 1)
	now := 100 * sec
	r := &Request{Tenant: "a", Client: "x", Pool: "api"}
	for range 6 {
		child.Decide(now, r)
	}
	var key uint64
	child.VisitSpent(now, func(s exchange.KeySpent) { key = s.Key })
	child.RestoreSpent(now, exchange.KeySpent{Key: key, Ahead: 3e9})
	child.RestoreSpent(now, exchange.KeySpent{Key: key, Ahead: -1})
	if n := admitted(child, now, "x"); n != 4 {
		t.Errorf("%d left of 10 after 6, want 4", n)
	}
}

// The others know what was restored of a key, as it had been announced: it is neither
// announced again nor added to what they say that is spent.
func TestRestoredUseIsNotAnnouncedAgain(t *testing.T) {
	for _, client := range []string{"x", "named"} {
		_, child := successors(t, 3)
		now := 100 * sec
		key := hash.Limit(7, "a", "l", client)
		child.RestoreSpent(now, exchange.KeySpent{Key: key, Ahead: 6e9})
		child.SetSums(now, sumsOf(3, exchange.KeySum{Key: key, Claims: 0.1, Active: 0, Unsaturated: 0.1, Admitted: 4,
			Spent: 6, Epoch: 1}))
		r := &Request{Tenant: "a", Client: client, Pool: "api"}
		if out := child.Decide(now, r); out.Verdict != Admit {
			t.Fatalf("%s has 6 spent: %+v", client, out)
		}
		var c exchange.Claims
		child.Claims(now, &c)
		if len(c.Keys) != 1 || c.Keys[0].Admitted != 1 {
			t.Errorf("%s: %+v is announced, want one request admitted", client, c.Keys)
		}
		if x := child.Explain(now, r); math.Abs(x.Limits[0].Burst-x.Limits[0].Free-7) > 1e-6 {
			t.Errorf("%s: %v of %v are left, want 7 spent: 6 before, and one request", client, x.Limits[0].Free,
				x.Limits[0].Burst)
		}
	}
}

// A gateway that is replaced together with its agent restores nothing. Of a key that
// others use it receives what is spent: it adds what it admits before that. A key that only
// this gateway used is known nowhere: the gateway adds one burst.
func TestReplacedWithItsAgent(t *testing.T) {
	const rate, burst, offered = 2.0, 50.0, 100.0
	const heard = 0.15 // seconds until the first sums: a period, the delay, a period
	config := &config.Config{
		Pools:   []config.Pool{{Name: "api", Capacity: 1e5}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{{Name: "user", Rate: rate, Burst: burst}}}},
	}
	for what, tc := range map[string]struct {
		parts       []float64
		least, most float64 // added
	}{
		"used by others, too": {[]float64{1, 1, 1}, 0, offered / 3 * heard},
		"its own":             {[]float64{1, 0, 0}, burst * 0.9, burst},
	} {
		c := newCluster(t, 3, config, Options{})
		s := c.source("acme", "u", "api", constant(offered), c.weighted(tc.parts...))
		c.run(20 * time.Second)
		before := max(0, c.excess(of(s), rate, burst))
		c.replace(0, config)
		c.run(20 * time.Second)
		added := c.excess(of(s), rate, burst) - before
		t.Logf("%s: %.1f beyond the limit before, %.1f added", what, before, added)
		if added < tc.least || added > tc.most {
			t.Errorf("%s: %.1f more are admitted, want %.1f to %.1f", what, added, tc.least, tc.most)
		}
	}
}
