package election

import (
	"fmt"
	"math"
	"testing"
)

func sharersOf(names ...string) *Sharing {
	s := &Sharing{}
	for _, name := range names {
		s.Sharers = append(s.Sharers, Sharer{Name: name, Address: name + ":7400", Key: []byte(name)})
	}
	return s
}

// Each sharer leads about its part of the pools. A sharer that joins takes its part and moves no other
// pool; the same ones lead the same pools after it has left.
func TestRendezvous(t *testing.T) {
	const pools = 3000
	before, after := sharersOf("a", "b", "c"), sharersOf("a", "b", "c", "d")
	count, moved := map[string]float64{}, 0
	for i := range pools {
		pool := fmt.Sprintf("pool-%d", i)
		was, is := before.Leader(pool).Name, after.Leader(pool).Name
		count[is]++
		if was != is {
			moved++
			if is != "d" {
				t.Fatalf("%s went from %s to %s when d came", pool, was, is)
			}
		}
	}
	for name, n := range count {
		if math.Abs(n-pools/4) > 100 { // four standard deviations
			t.Errorf("%s leads %v of %d", name, n, pools)
		}
	}
	if len(count) != 4 || float64(moved) != count["d"] {
		t.Errorf("%d moved, %v", moved, count)
	}
	// Equal names differ by their addresses.
	same := &Sharing{Sharers: []Sharer{{Name: "a", Address: "one:1"}, {Name: "a", Address: "two:1"}}}
	if one, again := same.Leader("x"), same.Leader("x"); one != again {
		t.Error("not always the same")
	}
	for _, pool := range []string{"api", "found"} {
		t.Logf("%s: %s", pool, sharersOf("co1", "co2").Leader(pool).Name)
	}
}

// After an outage of etcd a chair may be seen before its list of sharers is read. A sharer that goes on in its epoch
// does not follow in between, and a sharer that is left out follows.
func TestSharerGoesOnAfterAnOutage(t *testing.T) {
	for _, on := range []bool{true, false} {
		e := New(Config{Share: true, Name: "b", Address: "b:7400"})
		sharing := sharersOf("a", "b")
		sharing.Epoch, sharing.Chair, sharing.self = 5, []byte("a"), e.key
		sharing.Sharers[1].Key = e.key
		e.follow("a:7400")
		e.take(view{epoch: 5, sharing: sharing})
		if s, _ := e.State(); s.Role != Leading {
			t.Fatalf("shares: %+v", s)
		}
		e.sessionEnded(t.Context(), errSessionEnded)
		e.follow("a:7400")
		if s, _ := e.State(); s.Role != Orphaned || s.Epoch != 5 {
			t.Errorf("before it is read who shares: %+v", s)
		}
		now, want := view{epoch: 5, sharing: sharing}, Leading
		if !on {
			now, want = view{epoch: 6}, Following
		}
		e.take(now)
		if s, _ := e.State(); s.Role != want || s.Leader != "a:7400" {
			t.Errorf("%+v, want %s", s, want)
		}
	}
}
