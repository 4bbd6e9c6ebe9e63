package linkserver

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// nobody takes events.
type nobody struct{}

func (nobody) Connected(*Conn)                {}
func (nobody) Received(*Conn, link.Message)   {}
func (nobody) ConfigSent(*Conn, int64, error) {}
func (nobody) Disconnected(*Conn)             {}

// A process that opens connections in a loop is let in maxOfProcess times at once, and not more often than callsEvery.
func TestOneProcessLeavesRoom(t *testing.T) {
	s, err := Listen(Options{Path: filepath.Join(t.TempDir(), "a.sock"), Agent: "agent-1", Generation: 9,
		Log: slog.New(slog.DiscardHandler)}, nobody{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	accepted := func() bool {
		f := dial(t, s)
		defer f.Close()
		_ = f.w.Write(&link.Hello{Version: link.Version, Replica: "gw"}) // it may be closed by now
		_, err := f.r.Next()
		return err == nil
	}
	for range maxOfProcess {
		dial(t, s).hello("gw", 1)
	}
	if accepted() {
		t.Fatalf("a process has more than %d connections", maxOfProcess)
	}
	s.CloseConn(1)
	for range 2 * callsAtOnce {
		accepted()
	}
	if got := s.Stats(); got.Accepted > 3*callsAtOnce/2 || got.Refused < callsAtOnce/2 {
		t.Errorf("stats %+v", got)
	}
}

// Callers that are gone are forgotten.
func TestCallersAreForgotten(t *testing.T) {
	s := &Server{of: map[int]*caller{}}
	now := time.Now()
	for pid := range 10 * mostCallers {
		s.forgetCallers(now)
		s.of[pid] = &caller{latest: now}
		if len(s.of) > mostCallers {
			t.Fatalf("%d callers are remembered", len(s.of))
		}
	}
}

// A name that other agents would not take, or that would spoil a log, is refused.
func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"gw-1": true, "Zürich 3": true, strings.Repeat("x", maxName): true,
		strings.Repeat("x", maxName+1): false, "a\nb": false, "\x1b[2J": false} {
		if err := checkName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	s, _ := start(t)
	f := dial(t, s)
	f.say(&link.Hello{Version: link.Version, Replica: strings.Repeat("x", 4000)})
	if _, err := f.r.Next(); err != io.EOF {
		t.Errorf("a name of 4000 bytes: %v, want EOF", err)
	}
}

// What only an agent sends is refused at its header, before the first Hello, too.
func TestNoConfigurationBeforeTheHello(t *testing.T) {
	s, _ := start(t)
	f := dial(t, s)
	f.say(&exchange.Shares{})
	if _, err := f.r.Next(); err != io.EOF {
		t.Errorf("shares first: %v, want EOF", err)
	}
	if got := s.Stats().Malformed; got != 1 {
		t.Errorf("%d malformed, want 1", got)
	}
}

// A connection that takes all of the agent's time rests after 8 s. A connection that takes half of it never rests.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		part  time.Duration // of 100
		rests bool
	}{{100, true}, {50, false}} {
		p, now := newPace(), time.Now()
		p.at = now
		after := time.Duration(0)
		for after < time.Minute && p.owed <= restAfter {
			after += 100 * time.Millisecond
			p.note(now.Add(after), c.part*time.Millisecond)
		}
		if rests := after < time.Minute; rests != c.rests || rests && after < 7*time.Second {
			t.Errorf("with %d %% of the time it rests after %s", c.part, after)
		}
	}
}
