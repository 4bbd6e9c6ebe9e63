package keys

import "testing"

// mirrored counts the claims of a key that announces in so many periods after one request that its owner has admitted.
func (w *world) mirrored(cost int64, periods int) int {
	w.Mirror(&w.g, "c", w.now, cost)
	return len(w.pass(periods).Keys)
}

// While tokens of its owner pay for a key, its claim is announced once a second. Without an owner it falls, and is
// announced, in each period.
func TestClaimsOfAnOwnedKey(t *testing.T) {
	w := newWorld(16, Numbers{Rate: 1, Burst: 100})
	w.mirrored(50*unit, 600)
	said := 0
	for range 10 {
		said += w.mirrored(unit, 20)
	}
	if said < 8 || said > 14 {
		t.Errorf("%d claims in 10 s with a token each second, want about one for each", said)
	}

	w.Take(&w.g, "c", w.now, unit, false)
	all := w.pass(20)
	if n := len(all.Keys); n < 10 || all.Keys[0].Owned {
		t.Errorf("%d claims in the 20 periods after a request without a token, owned: %v", n, all.Keys[0].Owned)
	}
}

// What changes the spent part by much is announced at once, also of a key whose owner decides, and so is the end of
// its owner.
func TestAnOwnedKeyThatChangesMuch(t *testing.T) {
	w := newWorld(16, Numbers{Rate: 1, Burst: 100})
	w.mirrored(50*unit, 600)
	w.mirrored(unit, 2)
	if n := w.mirrored(unit, 2); n != 0 {
		t.Errorf("%d claims of one token more", n)
	}
	if n := w.mirrored(10*unit, 1); n != 1 {
		t.Errorf("%d claims of ten tokens more, want one at once", n)
	}
	w.Take(&w.g, "c", w.now, 0, false)
	if all := w.pass(1); len(all.Keys) != 1 || all.Keys[0].Owned {
		t.Errorf("%d claims when the owner does not decide any more, want one at once", len(all.Keys))
	}
}
