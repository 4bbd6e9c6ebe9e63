package schedule

import (
	"fmt"
	"testing"
	"time"
)

// failing returns peers of which the i-th failed after i seconds.
func failing(n int) *Peers {
	p := NewPeers("me", 1, 50*time.Millisecond)
	for i := range n {
		name, at := fmt.Sprint("peer-", i), time.Duration(i)*time.Second
		p.Alive(at, name, fmt.Sprint("127.0.0.1:", 1000+i), true, Owners)
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
