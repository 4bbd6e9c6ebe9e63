package delivery

import (
	"testing"
	"time"
)

// fly has a box send up to n packets of an item each, as many as its window allows, and returns the number of the last.
func fly(b *Box, now time.Duration, seq uint64, n int) uint64 {
	for range n {
		b.Tell(now, Item{Key: seq + 1}, Normal)
		b.Tell(now, Item{Key: seq + 2}, Normal)
		if !b.More(0) {
			break
		}
		seq++
		b.Begin(now, seq)
		b.Take()
	}
	return seq
}

// trips has a box send as many packets as its window allows, which all arrive, for some round trips.
func trips(b *Box, now *time.Duration, seq uint64, n int) uint64 {
	for range n {
		first := seq + 1
		seq = fly(b, *now, seq, 1000)
		*now += 50 * time.Millisecond
		for p := first; p <= seq; p++ {
			b.Acked(*now, p, ^uint64(0), time.Second)
		}
	}
	return seq
}

// The window grows while packets arrive, is halved once for all that are lost of one window, and never
// passes its bound.
func TestWindow(t *testing.T) {
	var b Box
	now := time.Duration(0)
	seq := trips(&b, &now, 0, 10)
	if n := b.window.size(); n != mostWindow {
		t.Errorf("a window of %d, want %d", n, mostWindow)
	}
	seq = fly(&b, now, seq, 1000)
	now += time.Second + time.Millisecond
	b.Overdue(now, time.Second)
	if n := b.window.size(); n != mostWindow/2 {
		t.Errorf("a window of %d after a loss, want half of %d", n, mostWindow)
	}
	trips(&b, &now, seq, 3)
	if n := b.window.size(); n < mostWindow/2+2 || n > mostWindow/2+4 {
		t.Errorf("a window of %d three round trips after a loss, want one more for each", n)
	}
}

// A network that loses a third of the packets does not close the window. A peer to which packets take far longer than
// before does, though none is lost.
func TestWindowOfALossyNetwork(t *testing.T) {
	var w window
	now := time.Duration(0)
	for i := range 3000 {
		now += time.Millisecond
		if i%3 == 0 {
			w.lost(now, now-100*time.Millisecond)
		} else {
			w.acknowledged()
			w.took(now, 40*time.Millisecond+time.Duration(i%5)*10*time.Millisecond)
		}
	}
	if n := w.size(); n != mostWindow {
		t.Errorf("a window of %d, want %d", n, mostWindow)
	}
	for range 1000 {
		now += time.Millisecond
		w.took(now, 150*time.Millisecond)
	}
	if n := w.size(); n > mostWindow/4 {
		t.Errorf("a window of %d a second after the peer became late", n)
	}
}

// A peer that receives each packet, but is busy and acknowledges late, is not sent everything again and again.
// Without a window the items under way are repeated without end.
func TestABusyPeerIsNotFlooded(t *testing.T) {
	var b Box
	const items, way, each = 20_000, 60 * time.Millisecond, 10
	type arrival struct {
		at     time.Duration
		packet uint64
	}
	var inbox []arrival
	for k := range uint64(items) {
		b.Tell(0, Item{Key: k}, Urgent)
	}
	taken, seq := 0, uint64(0)
	calm := false
	for now := time.Duration(0); !calm && now < time.Minute; now += 25 * time.Millisecond {
		for served := 0; len(inbox) > 0 && inbox[0].at <= now && served < 8; served++ { // it takes in 320 packets a second
			b.Acked(now, inbox[0].packet, ^uint64(0), 150*time.Millisecond)
			inbox = inbox[1:]
		}
		b.Overdue(now, 150*time.Millisecond)
		for first := b.Waiting() > 0; first || b.More(0); first = false {
			seq++
			b.Begin(now, seq)
			for range each {
				if _, ok := b.Take(); ok {
					taken++
				}
			}
			inbox = append(inbox, arrival{now + way, seq})
		}
		_, flies := b.Unheard()
		calm = !flies && b.Waiting() == 0
	}
	if !calm || taken > items*3/2 {
		t.Errorf("%d items wait, %d of %d were sent", b.Waiting(), taken, items)
	}
}

