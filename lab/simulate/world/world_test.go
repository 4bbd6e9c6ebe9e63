package world

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/scenario"
)

func TestNetwork(t *testing.T) {
	names := []string{"a", "b", "c"}
	n := newNetwork(&scenario.Scenario{Gossip: scenario.Gossip{Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond}},
		names, rand.New(rand.NewPCG(1, 1)))
	a, b, c := &agent{place: 0}, &agent{place: 1}, &agent{place: 2}
	const start = 10 * time.Second
	if !n.passes(0, 2) || !n.passes(1, coordinatorPlace) || !n.believes(a, b, start) {
		t.Fatal("a whole network is not whole")
	}
	n.cut(start, names, [][]string{{"a"}, {"b", scenario.Coordinator}})
	if n.passes(0, 1) || n.passes(0, coordinatorPlace) || !n.passes(1, coordinatorPlace) || n.passes(2, 1) {
		t.Errorf("groups %v", n.groups)
	}
	if _, ok := n.carry(time.Hour, 0, 1); ok {
		t.Error("a packet through a cut")
	}
	if !n.believes(a, b, start+time.Second) || n.believes(a, b, start+giveUpAfter) {
		t.Error("an unreachable agent is declared dead after giveUpAfter, not sooner")
	}
	n.heal(start + 5*time.Second)
	if n.believes(a, c, start+5*time.Second) || !n.believes(a, c, start+5*time.Second+rejoinAfter) {
		t.Error("a lost agent is found again after rejoinAfter, not sooner")
	}
	c.start = start + 10*time.Second
	if n.believes(a, c, c.start) || !n.believes(a, c, c.start+knownAfter) {
		t.Error("a newcomer is known after knownAfter, not sooner")
	}
	for range 1000 {
		if d, ok := n.carry(time.Hour, 0, 1); !ok || d < 15*time.Millisecond || d > 25*time.Millisecond {
			t.Fatalf("20 ± 5 ms: %v, %v", d, ok)
		}
	}
	n.gossip.Loss = .3
	lost := 0
	for range 10000 {
		if _, ok := n.carry(time.Hour, 0, 1); !ok {
			lost++
		}
	}
	if lost < 2800 || lost > 3200 {
		t.Errorf("%d of 10000 lost, want 3000", lost)
	}
}

// What a memberlist reports of others does not change longer than longest after something
// has happened to an agent or the network.
func TestBeliefsSettle(t *testing.T) {
	names := []string{"a", "b"}
	n := newNetwork(&scenario.Scenario{}, names, rand.New(rand.NewPCG(1, 1)))
	a, b := &agent{place: 0}, &agent{place: 1, start: time.Second}
	touched := b.start
	check := func(what string, believed bool) {
		t.Helper()
		for _, after := range []time.Duration{longest, longest + time.Second, time.Hour} {
			if n.believes(a, b, touched+after) != believed {
				t.Errorf("%s, %v later: believed to be alive: %v, want %v", what, after, !believed, believed)
			}
		}
	}
	check("start", true)
	n.cut(10*time.Second, names, [][]string{{"a"}, {"b"}})
	touched = n.touched
	check("cut", false)
	n.heal(20 * time.Second)
	touched = n.touched
	check("heal", true)
	if touched != 20*time.Second {
		t.Errorf("touched at %v", touched)
	}
}
