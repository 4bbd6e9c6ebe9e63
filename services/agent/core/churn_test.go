package core

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// Up to 16 agents, whatever packets are lost, repeated or late, and however the agents
// disagree for a while on who is alive. Then each gateway has the exact sums of the others,
// and on the way no count runs back or ahead.
func TestSumsAreExactAfterQuiet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { testChurn(t, 16, nil) })
}

// With owners, the claims are exact after quiet, and all that is admitted then is counted. Of what was admitted before
// owners changed nothing is forgotten. Nothing is counted twice but what was still on its way to one of two owners, and
// what comparisons of pools have charged.
func TestOwnersChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { testChurn(t, 1, nil) })
}

// Some agents send all others the claims of fewer keys than others do. What was on its way to one of two owners, and so
// counted twice, may be made up for later.
func TestKeysHaveOneOwnerAtSomeAgents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		testChurn(t, 16, func() int { return rapid.SampledFrom([]int{-1, 1, 2, 3}).Draw(t, "shared") })
	})
}

func testChurn(t *rapid.T, everybody int, shared func() int) {
	n := rapid.IntRange(2, 4).Draw(t, "agents")
	f := newShared(n, everybody, rapid.Uint64().Draw(t, "seed"), shared)
	allKnow := everybody > n && shared == nil
	keys := []uint64{11, 12, 13}
	for i := range n {
		for _, k := range keys {
			f.admit(i, k, float64(1+f.random.IntN(5)))
		}
		f.run(500*time.Millisecond, nil) // else what both have admitted is spent only once, as they see it
	}
	f.wants(t, "at first", f.all(keys), keys...)
	least := f.all(keys)
	f.loss = float64(rapid.IntRange(0, 4).Draw(t, "loss")) / 10
	before := make([]map[uint64]float64, n)
	for i := range before {
		before[i] = map[uint64]float64{}
	}
	check := func() {
		for i, a := range f.agents {
			for _, k := range keys {
				most := f.most(a, k)
				if got := a.spent(k); got < before[i][k]-1e-6 || got > most+1e-6 {
					t.Fatalf("gateway %d takes %v of key %d to be spent after %v, %v were admitted", i, got, k, before[i][k],
						most)
				}
				before[i][k] = a.spent(k)
			}
		}
	}
	for range rapid.IntRange(0, 12).Draw(t, "steps") {
		i, j := f.random.IntN(n), f.random.IntN(n)
		if a, b := f.agents[i], f.agents[j]; i != j {
			switch f.random.IntN(3) {
			case 0:
				a.PeerFailed(f.at(a), b.name)
			case 1:
				a.PeerAlive(f.at(a), b.name, "", false, schedule.Version)
			}
		}
		i, k := f.random.IntN(n), keys[f.random.IntN(len(keys))]
		f.agents[i].claim[k] = 0
		f.admit(i, k, float64(f.random.IntN(4)))
		f.run(time.Duration(f.random.IntN(400))*time.Millisecond, check)
	}
	f.loss = 0
	for i, a := range f.agents {
		for j, b := range f.agents {
			if i != j {
				a.PeerAlive(f.at(a), b.name, "", false, schedule.Version)
			}
		}
	}
	f.run(2*time.Second, check)
	if allKnow {
		least = f.all(keys)
	}
	f.wants(t, "after quiet", least, keys...)
	was, admitted := make([]map[uint64]float64, n), f.all(keys)
	for i, a := range f.agents {
		was[i] = map[uint64]float64{}
		for _, k := range keys {
			was[i][k] = a.spent(k)
		}
	}
	for i := range n {
		for _, k := range keys {
			f.agents[i].claim[k] = float64(i + 1)
			f.admit(i, k, float64(1+i))
		}
	}
	f.run(time.Second, check)
	f.wants(t, "later", least, keys...)
	for i, a := range f.agents {
		for _, k := range keys {
			now, _ := f.truth(k, -1)
			got, want := a.spent(k)-was[i][k], now-admitted[k]
			if less := got < want-1e-6; less && (shared == nil || a.spent(k) < now-f.onItsWay(a, k)) || allKnow && got > want+1e-6 {
				t.Fatalf("gateway %d has counted %v of key %d since the quiet, want %v, with owners no less", i, got, k, want)
			}
		}
	}
}
