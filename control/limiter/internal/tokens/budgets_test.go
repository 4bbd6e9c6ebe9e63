package tokens

import (
	"testing"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/grant"
)

// of is a key of a limit, with a rate at which it is whole soon, or not for long.
func of(limit budget.ID, n uint64, rate float64) *Key {
	return &Key{Hash: uint64(limit) ^ n*0x9e3779b97f4a7c15, Part: limit, Numbers: Numbers{Rate: rate, Burst: 5, While: true}}
}

// ask asks for a token of a key, and returns what came of it at once.
func (o *owners) ask(s *Store[int], k *Key, now int64) grant.Outcome {
	_, out := s.Take(k, now, grant.Token)
	if out == grant.Waits {
		_, out = s.Join(k, now, 0, &Waiter[int]{Cost: grant.Token, Since: now})
	}
	o.settle(now)
	return out
}

// Names that are invented for one limit fill its part of the room. Other limits and tenants get what they
// ask for, and what is known of the limit goes on. Keys that have nothing to remember go first.
func TestRoomIsDivided(t *testing.T) {
	const slow, quick = 0.001, 1e6
	o := newOwners(1, 700)
	s, now, got := o.stores[0], second, 0
	s.While(0, true)
	flood, beside, neighbour := budget.Of("a", "flood"), budget.Of("a", "beside"), budget.Of("b", "flood")
	for n := range uint64(800) {
		if now += 60 * millisecond; o.ask(s, of(flood, n, slow), now) == grant.Waits {
			got++
		}
	}
	if got != 300 {
		t.Errorf("one limit has %d keys of 700, want 3/7", got)
	}
	if out := o.ask(s, of(flood, 0, slow), now); out != grant.Admitted {
		t.Errorf("a key that is known: %v", out)
	}
	if !s.Unowned(of(flood, 799, slow), now) || s.Unowned(of(flood, 0, slow), now) {
		t.Error("it does not say which keys nobody is asked about")
	}
	for n := range uint64(25) {
		now += 6 * millisecond
		for _, limit := range []budget.ID{beside, neighbour} {
			if out := o.ask(s, of(limit, n, quick), now); out != grant.Waits {
				t.Fatalf("key %d of another limit: %v", n, out)
			}
		}
	}
	for n := uint64(25); o.ask(s, of(beside, n, quick), now) == grant.Waits; n++ {
		now += 6 * millisecond
	}
	for range 2 * shards { // its keys are whole: they go after a second, those of others after 15
		now += 2 * second / shards
		s.Sweep(now)
	}
	if o.settle(now); o.ask(s, of(beside, 9999, quick), now) != grant.Waits || s.Stats().Keys != 300+1+25 {
		t.Errorf("keys that are whole do not make room: %d keys", s.Stats().Keys)
	}
}

// While a limit has no room, all keys are looked at with each tick. After that they are as often as before.
func TestSweepGoesOnAfterACrowd(t *testing.T) {
	const quick, tick = 1e6, 5 * millisecond
	o := newOwners(1, 10)
	s, now := o.stores[0], second
	s.While(0, true)
	sweepUntil := func(end int64) {
		for ; now < end; now += tick {
			s.Sweep(now)
		}
	}
	for n := range uint64(12) {
		o.ask(s, of(budget.Of("a", "flood"), n, quick), now)
	}
	sweepUntil(now + crowdedFor)
	if out := o.ask(s, of(budget.Of("a", "beside"), 0, quick), now); out != grant.Waits {
		t.Fatalf("a key of another limit: %v", out)
	}
	sweepUntil(now + keep + sweepAll + second)
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys that rest are kept", n)
	}
}

// A limit asks its part of the questions for new keys, as long as that lasts, and others are not concerned.
// It is back within two seconds.
func TestQuestionsAreDivided(t *testing.T) {
	o := newOwners(1, 1<<18)
	s, now, got := o.stores[0], second, 0
	s.While(0, true)
	flood, neighbour := budget.Of("a", "flood"), budget.Of("b", "flood")
	for n := range uint64(3900) { // 1300/s for 3 s
		if now += second / 1300; o.ask(s, of(flood, n, 1), now) == grant.Waits {
			got++
		}
		if n%1000 == 999 {
			if out := o.ask(s, of(neighbour, n, 1), now); out != grant.Waits {
				t.Errorf("a new key of a neighbour: %v", out)
			}
			if out := o.ask(s, of(flood, 0, 1), now); out == grant.Unowned {
				t.Error("a key that is known is left to the ledger")
			}
		}
	}
	if got < 2400 || got > 3000 {
		t.Errorf("%d new keys in 3 s, want some 857 a second", got)
	}
	if stats := s.Stats(); stats.Unowned != uint64(3900-got) {
		t.Errorf("%d left to the ledger, counted are %d", 3900-got, stats.Unowned)
	}
	if now += 2 * second; o.ask(s, of(flood, 20_000, 1), now) != grant.Waits {
		t.Error("the flood has ended, and its limit is left to the ledger still")
	}
	stated := of(budget.Of("c", "stated"), 0, 1)
	for n := range uint64(2000) {
		stated.Hash, stated.While = stated.Hash+n<<32, false
		if out := o.ask(s, stated, now); out == grant.Unowned {
			t.Fatalf("question %d of a limit that states EXACT is not asked", n)
		}
	}
}
