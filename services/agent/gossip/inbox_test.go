package gossip

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// together is a State that counts what it is given at once.
type together struct {
	State
	sizes []int
	all   func()
	want  int
}

func (s *together) ReceivePackets(packets ...*gossipv1.Packet) ([]schedule.Drop, bool) {
	s.sizes = append(s.sizes, len(packets))
	if s.want -= len(packets); s.want == 0 {
		s.all()
	}
	drops := make([]schedule.Drop, len(packets))
	for i := range drops {
		drops[i] = schedule.Accepted
	}
	return drops, false
}

// Packets that wait are given to State together, at most readAtOnce: each call may wait for a lock. What has waited for
// too long is dropped and counted.
func TestWhatWaitsIsReadTogether(t *testing.T) {
	const late, fresh = 5, readAtOnce + 3
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &together{all: cancel, want: fresh}
	from, to := pair(t, s)
	for i := range late + fresh {
		box := &outbox{}
		from.seal(box, []schedule.Outgoing{{To: "b", Packet: &gossipv1.Packet{Agent: "a", Seq: uint64(i + 1)}}}, nil)
		to.enqueue(box.frames)
	}
	for range late {
		f := <-to.inbox
		f.came = f.came.Add(-longestInbox - time.Millisecond)
		to.inbox <- f
	}
	to.readInbox(ctx)
	if n := to.dropped[schedule.Overflow].Load(); n != late {
		t.Errorf("%d packets dropped, want the %d that waited for too long", n, late)
	}
	if len(s.sizes) != 2 || s.sizes[0] != readAtOnce {
		t.Errorf("given together: %v packets, want %d and the rest", s.sizes, readAtOnce)
	}
}

// pair returns two nodes without sockets; b takes what a seals.
func pair(tb testing.TB, state State) (a, b *Node) {
	tb.Helper()
	nodes := [2]*Node{}
	for i := range nodes {
		self, err := newIdentity(current)
		if err != nil {
			tb.Fatal(err)
		}
		nodes[i] = &Node{o: Options{Log: slog.New(slog.DiscardHandler)}, state: state, self: self,
			inbox: make(chan *frame, inboxFrames), contacts: map[string]*contact{}, senders: map[sender]*contact{}}
	}
	for i, name := range []string{"b", "a"} {
		public := nodes[1-i].self.private.PublicKey().Bytes()
		s, err := nodes[i].self.with(current, public, nil)
		if err != nil {
			tb.Fatal(err)
		}
		c := &contact{node: memberlist.Node{Addr: net.IPv4(127, 0, 0, 1), Port: 7500}, alive: true, session: s}
		nodes[i].contacts[name], nodes[i].senders[senderOf(public)] = c, c
	}
	return nodes[0], nodes[1]
}
