package schedule

import (
	"fmt"
	"testing"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"google.golang.org/protobuf/proto"
)

const period = 50 * time.Millisecond

// source has one gateway; each item takes a sum.
type source struct{ put map[delivery.Item]int }

func (s source) State(time.Duration) []*gossipv1.Replica { return s.Heads(0) }
func (s source) Heads(time.Duration) []*gossipv1.Replica {
	return []*gossipv1.Replica{{Name: "gateway", Generation: 1, Weight: 1}}
}
func (s source) Gather(time.Duration)              {}
func (s source) Contended() bool                   { return false }
func (s source) Wanted(string, delivery.Item) bool { return true }
func (s source) Put(_ time.Duration, m *gossipv1.Packet, _ string, i delivery.Taken) int {
	s.put[i.Item]++
	sum := &gossipv1.Sum{Key: i.Key, Claims: 1, Active: 1, Unsaturated: 1, Admitted: 1, Spent: 1, Others: 1}
	m.Sums = append(m.Sums, sum)
	return proto.Size(sum)
}

// However many items there are, an agent sends no more in a period than its budget; all peers have their turn, and what
// waits is counted.
func TestBudget(t *testing.T) {
	p, from := NewPeers("me", 1, period, 15*time.Second), source{map[delivery.Item]int{}}
	const peers, keys = 30, 2000
	for i := range peers {
		p.Alive(0, fmt.Sprintf("peer-%02d", i), "", true, Version)
	}
	now := time.Second
	for i := range peers {
		for k := range uint64(keys) {
			p.Tell(now, fmt.Sprintf("peer-%02d", i), delivery.Item{Key: uint64(i)<<32 | k, Kind: delivery.Sum}, delivery.Normal)
		}
	}
	for range 20 {
		packets, bytes, to := 0, 0, map[string]int{}
		for range 2 {
			now += period / 2
			out, _ := p.Round(now, false, false, from)
			for _, o := range out {
				n := proto.Size(o.Packet)
				if n > MaxPacket {
					t.Fatalf("a packet of %d bytes", n)
				}
				packets++
				bytes += n + frameExtra
				to[o.To]++
				p.by[o.To].box.Acked(now, o.Packet.GetSeq(), ^uint64(0), time.Second)
			}
		}
		if packets > PacketsPerPeriod || bytes > BytesPerPeriod || packets < PacketsPerPeriod*9/10 {
			t.Errorf("%d packets of %d bytes in a period, want all of %d and at most %d", packets, bytes,
				PacketsPerPeriod, BytesPerPeriod)
		}
		if len(to) != peers {
			t.Errorf("%d peers had their turn, want %d", len(to), peers)
		}
	}
	if s := p.Traffic(); s.Deferred == 0 || s.Late < 100*time.Millisecond || s.Waiting == 0 || s.Told != peers*keys {
		t.Errorf("traffic %+v, want some deferred and late", s)
	}
}

// A peer that acknowledges nothing is sent little, however much waits for it, and what waits is late. It costs the
// others nothing.
func TestAPeerThatAcknowledgesNothing(t *testing.T) {
	p, from := NewPeers("me", 1, period, 15*time.Second), source{map[delivery.Item]int{}}
	now, sent := time.Second, map[string]int{}
	for _, name := range []string{"slow", "fast"} {
		p.Alive(0, name, "", true, Version)
		for k := range uint64(50_000) {
			p.Tell(now, name, delivery.Item{Key: k, Kind: delivery.Sum}, delivery.Normal)
		}
	}
	for range 40 {
		now += period / 2
		out, _ := p.Round(now, false, false, from)
		for _, o := range out {
			sent[o.To]++
			if o.To == "fast" {
				p.by[o.To].box.Acked(now, o.Packet.GetSeq(), ^uint64(0), time.Second)
			}
		}
	}
	if sent["slow"] > 2*40 || sent["fast"] < 20*PacketsPerPeriod/2 {
		t.Errorf("%d packets in a second, %d to the peer that acknowledges them", sent["slow"], sent["fast"])
	}
	if s := p.Traffic(); s.Late < 500*time.Millisecond || s.Deferred == 0 {
		t.Errorf("traffic %+v, want late", s)
	}
}

// Peers that have nothing to say to each other speak rarely, and the more rarely the more
// there are.
func TestKeepalives(t *testing.T) {
	for peers, want := range map[int]int{2: 2 * 20, 30: 30 * 20, 160: 64 * 10} {
		p, from := NewPeers("me", 1, period, 15*time.Second), source{map[delivery.Item]int{}}
		for i := range peers {
			p.Alive(0, fmt.Sprint("peer-", i), "", true, Version)
		}
		now, n := time.Second, 0
		for range 800 { // the first packets, which are sent at once
			now += period / 2
			p.Round(now, false, false, from)
		}
		for range 400 {
			now += period / 2
			out, _ := p.Round(now, false, false, from)
			n += len(out)
		}
		if n < want*9/10 || n > want*11/10 {
			t.Errorf("%d peers: %d packets in 10 s, want about %d", peers, n, want)
		}
	}
}

// An agent that stops informs all peers, also right after a tick.
func TestLeavingIsTold(t *testing.T) {
	p, from := NewPeers("me", 1, period, 15*time.Second), source{map[delivery.Item]int{}}
	p.Alive(0, "peer", "", true, Version)
	p.Round(time.Second, false, false, from)
	for i := range 3 {
		out, _ := p.Round(time.Second+time.Millisecond, true, true, from)
		if len(out) != 1 || !out[0].Packet.GetLeaving() {
			t.Errorf("last packets, %d: %v", i, out)
		}
	}
}

// What a peer has acknowledged is not sent again when a short silence ends, however many keys that is. After a long one
// the peer may have forgotten it, unless it had announced that.
func TestAShortSilenceRepeatsNothing(t *testing.T) {
	const forgotten, keys = 15 * time.Second, 100
	for _, c := range []struct {
		silence time.Duration
		promise uint32 // ms
		again   int
	}{{time.Second, 50, 0}, {7 * time.Second, 50, 0}, {8 * time.Second, 50, keys}, {8 * time.Second, 4000, 0}} {
		p, from := NewPeers("me", 1, period, forgotten), source{map[delivery.Item]int{}}
		p.Alive(0, "peer", "", true, Version)
		now, seq := time.Second, uint64(0)
		hear := func() {
			seq++
			p.Receive(now, &gossipv1.Packet{Agent: "peer", Incarnation: 2, Seq: seq, PromiseMs: c.promise,
				Ack: &gossipv1.Ack{Incarnation: 1, Seq: p.by["peer"].seq, Earlier: 1<<64 - 1}})
		}
		for k := range uint64(keys) {
			p.Tell(now, "peer", delivery.Item{Key: k, Kind: delivery.Claim}, delivery.Normal)
		}
		for range 20 {
			p.Round(now, false, false, from)
			hear()
			now += period
		}
		now += c.silence
		if hear(); p.by["peer"].box.Waiting() != c.again {
			t.Errorf("%+v: %d items wait", c, p.by["peer"].box.Waiting())
		}
	}
}
