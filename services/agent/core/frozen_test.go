package core

import (
	"testing"
	"time"

	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// The process of an owner stands still, for less than its claims count or for longer, and goes on.
// The others find another owner meanwhile. Afterwards all know what all claim, nothing that was
// admitted before is forgotten, nothing counts twice, and what is admitted next counts with all.
func TestAFrozenOwner(t *testing.T) {
	for _, frozen := range []time.Duration{6 * time.Second, time.Minute} {
		t.Run(frozen.String(), func(t *testing.T) { testFrozenOwner(t, frozen) })
	}
}

func testFrozenOwner(t *testing.T, frozen time.Duration) {
	const key = 1 // whose owner fleet.owner returns
	f := newFleet(4, 1, 1)
	f.run(500*time.Millisecond, nil)
	for i, a := range f.agents {
		a.claim[key] = float64(i + 1)
		f.admit(i, key, float64(10*(i+1)))
		f.run(500*time.Millisecond, nil)
	}
	f.wants(t, "before", f.all([]uint64{key}), key)
	least, owner := f.all([]uint64{key}), f.owner()
	each := func(do func(a *fleetAgent, i int)) {
		for i, a := range f.agents {
			if i != owner {
				do(a, i)
			}
		}
	}
	o := f.agents[owner]
	o.dead = true
	f.run(2*time.Second, nil)
	each(func(a *fleetAgent, _ int) { a.PeerFailed(f.at(a), o.name) })
	for end := f.now + frozen - 2*time.Second; f.now < end; {
		each(func(_ *fleetAgent, i int) { f.admit(i, key, 1) })
		f.run(time.Second, nil)
	}
	before, _ := f.truth(key, -1)
	each(func(a *fleetAgent, i int) {
		if got := a.spent(key); got < before { // and what the frozen one is taken to go on with
			t.Errorf("gateway %d takes %v to be spent while the owner stood still, of %v", i, got, before)
		}
	})
	o.dead = false
	each(func(a *fleetAgent, _ int) { a.PeerAlive(f.at(a), o.name, "", false, schedule.Version) })
	f.run(5*time.Second, nil)
	was := make([]float64, len(f.agents))
	for i, a := range f.agents {
		if _, claims := f.truth(key, i); a.sums[key].Claims != claims {
			t.Errorf("gateway %d is told that the others claim %v, want %v", i, a.sums[key].Claims, claims)
		}
		if a.spent(key) < least[key] {
			t.Errorf("gateway %d takes %v to be spent, less than before", i, a.spent(key))
		}
		was[i] = a.spent(key)
	}
	for i := range f.agents {
		f.admit(i, key, 2)
		f.run(500*time.Millisecond, nil)
	}
	f.run(time.Second, nil)
	for i, a := range f.agents {
		if got := a.spent(key) - was[i]; got != 8 {
			t.Errorf("gateway %d has counted %v since, want 8", i, got)
		}
	}
}
