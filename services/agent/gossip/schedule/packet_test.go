package schedule

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// Every claim is in exactly one packet, and none is too long.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []*gossipv1.Replica
		for i := range rapid.IntRange(0, 3).Draw(t, "replicas") {
			r := &gossipv1.Replica{Name: fmt.Sprint("gateway-", i), Generation: 1 << 60, Seq: 1 << 60, Weight: 2,
				Drained: i == 1}
			for k := range rapid.IntRange(0, 120).Draw(t, "keys") {
				r.Keys = append(r.Keys, &gossipv1.KeyClaim{Key: uint64(k), Claim: 1, Active: 1, Admitted: 1, Spent: 1})
			}
			for k := range rapid.IntRange(0, 120).Draw(t, "flows") {
				r.Flows = append(r.Flows, &gossipv1.FlowClaim{Key: uint64(k), Claim: 1})
			}
			in = append(in, r)
		}
		back := map[string]*gossipv1.Replica{}
		for _, part := range split(in, MaxPacket-overhead) {
			if n := proto.Size(&gossipv1.Packet{Replicas: part}); n > MaxPacket-overhead {
				t.Fatalf("%d bytes", n)
			}
			for _, r := range part {
				if have := back[r.Name]; have != nil {
					have.Keys, have.Flows = append(have.Keys, r.Keys...), append(have.Flows, r.Flows...)
				} else {
					back[r.Name] = r
				}
			}
		}
		for _, r := range in {
			if !proto.Equal(r, back[r.Name]) {
				t.Fatalf("got %v, want %v", back[r.Name], r)
			}
		}
	})
}

func TestHeaderFits(t *testing.T) {
	p := NewPeers(string(bytes.Repeat([]byte{'n'}, 256)), 1<<64-1, time.Second, 15*time.Second)
	p.Alive(0, "peer", "", true, Version)
	p.Receive(0, &gossipv1.Packet{Agent: "peer", Incarnation: 1<<64 - 1, Seq: 1<<64 - 1})
	at := p.by["peer"]
	at.seq, at.earlier, p.budget.late = 1<<64-2, 1<<64-1, time.Hour
	h := p.header(1<<62, at, time.Minute, true)
	if n := proto.Size(h); n > overhead+len(p.Name) {
		t.Errorf("a header of %d bytes, budget %d", n, overhead+len(p.Name))
	}
}