// No acknowledgement is missed of a packet that carried nothing.
func TestAnEmptyPacketIsNotAwaited(t *testing.T) {
	var b Box
	b.Begin(time.Second, 1)
	if at, flies := b.Unheard(); flies {
		t.Errorf("an empty packet of %v is awaited", at)
	}
	b.Tell(time.Second, Item{Key: 1}, Normal)
	b.Begin(2*time.Second, 2)
	b.Take()
	if at, flies := b.Unheard(); !flies || at != 2*time.Second {
		t.Errorf("the packet of %v is awaited: %v; want that of 2 s", at, flies)
	}
}

// Items of keys whose owners decide have a quarter of the window, keep their urgency when they are lost, and wait for
// no others for ever.
func TestSpareItems(t *testing.T) {
	var b Box
	b.window.more = 24
	for k := range uint64(1000) {
		b.Tell(0, Item{Key: k}, Spare)
	}
	seq := uint64(0)
	for b.More(0) {
		seq++
		b.Begin(0, seq)
		b.Take()
	}
	if seq != 10 {
		t.Errorf("%d packets of a window of 40, want a quarter", seq)
	}
	b.Overdue(time.Minute, time.Second)
	if b.waits[Spare] != 1000 || b.Pressing() != 0 || b.Oldest(time.Minute) != 0 {
		t.Errorf("%d spare items wait after a loss, the oldest for %v", b.waits[Spare], b.Oldest(time.Minute))
	}
	b.Tell(0, Item{Key: 7}, Normal)
	b.Begin(0, 100)
	if i, _ := b.Take(); i.Key != 7 || b.Waiting() != 999 {
		t.Errorf("the first item is %v, %d wait", i, b.Waiting())
	}
	spare := 0
	for k := range uint64(320) {
		b.Tell(0, Item{Key: 5000 + k}, Urgent)
		if i, _ := b.Take(); i.Key < 1000 {
			spare++
		}
	}
	if spare < 15 || spare > 25 {
		t.Errorf("%d of 320 items are spare ones, want one of 16", spare)
	}
}

// Spare items that have used their budget wait until it is there again. No other item waits for them.
func TestSpareItemsHaveABudget(t *testing.T) {
	const each, ahead = 50 * time.Millisecond, int(spareAhead/(50*time.Millisecond)) + 1
	b := Box{SpareCost: each}
	at := func(now time.Duration, packet uint64) (key uint64) {
		b.Begin(now, packet)
		i, _ := b.Take()
		return i.Key
	}
	for k := range uint64(2 * ahead) {
		b.Tell(0, Item{Key: k + 1}, Spare)
	}
	n := uint64(0)
	for ; at(0, n+1) != 0; n++ {
	}
	full := time.Duration(n) * each
	if n != uint64(ahead) || b.Due(full-1) || b.DueAt() != full {
		t.Errorf("%d spare items are taken at once, the next at %v, want %d", n, b.DueAt(), ahead)
	}
	b.Tell(0, Item{Key: 1000}, Normal)
	if !b.Due(0) || at(full-1, 20) != 1000 {
		t.Error("another item waits for spare ones")
	}
	if b.Due(full-1) || !b.Due(full) || at(full, 21) != n+1 {
		t.Error("a spare item is not sent once its budget is there again")
	}
}

// Where packets are lost, items are repeated until they are acknowledged, but no Spare ones. Nobody goes by them, and a
// peer that is late would be sent them over and over. What is lost is sent again.
func TestSpareItemsAreNotRepeated(t *testing.T) {
	var b Box
	begin := func(at time.Duration, packet uint64) (taken, repeated int) {
		for b.Begin(at, packet); ; taken++ {
			if _, ok := b.Take(); !ok {
				break
			}
		}
		for {
			if _, ok := b.Repeat(at - 50*ms); !ok {
				return taken, repeated
			}
			repeated++
		}
	}
	now := time.Second
	b.Tell(now, Item{Key: 1}, Normal)
	begin(now, 1)
	b.Overdue(now+time.Second, 100*ms) // packets are lost now
	now += 2 * time.Second
	b.Tell(now, Item{Key: 2}, Spare)
	if taken, _ := begin(now, 2); taken != 2 {
		t.Fatalf("%d items sent, want both", taken)
	}
	now += 60 * ms
	if _, repeated := begin(now, 3); repeated != 1 {
		t.Errorf("%d items repeated, want the one that is not spare", repeated)
	}
	b.Acked(now, 3, 0, 10*ms)
	if taken, _ := begin(now+time.Second, 4); taken != 1 {
		t.Errorf("%d items sent again, want the spare one", taken)
	}
}
