package claims

import (
	"slices"
	"testing"
	"unique"

	"github.com/titrate/titrate/control/exchange"
)

var one, two = unique.Make("one"), unique.Make("two")

func TestOutsideLeavesOutAGroup(t *testing.T) {
	tb := New(Params{Stale: 1, Forget: 5})
	for id, group := range map[Peer]Group{1: one, 2: one, 3: two} {
		tb.SetGroup(id, group, 0)
		apply(t, tb, id, 0, record(1, 2, exchange.KeyClaim{Key: 9, Admitted: float64(id), Claim: 10 * float64(id),
			Active: 1, Spent: 5, Own: 5}))
	}
	want := Outside{exchange.KeySum{Key: 9, Admitted: 3, Claims: 30, Active: 1, Spent: 5, Own: 3,
		Epoch: 1}, 1, true, false}
	if got := tb.Outside(9, one, 0.1, false); got != want {
		t.Errorf("for group 1: %+v, want %+v", got, want)
	}
	want = Outside{exchange.KeySum{Key: 9, Admitted: 3, Claims: 30, Active: 2, Spent: 5, Own: 3,
		Epoch: 1}, 2, true, false}
	if got := tb.Outside(9, two, 0.1, false); got != want {
		t.Errorf("for group 2: %+v, want %+v", got, want)
	}
	if tb.Leave(3, 9, 1, 1) || !tb.Leave(3, 9, 1, 2) || tb.Leave(3, 9, 1, 3) {
		t.Error("who leaves as of an older record, or a second time, has no news")
	}
	want = Outside{exchange.KeySum{Key: 9, Admitted: 3, Spent: 5, Epoch: 1}, 0, true, false}
	if got := tb.Outside(9, one, 0.1, false); got != want || tb.Outside(9, two, .1, false).Used || uses(tb, two, 9) ||
		!uses(tb, one, 9) {
		t.Errorf("after group 2 has left: %+v, want %+v", got, want)
	}
	for id := Peer(1); id <= 3; id++ {
		tb.Heard(id, keepSpent+1)
	}
	if got := tb.Outside(9, one, keepSpent+1, false).Spent; got != 0 {
		t.Errorf("who has left long ago says that %v is spent", got)
	}
	if got := tb.Outside(9, two, keepSpent+1, false).Spent; got != 5 {
		t.Errorf("what is spent is %v as those say who use the key, want 5", got)
	}
}

func TestANewEpochLeavesTheCount(t *testing.T) {
	tb := New(Params{})
	apply(t, tb, 1, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 4, Claim: 10, Active: 3, Spent: 4, Own: 4}))
	was := tb.Sums(9, 0, 0)
	tb.Renew(9)
	if got := tb.Sums(9, 0, 0); got.Epoch == was.Epoch || got.Admitted != 4 {
		t.Errorf("%+v after %+v, want another epoch and nothing else", got, was)
	}
	if !tb.Reduce(1, 9, exchange.KeyClaim{Claim: 4, Active: 5}) {
		t.Error("nothing is left")
	}
	if got := tb.Sums(9, 0, 0); got.Claims != 6 || got.Active != 0 {
		t.Errorf("%+v, want claims of 10 - 4 and no weight", got)
	}
	if tb.Reduce(1, 9, exchange.KeyClaim{Claim: 7}) {
		t.Error("something is left of 6 - 7")
	}
	tb.Discard(1, 9, 0)
	if got := tb.Sums(9, 0, 0); got.Admitted != 0 {
		t.Errorf("%+v of a peer that is forgotten", got)
	}
}

// A key that an earlier process of a peer used is not used by the next one until it says so.
func TestAnEarlierProcessUsesNothing(t *testing.T) {
	tb := New(Params{Stale: 1, Forget: 5})
	tb.SetGroup(1, one, 0)
	apply(t, tb, 1, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 3, Claim: 10, Spent: 3, Own: 3}))
	tb.Drain(1, 1, 1)
	tb.Live(1, 2, 1)
	if uses(tb, one, 9) || tb.Used(9) || usersOf(tb, 9) > 0 || len(tb.KeysOf(1)) > 0 {
		t.Error("the key counts as used")
	}
	if got := tb.Outside(9, two, 1, false); got.Others != 0 || got.Admitted != 3 {
		t.Errorf("%+v, want a count and no user", got)
	}
	tb.Heard(1, keepSpent+1)
	if got := tb.Outside(9, two, keepSpent+1, false).Spent; got != 0 {
		t.Errorf("a process that ended long ago says that %v is spent", got)
	}
	apply(t, tb, 1, keepSpent+1, record(2, 1, exchange.KeyClaim{Key: 9, Admitted: 1, Claim: 1, Spent: 1, Own: 1}))
	if !uses(tb, one, 9) {
		t.Error("the process that says so does not use the key")
	}
}

// The count of a peer that was not asked for changes is void. It counts nothing until the peer
// sends a record again, and then only as far as it is still spent.
func TestVoidCountsAreSaidAgain(t *testing.T) {
	tb := New(Params{Stale: 1, Forget: 5})
	tb.SetGroup(1, one, 0)
	apply(t, tb, 1, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 50, Claim: 10, Spent: 50, Own: 50}))
	tb.Void(9, .5)
	if got := tb.Outside(9, two, .5, false); got.Admitted != 50 || got.Spent != 50 || tb.IsVoid(one, 9) {
		t.Errorf("%+v, want what was just said", got)
	}
	tb.Heard(1, 3)
	tb.Void(9, 3)
	want := Outside{exchange.KeySum{Key: 9, Claims: 10, Epoch: 1}, 1, false, false}
	if got := tb.Outside(9, two, 3, false); got != want || !tb.IsVoid(one, 9) || tb.IsVoid(two, 9) ||
		!tb.Outside(9, one, 3, false).Void {
		t.Errorf("%+v, want %+v and to be void", got, want)
	}
	apply(t, tb, 1, 3, record(1, 2, exchange.KeyClaim{Key: 9, Admitted: 80, Claim: 10, Spent: 7, Own: 7}))
	if got := tb.Outside(9, two, 3, false); got.Admitted != 7 || got.Spent != 7 || tb.IsVoid(one, 9) ||
		tb.Outside(9, one, 3, false).Void {
		t.Errorf("%+v, want the 7 that are spent", got)
	}
}

// A walk in steps finds the same keys as KeysOf, each once.
func TestKeysInSteps(t *testing.T) {
	table := New(Params{Stale: 1, Forget: 5})
	for i := range uint64(1000) {
		r := Record{Generation: 1, Seq: i + 1}
		r.Key, r.Claim = i, 1
		if _, err := table.Apply(Peer(i%7), 1, r); err != nil {
			t.Fatal(err)
		}
	}
	for step := 1; step < 200; step += 13 {
		var got []uint64
		for at, left := 5, table.Entries(); left > 0; {
			keys, looked := table.SomeKeysOf(3, at, min(left, step), 4)
			if len(keys) > 4 || looked > step {
				t.Fatalf("%d keys of %d entries at once", len(keys), looked)
			}
			got, at, left = append(got, keys...), at+looked, left-looked
		}
		want := table.KeysOf(3)
		slices.Sort(got)
		slices.Sort(want)
		if len(want) != 143 || !slices.Equal(got, want) {
			t.Fatalf("in steps of %d: %d keys, want %d", step, len(got), len(want))
		}
	}
}

func usersOf(tb *Table, key uint64) (n int) {
	for range tb.Users(key) {
		n++
	}
	return n
}

func uses(tb *Table, group Group, key uint64) bool {
	uses, _ := tb.Uses(group, key)
	return uses
}
