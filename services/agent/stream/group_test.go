package stream

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sharers are coordinators that share the pools, and what agents do with them.
type sharers struct {
	t     *testing.T
	fleet fleet

	mu      sync.Mutex
	epoch   int64
	list    []string        // their addresses now; empty: they lead as one
	changed chan struct{}   // closes when the list changes
	down    map[string]bool // these answer nothing
	unaware map[string]bool // these do not know yet that they lead
	open    map[string]int  // streams that are open, by address
	ever    map[string]int  // streams that were opened
	reports map[string]int
}

func newSharers(t *testing.T, names ...string) *sharers {
	s := &sharers{t: t, fleet: fleet{}, epoch: 1, changed: make(chan struct{}), down: map[string]bool{},
		unaware: map[string]bool{},
		open:    map[string]int{}, ever: map[string]int{}, reports: map[string]int{}}
	for _, name := range names {
		address := "passthrough:///" + name
		s.list = append(s.list, address)
		s.fleet.add(t, name, func(w controlv1.ControlService_ConnectServer) error { return s.serve(address, w) })
	}
	return s
}

// become changes who shares the pools; the others say that they do not lead.
func (s *sharers) become(epoch int64, list ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch, s.list = epoch, nil
	for _, name := range list {
		s.list = append(s.list, "passthrough:///"+name)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// stop kills a coordinator, or starts it again.
func (s *sharers) stop(name string, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down["passthrough:///"+name] = down
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *sharers) serve(address string, w controlv1.ControlService_ConnectServer) error {
	if _, err := w.Recv(); err != nil {
		return err
	}
	s.mu.Lock()
	s.open[address]++
	s.ever[address]++
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.open[address]--; s.mu.Unlock() }()
	go func() {
		for {
			m, err := w.Recv()
			if err != nil {
				return
			}
			if m.GetReport() != nil {
				s.mu.Lock()
				s.reports[address]++
				s.mu.Unlock()
			}
		}
	}()
	for {
		s.mu.Lock()
		epoch, list, changed, down := s.epoch, s.list, s.changed, s.down[address]
		unaware := s.unaware[address]
		s.mu.Unlock()
		switch {
		case down:
			return status.Error(codes.Unavailable, "down")
		case unaware, len(list) > 0 && !slices.Contains(list, address):
			return notLeader(list[0])
		case len(list) > 0:
			if err := w.Send(&controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Coordinators{
				Coordinators: &controlv1.Coordinators{Epoch: epoch, Self: address, Addresses: list}}}); err != nil {
				return err
			}
		}
		if err := w.Send(&controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Configuration{
			Configuration: &controlv1.Configuration{Revision: 9, Last: true}}}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-w.Context().Done():
			return w.Context().Err()
		}
	}
}

// has reports whether each of these coordinators, and no other, has one stream.
func (s *sharers) has(names ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for address, n := range s.open {
		if want := slices.Contains(names, address[len("passthrough:///"):]); want != (n == 1) || n > 1 {
			return false
		}
	}
	for _, name := range names {
		if s.open["passthrough:///"+name] != 1 {
			return false
		}
	}
	return true
}

func startGroup(t *testing.T, s *sharers, addresses ...string) *Group {
	t.Helper()
	for i := range addresses {
		addresses[i] = "passthrough:///" + addresses[i]
	}
	g := NewGroup(Options{Addresses: addresses, Dial: s.fleet.dial(), Every: 10 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler)}, func() Agent { return &agent{} })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return g
}

func TestAStreamToEachThatShares(t *testing.T) {
	s := newSharers(t, "one", "two", "three")
	g := startGroup(t, s, "one")
	eventually(t, "a stream to each", func() bool { return s.has("one", "two", "three") })
	eventually(t, "reports to each", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.reports) == 3
	})
	eventually(t, "connected to each", func() bool { return g.Status().Connected && len(g.All()) == 3 })
	s.become(2, "one", "three")
	eventually(t, "two is left", func() bool { return s.has("one", "three") })
	s.become(3, "two", "three") // without the first stream's coordinator
	eventually(t, "one is left, two is back", func() bool { return s.has("two", "three") && g.Status().Connected })
	s.become(4) // one leads all again, and says so by nothing
}

func TestOneOfTheSharersDies(t *testing.T) {
	for _, dies := range []string{"one", "two"} {
		t.Run(dies, func(t *testing.T) {
			s := newSharers(t, "one", "two")
			g := startGroup(t, s, "one", "two")
			eventually(t, "a stream to each", func() bool { return s.has("one", "two") })
			rest := map[string]string{"one": "two", "two": "one"}[dies]
			s.stop(dies, true)
			eventually(t, "the other's stream goes on, and the loss is seen",
				func() bool { return s.has(rest) && !g.Status().Connected && g.Status().Error != "" })
			s.become(2, rest)
			eventually(t, "the other leads alone", func() bool { return s.has(rest) && g.Status().Connected })
			s.mu.Lock()
			if s.ever["passthrough:///"+rest] != 1 {
				t.Errorf("%d streams to the one that lives", s.ever["passthrough:///"+rest])
			}
			s.mu.Unlock()
			s.stop(dies, false)
			s.become(3, "one", "two")
			eventually(t, "a stream to each again", func() bool { return s.has("one", "two") && g.Status().Connected })
		})
	}
}

// While no coordinator lives the addresses of the settings are tried, and the stream that is found replaces the stream
// that was opened to the same coordinator meanwhile.
func TestAllSharersDieAndComeBack(t *testing.T) {
	s := newSharers(t, "one", "two")
	g := startGroup(t, s, "two", "one")
	eventually(t, "a stream to each", func() bool { return s.has("one", "two") })
	s.stop("one", true)
	s.stop("two", true)
	eventually(t, "no stream", func() bool { return s.has() && !g.Status().Connected })
	s.stop("two", false)
	s.stop("one", false)
	eventually(t, "a stream to each again", func() bool { return s.has("one", "two") && g.Status().Connected })
	g.Leave()
	g.Leave()
}

// A coordinator that names none leads all pools.
func TestOneThatLeadsAll(t *testing.T) {
	s := newSharers(t, "one", "two")
	s.become(1)
	g := startGroup(t, s, "one", "two")
	eventually(t, "one stream", func() bool { return s.has("one") && g.Status().Connected })
	s.stop("one", true)
	eventually(t, "the next", func() bool { return s.has("two") && g.Status().Connected && len(g.All()) == 1 })
	// Both share now; the stream learns it.
	s.stop("one", false)
	s.become(2, "one", "two")
	eventually(t, "a stream to each", func() bool { return s.has("one", "two") })
	// And one takes all: an older release was elected, the other says that it does not lead.
	s.become(3, "two")
	eventually(t, "one stream", func() bool { return s.has("two") && g.Status().Connected })
	g.Block(true)
	eventually(t, "none", func() bool { return s.has() })
	g.Block(false)
	eventually(t, "one again", func() bool { return s.has("two") && g.Status().Connected })
}

// A coordinator that the others name already does not know yet that it leads: it is tried again.
func TestOneThatDoesNotKnowYet(t *testing.T) {
	s := newSharers(t, "one", "two")
	s.unaware["passthrough:///two"] = true
	startGroup(t, s, "one")
	eventually(t, "two has been tried", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ever["passthrough:///two"] > 0
	})
	s.mu.Lock()
	s.unaware["passthrough:///two"] = false
	s.mu.Unlock()
	eventually(t, "a stream to each", func() bool { return s.has("one", "two") })
}
