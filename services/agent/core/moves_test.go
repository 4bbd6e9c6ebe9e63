package core

import (
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// addAgents begins so many agents.
func (f *fleet) addAgents(n int) {
	for i := range n {
		f.agents = append(f.agents, &fleetAgent{name: fmt.Sprintf("agent-%03d", i), admitted: map[uint64]float64{},
			claim: map[uint64]float64{}, sums: map[uint64]exchange.KeySum{}, charged: map[uint64]float64{},
			refilled: map[uint64]float64{}, compared: map[uint64]float64{}})
		f.places[f.agents[i].name] = i
		f.begin(i)
	}
}

// move restarts an agent in order at another site; its gateway lives on.
func (f *fleet) move(i int, site string) {
	a := f.agents[i]
	for _, o := range a.LastRound(f.at(a)) {
		to := f.agents[f.places[o.To]]
		b, err := proto.Marshal(o.Packet)
		p := &gossipv1.Packet{}
		if err != nil || proto.Unmarshal(b, p) != nil {
			panic("a packet does not decode")
		}
		_, out := to.ReceivePackets(f.at(to), p)
		f.take(to, out)
	}
	a.dead = true
	for j, b := range f.agents {
		if j != i {
			b.PeerFailed(f.at(b), a.name)
		}
	}
	f.run(500*time.Millisecond, nil)
	f.moved[i], a.dead = site, false
	f.begin(i)
	f.run(time.Second, nil)
}

const firstKey = uint64(11)

// Sites are renamed, split and merged while they run, an agent after the other. Three seconds later each gateway knows
// what the others claim, nobody counts twice, and sites without agents are forgotten; with owners that is so T2 later.
// So it is in fleets of which some agents have no site.
func TestSitesAreRenamedSplitAndMerged(t *testing.T) {
	const key = firstKey
	for name, c := range map[string]struct {
		from, to []string // by agent
	}{
		"renamed":           {[]string{"eu", "eu", "us", "us"}, []string{"eu", "eu", "na", "na"}},
		"split":             {[]string{"eu", "eu", "eu", "eu"}, []string{"eu", "eu", "us", "us"}},
		"split in three":    {[]string{"eu", "eu", "us", "us"}, []string{"eu", "ap", "us", "us"}},
		"merged":            {[]string{"eu", "eu", "us", "us"}, []string{"eu", "eu", "eu", "eu"}},
		"given a site":      {[]string{"", "", "", ""}, []string{"eu", "eu", "us", "us"}},
		"one without":       {[]string{"eu", "eu", "us", ""}, []string{"eu", "eu", "us", "us"}},
		"all without again": {[]string{"eu", "eu", "us", "us"}, []string{"", "", "", ""}},
		"swapped":           {[]string{"eu", "eu", "us", "us"}, []string{"us", "eu", "us", "eu"}},
	} {
		for _, everybody := range []int{1, 16} {
			f := newSites(0, 0, everybody, 1)
			for i, site := range c.from {
				f.moved[i] = site
			}
			f.addAgents(len(c.from))
			for i, a := range f.agents {
				a.claim[key] = float64(i + 1)
				f.admit(i, key, 1)
				for k := range uint64(32) { // used by one more gateway
					if n := uint64(len(f.agents)); k%n == uint64(i) || k/n%n == uint64(i) {
						a.claim[key+1+k] = float64(i + 1)
						f.admit(i, key+1+k, 1)
					}
				}
			}
			f.run(3*time.Second, nil)
			f.claimsOf(t, name+", at first", 33)
			for i, site := range c.to {
				if site != c.from[i] {
					f.move(i, site)
				}
			}
			f.run(3*time.Second, nil)
			if everybody == 1 { // what the sum of a new owner lacks of that of the owner before stands for T2
				f.run(15*time.Second, nil)
			}
			f.claimsOf(t, name+", after it", 33)
			sites := map[string]bool{}
			for _, site := range c.to {
				sites[site] = true
			}
			for _, a := range f.agents {
				if known := a.Status(f.at(a)).Aggregation.Sites; len(known) != len(sites)-1 {
					t.Errorf("%s, everybody %d: %s knows sites %+v, there are %v", name, everybody, a.name, known, sites)
				}
			}
			was := make([]float64, len(f.agents))
			for i, a := range f.agents {
				was[i] = a.charged[key]
			}
			f.admit(0, key, 100)
			f.run(2*time.Second, nil)
			for i, a := range f.agents[1:] {
				if more := a.charged[key] - was[i+1]; math.Abs(more-100) > .1 {
					t.Errorf("%s, everybody %d: gateway %d is charged %v of a cost of 100", name, everybody, i+1, more)
				}
			}
		}
	}
}

// claimsOf fails unless each gateway was sent what all others claim of the first keys that it uses.
func (f *fleet) claimsOf(t *testing.T, what string, keys uint64) {
	t.Helper()
	for i, a := range f.agents {
		for key := firstKey; key < firstKey+keys; key++ {
			_, claims := f.truth(key, i)
			if got := a.sums[key].Claims; a.claim[key] > 0 && math.Abs(got-claims) > .01*claims {
				t.Errorf("%s, everybody %d: gateway %d of %q is told that the others claim %v of key %d, want %v", what,
					f.everybody, i, f.site(i), got, key, claims)
			}
		}
	}
}

// A site whose agents have all failed may only be cut off: its claims stand. When its
// agents leave in order, or the owner that claimed is gone and no other one claims, they end.
func TestClaimsOfASiteThatIsGone(t *testing.T) {
	claimed := func(f *fleet) float64 { return f.agents[f.ownerAt(0)].sums[firstKey].Claims }
	begin := func() *fleet {
		f := newSites(2, 4, 1, 1)
		for i, a := range f.agents {
			if a.claim[firstKey] = 5; i%2 == 0 || i == f.ownerAt(1) { // at the other site the owner's gateway alone
				f.admit(i, firstKey, 1)
			}
		}
		f.run(2*time.Second, nil)
		return f
	}
	fail := func(f *fleet, i int) {
		f.agents[i].dead = true
		for j, b := range f.agents {
			if j != i && !b.dead {
				b.PeerFailed(f.at(b), f.agents[i].name)
			}
		}
	}
	f := begin()
	f.run(40*time.Second, nil) // for minutes a site counts that was known for as long as that
	fail(f, 1)
	fail(f, 3)
	for range 3 {
		f.run(time.Minute, nil)
		f.begin(2 - f.ownerAt(0)) // has the owner look again at who there is
		f.run(2*time.Second, nil)
		if got := claimed(f); got != 10 {
			t.Errorf("after a cut of some minutes the others claim %v, want 10", got)
		}
	}
	f = begin()
	f.move(1, "site-0")
	f.move(3, "site-0")
	f.run(16*time.Second, nil)
	if got := claimed(f); got != 10 {
		t.Errorf("after a merge the others claim %v, want 10", got)
	}
	f = begin()
	fail(f, f.ownerAt(1))
	f.run(2*time.Second, nil)
	if got := claimed(f); got != 10 {
		t.Errorf("just after an owner failed the others claim %v, want 10", got)
	}
	f.run(16*time.Second, nil)
	if got := claimed(f); got != 5 {
		t.Errorf("T2 after an owner failed with its gateway the others claim %v, want 5", got)
	}
}

// ownerAt returns the agent of a site that owns the first key.
func (f *fleet) ownerAt(site int) int {
	best, most := 0, uint64(0)
	for i := site; i < len(f.agents); i += f.sites {
		if s := exchange.OwnerScore(firstKey, exchange.OwnerHash(f.agents[i].name)); s > most {
			best, most = i, s
		}
	}
	return best
}
