package schedule

import (
	"reflect"
	"testing"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
)

// exchange has this agent send n packets to a peer, each acknowledged after a round trip.
func (p *Peers) exchange(now *time.Duration, to string, n int, trip time.Duration) {
	from := source{map[delivery.Item]int{}}
	for range n {
		*now += time.Second
		for out, _ := p.Round(*now, false, false, from); len(out) > 0; out = nil {
			for _, o := range out {
				if o.To == to {
					p.Receive(*now+trip, &gossipv1.Packet{Agent: to, Incarnation: 7, Seq: p.by[to].lastSeq + 1,
						PromiseMs: 2000, Ack: &gossipv1.Ack{Incarnation: p.Incarnation, Seq: o.Packet.GetSeq()}})
				}
			}
		}
	}
}

// The way is what packets take in the median, to the farthest agent that is alive.
func TestWay(t *testing.T) {
	const ms = time.Millisecond
	p, now := NewPeers("me", 1, 50*ms, 15*time.Second), time.Duration(0)
	if w := p.Way(); !reflect.DeepEqual(w, Way{}) {
		t.Errorf("alone: %+v", w)
	}
	for _, name := range []string{"near", "far"} {
		p.Alive(0, name, "", true, Version)
	}
	p.exchange(&now, "near", fewestSamples-1, ms)
	if w := p.Way(); w.Peers != 2 || w.Unknown != 2 || w.To != "" {
		t.Errorf("after too few packets: %+v", w)
	}
	p.exchange(&now, "near", 1, ms)
	if w := p.Way(); w.Unknown != 1 || w.To != "near" || w.Longest != ms/2 {
		t.Errorf("one is known: %+v", w)
	}
	p.exchange(&now, "far", 30, 8*ms)
	p.exchange(&now, "far", waySamples/2-1, 300*ms)
	if w := p.Way(); w.Unknown != 0 || w.To != "far" || w.Longest != 4*ms || w.Beyond(ms) != 1 || w.Beyond(4*ms) != 0 {
		t.Errorf("fewer than half of 32 packets were slow: %+v", w)
	}
	p.exchange(&now, "far", 1, 300*ms)
	if w := p.Way(); w.Longest != 150*ms {
		t.Errorf("half of 32 packets were slow: %+v", w)
	}
	p.Failed(now, "far")
	if w := p.Way(); w.Peers != 1 || w.To != "near" {
		t.Errorf("the far one has failed: %+v", w)
	}
	p.Alive(now, "near", "", true, Version)
	if w := p.Way(); w.Unknown != 1 {
		t.Errorf("a new life: %+v", w)
	}
}
