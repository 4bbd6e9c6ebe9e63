package core

import (
	"testing"
	"time"

	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// A gateway stops to use a key while its agent takes the owner for dead, which it is not. The
// owner learns that as soon as somebody else asks.
func TestAnEndThatIsLostIsToldLater(t *testing.T) {
	const key = 1
	f := newFleet(4, 1, 1)
	f.run(500*time.Millisecond, nil)
	f.agents[0].claim[key] = 5
	f.admit(0, key, 3)
	f.run(500*time.Millisecond, nil)
	owner := f.owner()
	user, third := (owner+1)%4, (owner+2)%4
	f.withdraw(0, key)
	f.run(500*time.Millisecond, nil)
	f.agents[user].claim[key] = 7
	f.admit(user, key, 3)
	f.run(500*time.Millisecond, nil)
	u := f.agents[user]
	u.PeerFailed(f.at(u), f.agents[owner].name)
	f.run(100*time.Millisecond, nil)
	f.withdraw(user, key)
	f.run(3*time.Second, nil)
	u.PeerAlive(f.at(u), f.agents[owner].name, "", false, schedule.Version)
	f.run(time.Second, nil)
	f.agents[third].claim[key] = 1
	f.admit(third, key, 1)
	f.run(time.Second, nil)
	if got := f.agents[third].sums[key].Claims; got != 0 {
		t.Errorf("gateway %d is told that others claim %v, want none", third, got)
	}
}

// An agent that uses a key alone does not send changes. When a second one comes, nothing that the first one said long
// ago is charged there: it is asked, and what is still spent is.
func TestTheSecondAgentHearsWhatIsSpentNow(t *testing.T) {
	for _, spent := range []float64{0, 2} {
		const key = 1
		f := newFleet(4, 1, 1)
		f.run(500*time.Millisecond, nil)
		f.admit(0, key, 0)
		f.run(500*time.Millisecond, nil)
		owner := f.owner()
		f.withdraw(0, key)
		f.run(time.Second, nil)
		for _, first := range []int{owner, (owner + 1) % 4} {
			second := (owner + 2) % 4
			use := func(i int, cost, spent float64) {
				a := f.agents[i]
				a.refilled[key] = a.admitted[key] + cost + a.charged[key] - spent
				f.admit(i, key, cost)
				f.run(time.Second, nil)
			}
			use(first, 5, 5)
			use(first, 35, spent) // most of it is refilled
			use(second, 1, 1)
			if got := f.agents[second].charged[key]; got != spent {
				t.Errorf("the first is agent %d, the owner %d: %v is charged at the second, want the %v that are still spent",
					first, owner, got, spent)
			}
			f.withdraw(first, key)
			f.withdraw(second, key)
			f.run(time.Second, nil)
		}
	}
}

// A gateway that uses a key again, after a while without its sums, is not charged what the others admitted meanwhile
// and was refilled, but what is spent.
func TestWhoComesBackIsChargedWhatIsSpent(t *testing.T) {
	const key = 1
	f := newFleet(4, 1, 1)
	f.run(500*time.Millisecond, nil)
	use := func(i int, cost, spent float64) {
		a := f.agents[i]
		a.refilled[key] = a.admitted[key] + cost + a.charged[key] - spent
		f.admit(i, key, cost)
		f.run(500*time.Millisecond, nil)
	}
	for i := range 4 {
		use(i, 5, 1)
	}
	for i := range 4 { // the owner is one of them
		f.withdraw(i, key)
		for range 10 {
			use((i+1)%4, 5, 1)
			use((i+2)%4, 5, 1)
		}
		for j := range 3 {
			use((i+1+j)%4, 0, 2)
		}
		use(i, 1, 1)
		own := -f.agents[i].own(key)
		for _, a := range f.agents {
			own += a.own(key)
		}
		if got := f.agents[i].charged[key]; got > max(2, own)+1e-6 {
			t.Errorf("gateway %d is charged %v, want the 2 that are spent at most, or the %v of all parts", i, got, own)
		}
	}
}

// The keys of an Envoy that is gone are forgotten, here and at their owners, though the next
// Envoy of that name lives.
func TestKeysOfAnEarlierEnvoyAreForgotten(t *testing.T) {
	f := newFleet(3, 1, 1)
	f.run(500*time.Millisecond, nil)
	const keys = 30
	for k := range uint64(keys) {
		f.admit(0, k+1, 1)
	}
	owned := func() (n int) {
		for _, a := range f.agents {
			n += a.Status(f.at(a)).Aggregation.Owned
		}
		return n
	}
	f.run(time.Second, nil)
	if owned() != keys {
		t.Fatalf("%d keys are owned, want %d", owned(), keys)
	}
	a := f.agents[0]
	a.Disconnected(f.at(a), 1)
	f.take(a, a.Connected(f.at(a), 2, link.Hello{Version: link.Version, Replica: "gateway of " + a.name, Generation: 2,
		Weight: 1}, 0))
	f.run(100*time.Second, nil)
	if n := owned(); n != 0 {
		t.Errorf("%d keys are owned that nobody uses", n)
	}
}
