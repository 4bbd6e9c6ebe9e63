package aggregation

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// An agent that starts while it is cut off counts itself as one of the former agents, and not as the only one.
func TestStartsCutOff(t *testing.T) {
	w := newWorld()
	w.RestoreMembers(w.now, []Member{{"a", 1}, {"b", 1}, {"c", 2}})
	w.keep(300 * ms)
	w.expect(t, "at first", 3, exchange.Frozen)
	w.keep(time.Second)
	w.expect(t, "nobody heard", 3, exchange.Split)
	w.keep(time.Minute)
	s := w.sums()
	if s.Replicas != 3 || s.TotalWeight != 4 || s.Isolation != exchange.Split {
		t.Errorf("after a minute: %+v, want 3 members that weigh 4, and Split", s)
	}
	w.keep(time.Second, "b", "c")
	w.expect(t, "the others are heard", 3, exchange.Connected)
}

// The restored members do not outlive received packets, nor the coordinator's leases.
func TestRemembersTooMany(t *testing.T) {
	w := newWorld()
	w.RestoreMembers(w.now, []Member{{"a", 1}, {"b", 1}, {"gone", 1}})
	w.keep(200*ms, "b")
	w.expect(t, "b is heard", 3, exchange.Connected)
	w.keep(20*time.Second, "b")
	w.expect(t, "the other never is", 2, exchange.Connected)

	w = newWorld()
	w.RestoreMembers(w.now, []Member{{"a", 1}, {"b", 1}, {"gone", 1}})
	w.keep(2 * time.Second)
	w.SetMembers(w.now, []Member{{"a", 1}}, time.Hour)
	w.expect(t, "the coordinator says that both are gone", 1, exchange.Connected)
}

// The first lease after a start may come from a leader that the others have not reached again yet, as when all agents
// are restarted in turn.
func TestFirstLeaseKnowsNotAll(t *testing.T) {
	w := newWorld()
	w.RestoreMembers(w.now, []Member{{"a", 1}, {"b", 1}, {"c", 1}})
	w.SetMembers(w.now, []Member{{"a", 1}}, time.Hour)
	w.keep(time.Second, "b", "c")
	w.expect(t, "all are heard", 3, exchange.Connected)
}

// An agent that starts again while another one is dead does not know what that one's gateway
// claims, and keeps its part by weight for it. Otherwise its own gateways would take that
// part as well: the other gateway still runs.
func TestStartsWhileAnotherIsDead(t *testing.T) {
	w := newWorld()
	w.RestoreMembers(w.now, []Member{{"a", 1}, {"b", 1}, {"dead", 2}})
	absent := func(when string, want float64) {
		t.Helper()
		if s := w.sums(); s.Absent != want {
			t.Errorf("%s: the weight of absent members is %v, want %v", when, s.Absent, want)
		}
	}
	absent("nobody heard yet", 3)
	w.keep(200*ms, "b")
	absent("b heard", 2)
	w.SetMembers(w.now, []Member{{"a", 1}, {"b", 1}, {"dead", 2}}, time.Hour)
	w.keep(time.Second, "b")
	absent("the coordinator counts it", 2)
	w.keep(200*ms, "b", "dead")
	absent("it is back", 0)

	w = newWorld()
	w.RestoreMembers(w.now, []Member{{"a", 1}, {"dead", 2}})
	w.SetMembers(w.now, []Member{{"a", 1}}, time.Hour)
	absent("the coordinator does not count it", 0)
}

// Agents of a large fleet that share no key speak each four seconds, so that a cut is noticed
// late. T1 counts from the silence all the same: the gateways that are cut off go to their
// parts by weight before the others, after T2, take what is left.
func TestSplitComesBeforeT2(t *testing.T) {
	w := newWorld()
	const slow = 4 * time.Second
	for _, name := range []string{"b", "c"} {
		w.Receive(w.now, Sender{Agent: "agent of " + name, Life: 1, Promise: slow},
			[]*gossipv1.Replica{stateOf(name, 1, nil)})
	}
	w.keep(11 * time.Second)
	w.expect(t, "not noticed yet", 3, exchange.Connected)
	w.keep(exchange.DefaultSplitAfter - 11*time.Second + 500*ms)
	w.expect(t, "longer than T1, shorter than T2", 3, exchange.Split)
}
