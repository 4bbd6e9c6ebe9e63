package gossip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/core"
)

// freeAddress returns an address without a listener, of a host of loopback. 127.0.0.1's could become another test's.
func freeAddress(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Two halves that have forgotten each other find together again, by --join or by the
// addresses of the coordinator, although neither is alone.
func TestHalvesFindTogether(t *testing.T) {
	hosts := map[string]string{"join": "127.0.0.2", "coordinator": "127.0.0.3"}
	for name, named := range map[string]func(n *node, address string) *node{
		"join": func(n *node, address string) *node { return open(t, "d", nil, n.gossip.Address(), address) },
		"coordinator": func(n *node, address string) *node {
			n.core.do(func(c *core.Core) {
				to, _ := c.Hello(now())
				if _, err := to.Leases(now(), &controlv1.Leases{Epoch: 1, Seq: 1,
					Members: []*controlv1.Replica{{Name: "a", Gossip: address}}}); err != nil {
					t.Error(err)
				}
			})
			return open(t, "d", nil, n.gossip.Address())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there := freeAddress(t, hosts[name])
			c := open(t, "c", nil)
			d := named(c, there)
			for _, n := range []*node{c, d} {
				n.eventually("the half is whole", func() bool { return n.sums().Replicas == 2 })
			}
			a := run(t, "a", 1, Options{Bind: there})
			b := open(t, "b", nil, there)
			for _, n := range []*node{a, b, c, d} {
				n.eventually("all four are members", func() bool { return n.sums().Replicas == 4 })
			}
		})
	}
}

// An agent that stops says so at once, although an address to join does not answer.
func TestStopsWhileAnAddressDoesNotAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	n, err := Open(Options{Name: "a", Bind: "127.0.0.1:0", Join: []string{silent.Addr().String()},
		Log: slog.New(slog.DiscardHandler)}, newState("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- n.Run(ctx) }()
	attempt, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer attempt.Close()
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if err := attempt.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, attempt); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Run has waited for the attempt to end: %v", err)
	}
	attempt.Close()
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// Attempts at one address become rarer, to one in joinMost; few are made at a time, and
// all get their turn.
func TestAttemptsAreBounded(t *testing.T) {
	var dead []string
	for i := range 20 {
		dead = append(dead, fmt.Sprintf("127.0.0.1:%d", 1000+i))
	}
	attempts, made := map[string]*attempt{}, map[string]int{}
	for now := time.Duration(0); now < time.Minute; now += joinEvery {
		due := pick(now, attempts, slices.Clone(dead), nil)
		if len(due) > joinAtOnce {
			t.Fatalf("%d addresses at a time", len(due))
		}
		for _, a := range due {
			made[a]++
		}
		end(attempts, due)
	}
	for _, a := range dead {
		if made[a] < 6 || made[a] > 20 {
			t.Errorf("%s tried %d times in a minute, want 6 to 20", a, made[a])
		}
	}
}

// end ends attempts.
func end(attempts map[string]*attempt, at []string) {
	for _, a := range at {
		attempts[a].busy = false
	}
}

// An address that does not answer keeps no other one waiting, and is not tried twice at a time.
func TestDeadAddressKeepsNobodyWaiting(t *testing.T) {
	attempts := map[string]*attempt{}
	pick(0, attempts, []string{"dead"}, nil)
	if due := pick(joinMost, attempts, []string{"dead", "late"}, nil); !slices.Equal(due, []string{"late"}) {
		t.Errorf("tried %q, want late alone", due)
	}
}

// A peer that is received again after a long cut is tried at once, although its next attempt was far off. While it
// goes on to speak, but does not answer, attempts become rarer again.
func TestPeerThatSpeaksAgainIsTriedAtOnce(t *testing.T) {
	attempts, now, made := map[string]*attempt{}, time.Duration(0), 0
	for ; now < 30*time.Second; now += joinEvery {
		end(attempts, pick(now, attempts, []string{"a", "b"}, nil))
	}
	for from := now; now < from+time.Minute; now += joinEvery {
		attempts["b"] = &attempt{at: now + joinMost, pause: joinMost}
		due := pick(now, attempts, []string{"a", "b"}, []string{"a"})
		if now == from && !slices.Equal(due, []string{"a"}) {
			t.Errorf("tried %q when a began to speak, want a", due)
		}
		made += len(due)
		end(attempts, due)
	}
	if made > 20 {
		t.Errorf("tried %d times in a minute, want 20 at most", made)
	}
}

// A resolver that does not answer neither holds the attempts at addresses up for long, nor a stop.
func TestSilentResolver(t *testing.T) {
	before, over := net.DefaultResolver, make(chan struct{})
	defer func() { net.DefaultResolver = before }()
	defer close(over)
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		<-over
		return nil, net.ErrClosed
	}}
	n := open(t, "a", nil)
	began := time.Now()
	if err := n.gossip.joinAt(t.Context(), "agents.titrate.example:7500", nil); err == nil ||
		time.Since(began) > 5*resolveWait {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := addressesOf(ctx, "agents.titrate.example:7500"); !errors.Is(err, context.Canceled) {
		t.Errorf("after a stop: %v", err)
	}
}
