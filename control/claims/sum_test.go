package claims

import (
	"testing"

	"github.com/titrate/titrate/control/exchange"
)

// sumOf is an owner's sum of key 9.
func sumOf(seq uint64, admitted, assumed, claim float64) Record {
	r := Record{Generation: 1, Seq: seq, Assumed: assumed}
	r.KeyClaim = exchange.KeyClaim{Key: 9, Admitted: admitted, Claim: claim, Spent: 1, Own: 1}
	return r
}

// An owner that takes over again goes on with its count: what it has counted meanwhile is news, and what another owner
// has counted meanwhile is not counted twice.
func TestFormerOwnersAreRemembered(t *testing.T) {
	const first, second = Peer(1), Peer(2)
	tb := New(Params{Stale: 1, Forget: 15})
	tb.SetOwner(first, 0)
	tb.SetOwner(second, 0)
	take := func(id Peer, r Record, epoch uint32) exchange.KeySum {
		t.Helper()
		if outcome, err := tb.ApplySum(id, .1, r, epoch); err != nil || outcome != Applied {
			t.Fatalf("outcome %d: %v", outcome, err)
		}
		return tb.Sums(9, 0, .1)
	}
	was := take(first, sumOf(1, 1000, 0, 2), 7)
	if was.Admitted != 1000 || was.Claims != 2 {
		t.Errorf("%+v, want what the first owner says", was)
	}
	between := take(second, sumOf(1, 30, 0, 2), 4)
	if between.Epoch == was.Epoch || between.Admitted != 30 || between.Claims != 4 {
		t.Errorf("%+v after %+v, want another epoch, and the claims of both", between, was)
	}
	tb.EndSum(first, 9)
	if got := tb.Sums(9, 0, .1); got.Admitted != 30 || got.Claims != 2 || got.Epoch != between.Epoch {
		t.Errorf("%+v once the first owner's claims have ended", got)
	}
	take(second, sumOf(2, 35, 0, 2), 4) // 5 more

	got := take(first, sumOf(2, 1003, 0, 2), 7) // it lacks 2 of them
	tb.EndSum(second, 9)
	if got.Admitted != 35 || tb.Sums(9, 0, .1).Admitted != 35 || got.Epoch != between.Epoch {
		t.Errorf("%+v, want no step", got)
	}
	if got := take(first, sumOf(3, 1012, 0, 2), 7); got.Admitted != 42 || got.Epoch != between.Epoch {
		t.Errorf("%+v, want the 12 that were admitted since the first owner was left, in the same epoch", got)
	}
	if got := take(first, sumOf(4, 1062, 50, 2), 7); got.Admitted != 92 || got.Assumed != 50 {
		t.Errorf("%+v, want 50 more that are assumed", got)
	}
	if got := take(second, sumOf(3, 40, 0, 2), 4); got.Admitted != 92 || got.Assumed != 50 {
		t.Errorf("%+v, want what the first owner assumes until its claims end", got)
	}
	tb.EndSum(first, 9)
	if got := tb.Sums(9, 0, .1); got.Admitted != 42 || got.Assumed != 0 {
		t.Errorf("%+v, want what is certain", got)
	}
	if got := take(first, sumOf(5, 1013, 0, 2), 8); got.Epoch == between.Epoch || got.Admitted != 1013 {
		t.Errorf("%+v, want the count of an owner that begins another one", got)
	}
	tb.Discard(second, 9, .1)
	tb.Remove(first, .1)
	if got := tb.Sums(9, 0, .1); got.Admitted != 0 {
		t.Errorf("%+v of owners that are forgotten", got)
	}
}

// What a lying owner counts does not hide what the owner after it counts, and does not make that inexact.
func TestALyingOwnerSpoilsNoCount(t *testing.T) {
	const honest, liar = Peer(1), Peer(2)
	tb := New(Params{Stale: 1, Forget: 15})
	tb.SetOwner(honest, 0)
	tb.SetOwner(liar, 0)
	now, seq := 0., uint64(0)
	follow := func(id, before Peer, admitted float64) exchange.KeySum {
		t.Helper()
		seq++
		if _, err := tb.ApplySum(id, now, sumOf(seq, admitted, 0, 1), 1); err != nil {
			t.Fatal(err)
		}
		tb.EndSum(before, 9)
		return tb.Sums(9, 0, now)
	}
	admitted := 1.
	follow(honest, liar, admitted)
	for _, lie := range []float64{maxPeers * MaxAdmitted, 0, 3 * maxBase, MaxCount, 1, 100} {
		now++
		follow(liar, honest, lie)
		now += .1
		follow(honest, liar, admitted)
		now += relist
		admitted++
		before := follow(honest, liar, admitted)
		admitted++
		if got := follow(honest, liar, admitted); got.Epoch != before.Epoch || got.Admitted-before.Admitted != 1 {
			t.Errorf("after a lie of %g: %+v after %+v, want one more", lie, got, before)
		}
	}
}
