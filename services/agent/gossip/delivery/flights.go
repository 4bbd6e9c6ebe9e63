package delivery

import "time"

// reorder is the number of later packets that must be acknowledged for one to count as lost.
const reorder = 3

// lossyFor is the time after a loss during which items are repeated until they are acknowledged.
const lossyFor = 10 * time.Second

// maxFlights bounds the packets that wait for an acknowledgement: older ones are lost.
const maxFlights = 1024

// flight is a packet under way with the items that it carries.
type flight struct {
	packet uint64
	at     time.Duration
	items  []int32
	next   int // the first of items that Repeat has not looked at
}

// Begin begins a packet; the numbers of packets rise.
func (b *Box) Begin(now time.Duration, packet uint64) {
	if n := len(b.flights); n > 0 && len(b.flights[n-1].items) == 0 {
		b.flights = b.flights[:n-1] // it carried nothing
	}
	if len(b.flights) >= maxFlights {
		b.lose(now, &b.flights[0])
		b.flights = b.flights[1:]
	}
	b.flights = append(b.flights, flight{packet: packet, at: now})
}

// Acked takes an acknowledgement: packet last was received, and packet last−1−i if bit i of earlier is set. Others that
// were sent more than patience ago are lost.
func (b *Box) Acked(now time.Duration, last, earlier uint64, patience time.Duration) {
	keep := b.flights[:0]
	for i := range b.flights {
		f := &b.flights[i]
		switch {
		case heard(f.packet, last, earlier):
			b.window.acknowledged()
			b.settle(f)
		case f.packet+reorder <= last || now-f.at > patience:
			b.lose(now, f)
		default:
			keep = append(keep, *f)
		}
	}
	clear(b.flights[len(keep):])
	b.flights = keep
}

// Overdue takes the packets that were not acknowledged within patience as lost.
func (b *Box) Overdue(now, patience time.Duration) {
	if len(b.flights) > 0 && now-b.flights[0].at > patience {
		b.Acked(now, 0, 0, patience)
	}
}

func heard(packet, last, earlier uint64) bool {
	if packet >= last {
		return packet == last
	}
	back := last - packet - 1
	return back < 64 && earlier>>back&1 == 1
}

func (b *Box) settle(f *flight) {
	for _, i := range f.items {
		if e := &b.items[i]; e.state == flying && e.packet <= f.packet {
			e.state, e.again = calm, false
		}
	}
}

func (b *Box) lose(now time.Duration, f *flight) {
	b.lossy = now + lossyFor
	b.window.lost(now, f.at)
	for _, i := range f.items {
		if e := &b.items[i]; e.state == flying && e.last == f.packet {
			b.wait(now, i, e.repeated())
		}
	}
}

// Unheard returns the time at which the oldest packet with items left that may still be acknowledged; ok is false if
// there is none.
func (b *Box) Unheard() (at time.Duration, ok bool) {
	if len(b.flights) == 0 || len(b.flights[0].items) == 0 { // only the last may carry nothing
		return 0, false
	}
	return b.flights[0].at, true
}
