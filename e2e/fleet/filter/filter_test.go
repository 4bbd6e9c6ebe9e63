package filter

import (
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/e2e/fleet/workload"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/linkserver"
)

// agent is behind a real link server. It ends the first links when they have claimed something.
type agent struct {
	mu     sync.Mutex
	ends   int // links that are to be ended
	hellos []link.Hello
	claims []int         // keys in the first claims of each link
	first  bool          // nothing was received on the link yet
	whole  chan struct{} // closed when a link that stays has sent everything
	gone   chan struct{} // closed when the first link has ended
	once   sync.Once     // of gone
}

func newAgent(ends int) *agent {
	return &agent{ends: ends, whole: make(chan struct{}), gone: make(chan struct{})}
}

func (a *agent) Connected(c *linkserver.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hellos = append(a.hellos, c.Hello)
	a.first = true
}

func (a *agent) Received(c *linkserver.Conn, m link.Message) {
	claims, ok := m.(*exchange.Claims)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.first {
		return
	}
	a.first = false
	a.claims = append(a.claims, len(claims.Keys))
	if len(a.claims) <= a.ends {
		c.Close()
	} else {
		close(a.whole)
	}
}

func (a *agent) ConfigSent(*linkserver.Conn, int64, error) {}
func (a *agent) Disconnected(*linkserver.Conn)             { a.once.Do(func() { close(a.gone) }) }

func serve(t *testing.T, path string, a *agent) *linkserver.Server {
	t.Helper()
	s, err := linkserver.Listen(linkserver.Options{Path: path, Agent: "a", Generation: 1,
		Log: slog.New(slog.DiscardHandler)}, a)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(t.Context()) }()
	return s
}

func gateway(t *testing.T) *workload.Gateway {
	t.Helper()
	f, err := workload.New(workload.Plan{Gateways: 2, Keys: 30, Rate: 40, Flows: 1})
	if err != nil {
		t.Fatal(err)
	}
	return f.Gateways[0]
}

// A gateway whose link fails connects again as the same process, and sends all its claims.
func TestLinksComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	a := newAgent(2)
	serve(t, path, a)
	g := gateway(t)
	f, err := Connect(Options{Socket: path, Name: "gw", Start: time.Now(), Patience: 10 * time.Second}, g)
	if err != nil {
		t.Fatal(err)
	}
	<-a.whole
	if err := f.Withdraw(); err != nil || f.Reconnects() != 2 || f.Err() != nil {
		t.Errorf("withdrawal: %v; %d links came back, %v", err, f.Reconnects(), f.Err())
	}
	f.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, h := range a.hellos {
		if h.Generation != a.hellos[0].Generation || h.Again != (i > 0) || a.claims[i] != g.Keys() {
			t.Errorf("link %d: %+v, %d of %d keys claimed", i, h, a.claims[i], g.Keys())
		}
	}
}

// A gateway that finds no agent within its patience returns an error, also from Withdraw.
func TestPatienceEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	o := Options{Socket: path, Name: "gw", Start: time.Now(), Patience: 100 * time.Millisecond}
	_, err := Connect(o, gateway(t))
	if err == nil || !strings.Contains(err.Error(), "gateway gw has had no link for") {
		t.Errorf("%v", err)
	}
	a := newAgent(1)
	s := serve(t, path, a)
	f, err := Connect(o, gateway(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s.Close()
	<-a.gone
	if err := f.Withdraw(); err == nil {
		t.Error("no agent is there to withdraw from")
	}
}
