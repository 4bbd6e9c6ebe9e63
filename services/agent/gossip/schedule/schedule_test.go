package schedule

import (
	"testing"
	"time"
)

func TestDelays(t *testing.T) {
	var d Delay
	d.Sent(1, 100*time.Millisecond)
	d.Acknowledged(1, 20*time.Millisecond, 160*time.Millisecond, 0)
	if d.delay != 20*time.Millisecond {
		t.Errorf("(160−100−20)/2 is %v", d.delay)
	}
	d.Acknowledged(0, 0, time.Hour, 0)  // never sent
	d.Acknowledged(65, 0, time.Hour, 0) // long overwritten
	if d.delay != 20*time.Millisecond {
		t.Errorf("unknown acknowledgements count: %v", d.delay)
	}
	for i := range uint64(200) {
		d.Sent(2+i, 0)
		d.Acknowledged(2+i, 0, 2*time.Millisecond, 0)
	}
	if d.delay > 2*time.Millisecond {
		t.Errorf("a peak never decays: %v", d.delay)
	}
}

// Lost packets make the delay longer, for a while; never by more than a silence.
func TestDelayOfLostPackets(t *testing.T) {
	const ms = time.Millisecond
	var d Delay
	d.Sample(20 * ms)
	d.Missed(2, 50*ms)
	if d.Value() != 120*ms {
		t.Errorf("two lost: %v, want 120ms", d.Value())
	}
	d.Missed(1000, 50*ms)
	if d.Value() != 270*ms {
		t.Errorf("a thousand lost: %v, want 270ms", d.Value())
	}
	for range 250 {
		d.Missed(0, 50*ms)
	}
	if d.Value() != 20*ms {
		t.Errorf("all heard since: %v, want 20ms", d.Value())
	}
}

// A pause of seconds, of this process or of the peer, is not a slow network; a slow
// network is.
func TestDelayOfAPause(t *testing.T) {
	const ms = time.Millisecond
	var d Delay
	d.Sample(ms)
	d.Sent(1, time.Second)
	d.Acknowledged(1, 0, 6*time.Second, 0) // the peer stood still for 5 s
	if d.Value() > 50*ms {
		t.Errorf("one answer after 5 s: %v, want 50ms at most", d.Value())
	}
	d.Sent(2, 6*time.Second)
	for range 100 { // this process stood still, and finds all answers at once
		d.Acknowledged(2, 0, 11*time.Second, 11*time.Second)
	}
	if d.Value() > 50*ms {
		t.Errorf("answers that waited for this process: %v, want 50ms at most", d.Value())
	}
	for range 5 {
		d.Sample(250 * ms)
	}
	if d.Value() != 250*ms {
		t.Errorf("250 ms measured five times: %v", d.Value())
	}
	for range 5 {
		d.Sample(time.Hour)
	}
	if d.Value() != Longest {
		t.Errorf("hours measured: %v, want %v", d.Value(), Longest)
	}
}
