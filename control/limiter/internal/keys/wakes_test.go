package keys

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/members"
)

// A state is visited when its time has come, at most a tick later, and not before;
// even if it is woken, put off or released meanwhile.
func TestSleepingStatesAreVisitedInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p states
		p.init(200)
		due := map[uint32]int64{} // of the states that sleep
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			index := uint32(rapid.IntRange(0, 199).Draw(t, "state"))
			if p.at(index) == nil || p.at(index).hash == 0 {
				index, _ = p.take(false)
				p.at(index).clear(uint64(index) + 1)
				p.at(index).index = index
			}
			st := p.at(index)
			after := int64(1) << rapid.IntRange(20, 49).Draw(t, "after")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				p.touch(st)
				due[index] = now
			case 1:
				p.rest(st, index, false, never)
				if _, l := p.link(index); l.place != inList {
					delete(due, index)
				}
			default:
				p.rest(st, index, false, now+after)
				if _, l := p.link(index); l.place != inList {
					due[index] = now + after
				}
			}
			now += int64(1) << rapid.IntRange(10, 50).Draw(t, "passes")
			visited := p.takeDue(now)
			for _, i := range visited {
				if at, ok := due[i]; !ok || at > now+1<<tickBits {
					t.Fatalf("state %d is visited at %d, its time is %d, %v", i, now, at, ok)
				}
				p.rest(p.at(i), i, true, never)
				delete(due, i)
			}
			for i, at := range due {
				if at <= now-1<<tickBits {
					t.Fatalf("state %d sleeps at %d, its time was %d", i, now, at)
				}
			}
			if rapid.Bool().Draw(t, "release") {
				p.at(index).clear(0)
				p.release(index, false)
				delete(due, index)
			}
			p.giveBack()
		}
	})
}

// world is a store with one limit, of three replicas.
type world struct {
	*Store
	g    Group
	view atomic.Pointer[members.View]
	now  int64
}

func newWorld(contended int, n Numbers) *world {
	w := &world{Store: &Store{}, now: 1e9}
	w.view.Store(members.New(&exchange.Sums{Replicas: 3, TotalWeight: 3, Lag: 125e6}, 1))
	w.Init(Options{Keys: 4 * contended, Contended: contended, View: &w.view})
	w.g.Init(1, hash.OfLimit(7, "a", "l", ""), false, n, nil, nil, nil)
	return w
}

// ask has clients ask once each.
func (w *world) ask(clients int) {
	for i := range clients {
		w.Take(&w.g, fmt.Sprint("client-", i), w.now, unit, false)
	}
}

// pass lets periods pass and returns what was announced.
func (w *world) pass(periods int) (all exchange.Claims) {
	for range periods {
		w.now += 50e6
		w.Claims(w.now, &all)
	}
	return all
}

// Keys that nobody asks for are not looked at until they have something to say. They say it
// a few times and then cost no visit, no state, no memory.
func TestSleepingKeysCostNothing(t *testing.T) {
	const clients = 20_000
	w := newWorld(2*clients, Numbers{Rate: 5. / 3600, Burst: 5})
	w.ask(clients)
	w.pass(200) // ten seconds
	if n := w.Stats().Contended; n != clients {
		t.Fatalf("%d keys are contended, want %d", n, clients)
	}
	visits := 0
	for range 1000 {
		w.now += 50e6
		list := w.states.takeDue(w.now)
		visits += len(list)
		w.states.keep(list)
	}
	if visits > 0 {
		t.Errorf("%d visits in 50 s in which nothing happens, want none", visits)
	}
	said := w.pass(20 * 60 * 20) // the burst takes 12 minutes to be whole
	if n := len(said.Withdrawn); n != clients {
		t.Errorf("%d keys withdrawn, want %d", n, clients)
	}
	if n := len(said.Keys); n > 4*clients {
		t.Errorf("%d claims while a request of five is refilled, want a few for each of %d keys", n, clients)
	}
	if s := w.Stats(); s.Contended != 0 || w.states.end() != 0 {
		t.Errorf("%d states are left, chunks up to %d", s.Contended, w.states.end())
	}
	w.pass(4 * 60 * 20)
	if n := w.remembered(); n != 0 {
		t.Errorf("%d keys are remembered four minutes later", n)
	}
	if err := w.Check(); err != nil {
		t.Error(err)
	}
}

// remembered is the number of retired keys.
func (s *Store) remembered() (n int) {
	for _, shard := range s.states.retired.shards {
		n += len(shard)
	}
	return n
}

// With more keys in use than Claims visits in a call they take turns, and that is counted.
func TestKeysInUseTakeTurns(t *testing.T) {
	const clients = mostVisits + 5000
	w := newWorld(2*clients, Numbers{Rate: 1, Burst: 5})
	w.ask(clients)
	w.ask(clients)
	first := w.pass(1)
	second := w.pass(1)
	if len(first.Keys) != mostVisits {
		t.Errorf("%d keys announced in a period, want %d", len(first.Keys), mostVisits)
	}
	named := map[uint64]bool{}
	for _, k := range slices.Concat(first.Keys, second.Keys) {
		named[k.Key] = true
	}
	if len(named) != clients {
		t.Errorf("%d of %d keys announced in two periods", len(named), clients)
	}
	if n := w.Stats().Delayed; n != 2*5000 {
		t.Errorf("%d claims counted as delayed, want %d", n, 2*5000)
	}
}

// Everything that stands is announced once more when that is asked for, and only then.
func TestRepeatedClaims(t *testing.T) {
	const clients = 200_000
	w := newWorld(2*clients, Numbers{Rate: 5. / 3600, Burst: 5})
	w.ask(clients)
	w.pass(200)
	if said := w.pass(10); len(said.Keys) > 0 {
		t.Fatalf("%d keys announced while they sleep", len(said.Keys))
	}
	w.Repeat()
	named, most := map[uint64]int{}, 0
	for range walkPeriods {
		said := w.pass(1)
		most = max(most, len(said.Keys))
		for _, k := range said.Keys {
			named[k.Key]++
		}
	}
	if len(named) != clients || most > clients/walkPeriods+chunkStates {
		t.Errorf("%d of %d keys announced, at most %d in a period", len(named), clients, most)
	}
	for key, n := range named {
		if n != 1 {
			t.Fatalf("key %x is announced %d times", key, n)
		}
	}
	if said := w.pass(10); len(said.Keys) > 0 {
		t.Errorf("%d keys announced after all were", len(said.Keys))
	}
}

// A chunk is given back when no state in it is used; the states of others stay where they
// are, and new ones take the first place that is free.
func TestChunksAreGivenBack(t *testing.T) {
	var p states
	p.init(1000)
	var taken []uint32
	for range 5 * chunkStates {
		i, ok := p.take(true)
		if !ok {
			t.Fatal("no state")
		}
		taken = append(taken, i)
	}
	for _, i := range taken[chunkStates:] {
		p.release(i, true)
	}
	p.giveBack()
	if p.end() != chunkStates || p.inUse.Load() != chunkStates || p.own.Load() != chunkStates {
		t.Errorf("chunks up to %d, %d states in use, %d own", p.end(), p.inUse.Load(), p.own.Load())
	}
	p.release(taken[3], true)
	if i, _ := p.take(false); i != taken[3] {
		t.Errorf("state %d is taken, want %d, the first that is free", i, taken[3])
	}
	for n := p.inUse.Load(); n < 1000; n++ {
		if _, ok := p.take(false); !ok {
			t.Fatalf("only %d states of 1000", n)
		}
	}
	if _, ok := p.take(false); ok {
		t.Error("more states than the budget")
	}
}
