package keys

import (
	"fmt"
	"sync"
	"testing"

	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// changed returns what follows a group with other numbers.
func (w *world) changed(old *Group, rate, burst float64, overrides map[string]Numbers) *Group {
	g := &Group{}
	n := Numbers{Rate: rate, Burst: burst}
	g.Init(NextVersion(old.version), hash.OfLimit(7, "a", "l", ""), false, n, overrides, nil, nil)
	g.Follow(old)
	return g
}

// see returns what counts a client's key, as a thread finds it that does no more for now.
func (w *world) see(t *testing.T, g *Group, client string) *counter {
	t.Helper()
	c := &counter{}
	if c.key, c.slot, _ = w.obtainSlot(g, client, w.now); !c.look(w.Store) || c.state != nil {
		t.Fatal("the slot does not count")
	}
	return c
}

// Two threads find that one slot counts by earlier numbers, or by none. The later one changes nothing.
func TestRenewedByAnotherThread(t *testing.T) {
	w := newWorld(16, Numbers{Rate: 1, Burst: 100})
	w.view.Store(members.Alone())
	first, second := w.see(t, &w.g, "c"), w.see(t, &w.g, "c")
	w.renew(first, &w.g, "c", w.now)
	w.Take(&w.g, "c", w.now, 80*unit, false)
	w.renew(second, &w.g, "c", w.now)

	smaller := w.changed(&w.g, 1, 10, nil)
	first, second = w.see(t, smaller, "c"), w.see(t, smaller, "c")
	w.renew(first, smaller, "c", w.now)
	w.renew(second, smaller, "c", w.now)
	if u := w.Usage(smaller, "c", w.now, unit); u.Spent < 7.9 || u.Spent > 8.1 {
		t.Errorf("%v of 10 is spent, want 8", u.Spent)
	}
}

// A thread that still has the numbers before a change comes late. What is counted by the later ones stays,
// and what was computed by the later ones does not count by the earlier ones.
func TestRenewedByEarlierNumbers(t *testing.T) {
	w := newWorld(16, Numbers{Rate: 1, Burst: 100})
	w.view.Store(members.Alone())
	smaller := w.changed(&w.g, 1e-3, 10, nil)
	late := w.see(t, &w.g, "c")
	w.Take(smaller, "c", w.now, 5*unit, false)
	w.renew(late, &w.g, "c", w.now)
	if u := w.Usage(smaller, "c", w.now, unit); u.Spent < 4.9 || u.Spent > 5.1 {
		t.Errorf("%v of 10 is spent, want 5", u.Spent)
	}

	w.Take(smaller, "d", w.now-1e6, 0, false)
	computed := w.see(t, smaller, "d")
	w.renew(w.see(t, &w.g, "d"), &w.g, "d", w.now)
	if computed.slot.version() != uint16(smaller.version) && computed.swap(w.now+1e12) {
		t.Error("what is computed by the later numbers counts by the earlier ones")
	}
}

// Threads use new clients for the first time together, and go on while their limit changes.
func TestChangeWhileThreadsMeet(t *testing.T) {
	w := newWorld(1000, Numbers{Rate: 1e-6, Burst: 100})
	w.view.Store(members.Alone())
	for round := range 300 {
		client, g := fmt.Sprint(round), &Group{}
		g.Init(1, hash.OfLimit(7, "a", "l", ""), false, Numbers{Rate: 1e-6, Burst: 100}, nil, nil, nil)
		smaller := w.changed(g, 1e-7, 10, nil)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for _, by := range []*Group{g, g, smaller, smaller} {
					w.Take(by, client, w.now, unit, false)
				}
			})
		}
		all.Wait()
		if u := w.Usage(smaller, client, w.now, unit); u.Spent < 8 || u.Spent > 10.01 {
			t.Fatalf("round %d: %v of 10 is spent", round, u.Spent)
		}
	}
}

// A change of one client's override changes nothing for another one, not even its debt.
func TestChangeOfAnothersOverride(t *testing.T) {
	w := newWorld(16, Numbers{Rate: 1, Burst: 10})
	w.view.Store(members.Alone())
	w.Owe(&w.g, "c", w.now, 18*unit)
	g := &w.g
	for i := range 6 {
		g = w.changed(g, 1, 10, map[string]Numbers{"other": {Rate: float64(i + 1), Burst: 5}})
		if u := w.Usage(g, "c", w.now, unit); u.Spent < 17.9 || u.Spent > 18.1 {
			t.Fatalf("change %d: %v is spent, want 18", i, u.Spent)
		}
	}
}

// A limit that was unchanged while very many others changed is renewed by its next change.
func TestChangeAfterVeryMany(t *testing.T) {
	for _, later := range []uint32{1, 1 << 15, 1<<15 + 1, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1 << 30} {
		w := newWorld(16, Numbers{Rate: 1, Burst: 1000})
		w.view.Store(members.Alone())
		w.Take(&w.g, "c", w.now, 900*unit, false)
		smaller := &Group{}
		smaller.Init(NextVersion(w.g.version+later-1), hash.OfLimit(7, "a", "l", ""), false, Numbers{Rate: 1, Burst: 10}, nil, nil, nil)
		smaller.Follow(&w.g)
		if u := w.Usage(smaller, "c", w.now, unit); u.Spent < 8.9 || u.Spent > 9.1 {
			t.Errorf("%d versions later: %v of 10 is spent, want 9", later, u.Spent)
		}
	}
}

// States that sleep follow a change within a walk, and what is kept for that goes.
func TestSleepingStatesFollow(t *testing.T) {
	w := newWorld(3000, Numbers{Rate: 1e-3, Burst: 100})
	const clients = 2000
	for i := range clients {
		w.Take(&w.g, fmt.Sprint(i), w.now, 80*unit, false)
	}
	w.pass(100)
	smaller := w.changed(&w.g, 1e-3, 10, map[string]Numbers{"7": {Rate: 1e-3, Burst: 50}})
	w.Changed(map[uint64]*Group{smaller.ID(): smaller})
	said := map[uint64]float64{}
	for _, k := range w.pass(walkPeriods + 1).Keys {
		said[k.Key] = k.Spent
	}
	for i := range clients {
		client, want := fmt.Sprint(i), 8.
		if client == "7" {
			want = 40
		}
		if got := said[smaller.Key(client)]; got < want-.2 || got > want+.2 {
			t.Fatalf("client %s: %v is announced as spent, want %v", client, got, want)
		}
	}
	if w.pass(int(keepChanged / 50e6)); w.Store.changed.Load() != nil || w.walk.changed != nil {
		t.Error("the change is kept for ever")
	}
}
