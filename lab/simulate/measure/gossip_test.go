package measure

import (
	"testing"
	"time"

	"github.com/titrate/titrate/lab/simulate/system"
)

// Agents that never ran are left out; an agent that ran for a while counts with its rate of that time.
func TestGossip(t *testing.T) {
	g := NewGossip([]system.Sent{{Bytes: 1000, Packets: 10, Records: 40, Time: 10 * time.Second}, {},
		{Bytes: 600, Packets: 6, Records: 2, Time: 2 * time.Second}})
	want := Gossip{Bytes: Figure{200, 300}, Packets: Figure{2, 3}, Records: Figure{2.5, 4}}
	if *g != want {
		t.Errorf("%+v, want %+v", *g, want)
	}
	if g := NewGossip(nil); *g != (Gossip{}) {
		t.Errorf("%+v of no agent", *g)
	}
}
