package schedule

import (
	"fmt"
	"testing"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// failing returns peers of which the i-th failed after i seconds.
func failing(n int) *Peers {
	p := NewPeers("me", 1, 50*time.Millisecond, 15*time.Second)
	for i := range n {
		name, at := fmt.Sprint("peer-", i), time.Duration(i)*time.Second
		p.Alive(at, name, fmt.Sprint("127.0.0.1:", 1000+i), true, Version)
		p.Failed(at, name)
	}
	return p
}

// A peer that failed is kept for a day, not for five minutes; of many the latest.
func TestFailedPeersAreKept(t *testing.T) {
	p := failing(2)
	p.forget(23 * time.Hour)
	if len(p.by) != 2 {
		t.Errorf("%d peers after 23 h, want both", len(p.by))
	}
	if gone := p.forget(keepFailed + time.Millisecond); len(gone) != 1 || p.by["peer-0"] != nil ||
		p.by["peer-1"] == nil {
		t.Error("a day after it failed a peer is still kept, or too few are")
	}
	p = failing(keepMost + 2)
	p.forget(time.Hour)
	p.forget(time.Hour)
	if len(p.by) != keepMost || p.by["peer-0"] != nil || p.by["peer-1"] != nil {
		t.Errorf("%d failed peers kept, want the latest %d", len(p.by), keepMost)
	}
}

// A packet that a later one has overtaken says nothing of when the peer speaks again, nor whether it is near.
func TestALatePacketSaysNothing(t *testing.T) {
	p := failing(0)
	p.Alive(0, "peer", "", true, Version)
	for _, m := range []*gossipv1.Packet{{Seq: 2, PromiseMs: 500, Nearness: gossipv1.Nearness_NEAR},
		{Seq: 1, PromiseMs: 50, Nearness: gossipv1.Nearness_FAR}} {
		m.Agent, m.Incarnation = "peer", 1
		if from, drop := p.Receive(time.Second, m); drop != Accepted || from.Promise != 500*time.Millisecond {
			t.Errorf("packet %d: promise %v, drop %v, want 500ms", m.Seq, from.Promise, drop)
		}
		if o := p.Opinions(); o != (Opinions{Near: 1}) {
			t.Errorf("packet %d: %+v", m.Seq, o)
		}
	}
}

// An agent that was killed and started again under another name is at the address of the old name: nothing is missing.
// At another address the old one may live on.
func TestARenamedAgentIsNotMissing(t *testing.T) {
	p := failing(0)
	receive := func(now time.Duration, name string) {
		t.Helper()
		m := &gossipv1.Packet{Agent: name, Incarnation: 1, Seq: uint64(now), PromiseMs: 500}
		if _, drop := p.Receive(now, m); drop != Accepted {
			t.Fatalf("packet of %s: %v", name, drop)
		}
	}
	p.Alive(0, "old", "127.0.0.1:1", true, Version)
	receive(time.Second, "old")
	p.Failed(3*time.Second, "old")
	p.Alive(4*time.Second, "new", "127.0.0.1:2", true, Version)
	receive(4*time.Second, "new")
	if got := p.Missing(4 * time.Second); fmt.Sprint(got) != "[old]" {
		t.Errorf("another agent at another address: %v are missing, want old", got)
	}
	p.Alive(5*time.Second, "new", "127.0.0.1:1", true, Version)
	receive(5*time.Second, "new")
	if got := p.Missing(5 * time.Second); len(got) > 0 {
		t.Errorf("under its new name: %v are missing", got)
	}
	if got := p.Missing(time.Minute); fmt.Sprint(got) != "[new old]" {
		t.Errorf("silent under its new name: %v are missing, want both", got)
	}
}
