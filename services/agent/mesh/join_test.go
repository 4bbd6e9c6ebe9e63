package mesh

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// freeAddress is one that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Two halves that have forgotten each other find together again, by --join or by the
// addresses of the coordinator, although neither is alone.
func TestHalvesFindTogether(t *testing.T) {
	for name, named := range map[string]func(n *node, address string) *node{
		"join": func(n *node, address string) *node { return open(t, "d", nil, n.mesh.Address(), address) },
		"coordinator": func(n *node, address string) *node {
			n.mesh.SetAddresses([]string{address})
			return open(t, "d", nil, n.mesh.Address())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there := freeAddress(t)
			c := open(t, "c", nil)
			d := named(c, there)
			for _, n := range []*node{c, d} {
				n.eventually("the half is whole", func() bool { return n.sums().Replicas == 2 })
			}
			a := run(t, "a", Options{Bind: there, Incarnation: 1})
			b := open(t, "b", nil, there)
			for _, n := range []*node{a, b, c, d} {
				n.eventually("all four are members", func() bool { return n.sums().Replicas == 4 })
			}
		})
	}
}

func failing(n int) *Mesh {
	m := &Mesh{o: Options{Name: "me", Period: 50 * time.Millisecond}, peers: map[string]*peer{}, senders: map[sender]*peer{}}
	for i := range n {
		name := fmt.Sprint("peer-", i)
		m.peers[name] = &peer{version: current, heard: 1, failed: time.Duration(i) * time.Second,
			node: memberlist.Node{Name: name, Addr: net.IPv4(127, 0, 0, 1).To4(), Port: uint16(1000 + i)}}
	}
	return m
}

// A peer that failed is tried for a day, not for five minutes; of many the latest.
func TestFailedPeersAreKept(t *testing.T) {
	m := failing(2)
	m.tidy(23 * time.Hour)
	if len(m.peers) != 2 {
		t.Errorf("%d peers after 23 h, want both", len(m.peers))
	}
	m.tidy(keepFailed + time.Millisecond)
	if m.peers["peer-0"] != nil || m.peers["peer-1"] == nil {
		t.Error("a day after it failed a peer is still kept, or too few are")
	}
	m = failing(keepMost + 2)
	m.tidy(time.Hour)
	m.tidy(time.Hour)
	if len(m.peers) != keepMost || m.peers["peer-0"] != nil || m.peers["peer-1"] != nil {
		t.Errorf("%d failed peers kept, want the latest %d", len(m.peers), keepMost)
	}
}

// Attempts at one address become rarer, to one in joinMost; few are made at a time, and
// all get their turn.
func TestAttemptsAreBounded(t *testing.T) {
	var dead []string
	for i := range 20 {
		dead = append(dead, fmt.Sprintf("127.0.0.1:%d", 1000+i))
	}
	attempts, made := map[string]attempt{}, map[string]int{}
	for now := time.Duration(0); now < time.Minute; now += joinEvery {
		due := pick(now, attempts, slices.Clone(dead), nil)
		if len(due) > joinAtOnce {
			t.Fatalf("%d addresses at a time", len(due))
		}
		for _, a := range due {
			made[a]++
		}
	}
	for _, a := range dead {
		if made[a] < 6 || made[a] > 20 {
			t.Errorf("%s tried %d times in a minute, want 6 to 20", a, made[a])
		}
	}
}
