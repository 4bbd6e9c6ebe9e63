package delivery

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// Whatever packets are lost, late or repeated, and whichever acknowledgements: in the end
// the peer has the latest state of each item, and nothing waits.
func TestLatestStateArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Box
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		loss := float64(rapid.IntRange(0, 6).Draw(t, "loss")) / 10
		state, peer, at := map[Item]int{}, map[Item]int{}, map[Item]uint64{}
		seq, last, earlier := uint64(0), uint64(0), uint64(0)
		round := func(now time.Duration, loss float64) {
			seq++
			b.Overdue(now, 100*ms)
			b.Begin(now, seq)
			carried := map[Item]int{}
			for range 1 + rng.IntN(4) {
				if i, ok := b.Take(); ok {
					carried[i.Item] = state[i.Item]
				}
			}
			if rng.Float64() < loss {
				return
			}
			for i, s := range carried {
				if seq >= at[i] {
					peer[i], at[i] = s, seq
				}
			}
			earlier = earlier<<(seq-last) | 1<<(seq-last-1)
			last = seq
			if rng.Float64() >= loss {
				b.Acked(now, last, earlier, 100*ms)
			}
		}
		now := time.Second
		for range rapid.IntRange(1, 200).Draw(t, "rounds") {
			now += 25 * ms
			if rng.IntN(2) == 0 {
				i := Item{Key: uint64(rng.IntN(20)), Kind: Kind(rng.IntN(2))}
				state[i]++
				b.Tell(now, i, Urgency(rng.IntN(int(urgencies))))
			}
			round(now, loss)
		}
		for range 400 {
			now += 25 * ms
			round(now, 0)
		}
		if b.Waiting() != 0 || len(b.flights) > 1 {
			t.Fatalf("%d wait, %d fly", b.Waiting(), len(b.flights))
		}
		for i, s := range state {
			if peer[i] != s {
				t.Fatalf("item %v: the peer has state %d, want %d", i, peer[i], s)
			}
		}
	})
}

func TestUrgentFirst(t *testing.T) {
	var b Box
	for k := range uint64(3) {
		b.Tell(0, Item{Key: k}, Normal)
	}
	b.Tell(ms, Item{Key: 9}, Urgent)
	b.Tell(ms, Item{Key: 2}, Urgent) // it waits already
	if got := b.Oldest(5 * ms); got != 5*ms {
		t.Errorf("the oldest waits for %v, want 5ms", got)
	}
	b.Begin(0, 1)
	var got []uint64
	for {
		i, ok := b.Take()
		if !ok {
			break
		}
		got = append(got, i.Key)
	}
	if len(got) != 4 || got[0] != 9 || got[1] != 2 || got[2] != 0 || got[3] != 1 || b.Waiting() != 0 {
		t.Errorf("taken %v, %d wait", got, b.Waiting())
	}
}

// A calm item costs nothing but a visit; a forgotten item makes room.
func TestVisitAndForget(t *testing.T) {
	var b Box
	for k := range uint64(10) {
		b.Tell(0, Item{Key: k}, Normal)
	}
	b.Begin(0, 1)
	for range 10 {
		b.Take()
	}
	b.Acked(0, 1, 0, time.Second)
	seen, chosen := map[uint64]bool{}, map[uint64]int{}
	for n := range 15 { // three walks of five calls
		b.Visit(2, 3, func(i Item, _ Urgency, is bool) {
			seen[i.Key] = true
			if is {
				chosen[i.Key]++
			}
		})
		if n == 4 && (len(seen) != 10 || len(chosen) > 4) {
			t.Errorf("%d items visited in five calls of two, want 10; chosen %v", len(seen), chosen)
		}
	}
	for k := range uint64(10) {
		if chosen[k] != 1 {
			t.Errorf("item %d is chosen %d times in three walks, one of three", k, chosen[k])
		}
	}
	b.Forget(Item{Key: 3})
	b.Tell(0, Item{Key: 33}, Normal)
	if _, known := b.index[Item{Key: 3}]; b.Len() != 10 || len(b.items) != 10 || known {
		t.Errorf("%d items in %d places", b.Len(), len(b.items))
	}
	b.Begin(0, 2)
	b.Take()
	b.Restart(0, true, func(i Item) bool { return i.Key != 33 })
	if b.Len() != 9 || b.Waiting() != 9 {
		t.Errorf("%d items, %d wait, want all 9 that are kept", b.Len(), b.Waiting())
	}
}

func BenchmarkTellTakeAck(b *testing.B) {
	var box Box
	seq := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		for k := range uint64(30) {
			box.Tell(0, Item{Key: seq%1000*30 + k}, Normal)
		}
		box.Begin(0, seq)
		for range 30 {
			box.Take()
		}
		box.Acked(0, seq, 0, time.Second)
	}
}

// However many urgent items come, the others have their turn, and no queue grows beyond the
// items that there are.
func TestUrgentItemsLeaveRoom(t *testing.T) {
	var b Box
	told, taken := 0, 0
	for seq := range uint64(10_000) {
		b.Tell(0, Item{Key: 1}, Normal)
		b.Tell(0, Item{Key: 2}, Normal)
		b.Tell(0, Item{Key: 2}, Urgent)
		for range 4 {
			told++
			b.Tell(0, Item{Key: uint64(1000 + told%5000)}, Urgent)
		}
		b.Begin(0, seq+1)
		for range 4 {
			if i, _ := b.Take(); i.Key == 1 {
				taken++
			}
		}
		b.Acked(0, seq+1, 0, time.Second)
	}
	if taken < 1000 {
		t.Errorf("what is not urgent was taken %d times of 10000", taken)
	}
	if n := len(b.queues[Normal].list) + len(b.queues[Urgent].list); n > 4*len(b.items) {
		t.Errorf("%d places in queues for %d items", n, len(b.items))
	}
}

// BenchmarkRepeat is a packet with what is not acknowledged, while so many items are.
func BenchmarkRepeat(b *testing.B) {
	for _, items := range []int{1000, 100_000} {
		b.Run(fmt.Sprint("items=", items), func(b *testing.B) {
			var box Box
			now, seq := time.Second, uint64(0)
			send := func(take func() bool) {
				now += ms
				seq++
				box.Begin(now, seq)
				for range 30 {
					if !take() {
						return
					}
				}
			}
			for k := range items {
				box.Tell(now, Item{Key: uint64(k)}, Normal)
			}
			for box.Waiting() > 0 && seq < maxFlights-1 {
				send(func() bool { _, ok := box.Take(); return ok })
			}
			box.lossy = time.Hour
			b.ReportAllocs()
			for b.Loop() {
				send(func() bool { _, ok := box.Repeat(now - 50*ms); return ok })
			}
		})
	}
}
