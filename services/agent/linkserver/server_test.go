package linkserver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// event is an entry in a recorder's channel.
type event struct {
	what string
	c    *Conn
	m    link.Message
	err  error
}

type recorder chan event

func (r recorder) Connected(c *Conn)                { r <- event{what: "connected", c: c} }
func (r recorder) Received(c *Conn, m link.Message) { r <- event{what: "received", c: c, m: m} }
func (r recorder) Disconnected(c *Conn)             { r <- event{what: "disconnected", c: c} }

func (r recorder) ConfigSent(c *Conn, revision int64, err error) {
	r <- event{"config sent", c, &config.Config{Revision: revision}, err}
}

func (r recorder) next(t *testing.T, what string) event {
	t.Helper()
	select {
	case e := <-r:
		if e.what != what {
			t.Fatalf("got %q, want %q", e.what, what)
		}
		return e
	case <-time.After(5 * time.Second):
		t.Fatalf("nothing came, want %q", what)
	}
	panic("unreachable")
}

func start(t *testing.T) (*Server, recorder) {
	t.Helper()
	return startAt(t, Options{Path: filepath.Join(t.TempDir(), "a.sock")})
}

func startAt(t *testing.T, o Options) (*Server, recorder) {
	t.Helper()
	h := make(recorder, 64)
	o.Agent, o.Generation, o.Log = "agent-1", 9, slog.New(slog.DiscardHandler)
	s, err := Listen(o, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(s.o.Path); !os.IsNotExist(err) {
			t.Errorf("the socket file is still there: %v", err)
		}
	})
	return s, h
}

// filter is the other end, over the real socket.
type filter struct {
	t *testing.T
	net.Conn
	r *link.Reader
	w *link.Writer
}

func dial(t *testing.T, s *Server) *filter {
	t.Helper()
	conn, err := net.Dial("unix", s.o.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &filter{t, conn, link.NewReader(conn), link.NewWriter(conn)}
}

func (f *filter) say(m link.Message) {
	f.t.Helper()
	if err := f.w.Write(m); err != nil {
		f.t.Fatal(err)
	}
}

// live has the filter send heartbeats, as one does that takes long to read, until end is called.
func (f *filter) live() (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for sequence := uint64(1); ; sequence++ {
			select {
			case <-stop:
				return
			case <-time.After(link.DeadAfter / 10):
				_ = f.w.Write(&link.Heartbeat{Sequence: sequence}) // a link that has ended shows in the next read
			}
		}
	}()
	return func() { close(stop); <-ended }
}

func (f *filter) hear() link.Message {
	f.t.Helper()
	m, err := f.r.Next()
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

func (f *filter) hello(replica string, generation uint64) {
	f.t.Helper()
	f.say(&link.Hello{Version: link.Version, Replica: replica, Generation: generation, PID: 1, Weight: 2})
	if h, ok := f.hear().(*link.Hello); !ok || h.Replica != "agent-1" || h.Generation != 9 {
		f.t.Fatalf("agent's hello is %+v", h)
	}
}

// Questions to owners of tokens are taken, and answers that wait are written as one message.
func TestTokens(t *testing.T) {
	s, h := start(t)
	f := dial(t, s)
	f.hello("gw", 1)
	c := h.next(t, "connected").c
	f.say(&exchange.TokenRequests{List: []exchange.TokenRequest{{Key: 5}}})
	if m, ok := h.next(t, "received").m.(*exchange.TokenRequests); !ok || len(m.List) != 1 || m.List[0].Key != 5 {
		t.Errorf("received %+v", m)
	}
	c.box.mu.Lock() // the writer has to wait for both
	for _, a := range []*exchange.TokenAnswers{{Owners: exchange.Owners{View: 1, List: []exchange.Owner{{Hash: 1, Life: 2}}}}, {Grants: []exchange.TokenGrant{{Key: 5}}}} {
		c.box.slots[slotTokens] = merged(c.box.slots[slotTokens], a)
	}
	c.box.mu.Unlock()
	c.Send(&exchange.TokenAnswers{Recalls: []exchange.TokenRecall{{Key: 6}}})
	if m, ok := f.hear().(*exchange.TokenAnswers); !ok || len(m.Owners.List) != 1 || len(m.Grants) != 1 || len(m.Recalls) != 1 {
		t.Errorf("heard %+v", m)
	}
}

// A configuration that cannot be encoded is reported with the reason, a valid one without.
func TestUnsendableConfigurationIsReported(t *testing.T) {
	s, h := start(t)
	f := dial(t, s)
	f.hello("gw", 1)
	c := h.next(t, "connected").c
	c.Send(&config.Config{Revision: 5, Pools: []config.Pool{{Name: "api", Capacity: math.Inf(1)}}})
	if e := h.next(t, "config sent"); e.m.(*config.Config).Revision != 5 ||
		!strings.Contains(fmt.Sprint(e.err), "link: encode Config") {
		t.Errorf("of one that cannot be sent: %+v", e)
	}
	s.Send(c.Number, &config.Config{Revision: 6})
	f.hear()
	if e := h.next(t, "config sent"); e.m.(*config.Config).Revision != 6 || e.err != nil {
		t.Errorf("of one that can be sent: %+v", e)
	}
	s.Send(c.Number, &config.Delta{Base: 6, Revision: 7})
	if d, ok := f.hear().(*config.Delta); !ok || d.Base != 6 {
		t.Errorf("a change arrives as %+v", d)
	}
	if e := h.next(t, "config sent"); e.m.(*config.Config).Revision != 7 || e.err != nil {
		t.Errorf("of a change: %+v", e)
	}
}

// A change that is not written yet is written together with what it changes.
func TestMailboxAddsChangesUp(t *testing.T) {
	tenant := func(name string, weight float64) []config.Tenant {
		return []config.Tenant{{Name: name, Weight: weight}}
	}
	b := mailbox{wake: make(chan struct{}, 1)}
	b.put(&config.Delta{Base: 1, Revision: 2, Tenants: tenant("a", 2)})
	b.put(&config.Delta{Base: 2, Revision: 3, Tenants: tenant("b", 3), Removed: []string{"a"}})
	want := &config.Delta{Base: 1, Revision: 3, Tenants: tenant("b", 3), Removed: []string{"a"}}
	if got := b.next(); !reflect.DeepEqual(got, want) {
		t.Errorf("two changes are %+v, want %+v", got, want)
	}
	b.put(&config.Config{Revision: 3, Seed: 9, Tenants: tenant("b", 3)})
	b.put(&config.Delta{Base: 3, Revision: 4, Tenants: tenant("a", 4)})
	whole := &config.Config{Revision: 4, Seed: 9, Tenants: append(tenant("a", 4), tenant("b", 3)...)}
	if got := b.next(); !reflect.DeepEqual(got, whole) {
		t.Errorf("a configuration and a change are %+v, want %+v", got, whole)
	}
	b.put(&config.Config{Revision: 3})
	b.put(&config.Delta{Base: 7, Revision: 8})
	if d, ok := b.next().(*config.Delta); !ok || d.Base != 7 || b.next() != nil {
		t.Errorf("a change of something else: %+v", d)
	}
}

func TestConversation(t *testing.T) {
	s, h := start(t)
	if info, err := os.Stat(s.o.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v, want 0600", info.Mode(), err)
	}
	f := dial(t, s)
	f.hello("gw-1", 5)
	c := h.next(t, "connected").c
	if c.Hello.Replica != "gw-1" || c.Hello.Generation != 5 || c.Hello.Weight != 2 || c.PID != os.Getpid() {
		t.Fatalf("connection is %+v", c)
	}
	for _, m := range []link.Message{
		&exchange.Claims{Withdrawn: []uint64{3}},
		&link.Heartbeat{Revision: 8, Refused: 9, Reason: "no"},
		&link.Refused{Revision: 8, Total: 3, Limits: []config.LeftOut{{Tenant: "acme", Limit: "l"}}},
		&exchange.Names{Identities: []string{"ip"}},
		&exchange.Report{Limits: []exchange.LimitCounts{{Tenant: "acme", Limit: "l"}}},
		&exchange.Decisions{List: []exchange.Decision{{Request: "r-1", Tenant: "acme"}}},
		&exchange.Spent{Keys: []exchange.KeySpent{{Key: 3}}},
	} {
		f.say(m)
		if got := h.next(t, "received").m; !reflect.DeepEqual(got, m) {
			t.Fatalf("received %+v, want %+v", got, m)
		}
	}
	c.Send(&config.Config{Revision: 4, Seed: 1})
	if c, ok := f.hear().(*config.Config); !ok || c.Revision != 4 {
		t.Fatalf("got %+v", c)
	}
	h.next(t, "config sent")
	f.Close()
	if h.next(t, "disconnected").c != c {
		t.Fatal("another connection ended")
	}
	if got := s.Stats(); got != (Stats{Accepted: 1}) {
		t.Fatalf("stats %+v", got)
	}
}

func TestMailboxKeepsTheLatestInOrder(t *testing.T) {
	b := mailbox{wake: make(chan struct{}, 1)}
	b.put(&exchange.Sums{Full: true, Replicas: 1})
	b.put(&exchange.Shares{Epoch: 1})
	b.put(&config.Config{Revision: 1})
	b.put(&exchange.Sums{Full: true, Replicas: 2})
	if c, ok := b.next().(*config.Config); !ok || c.Revision != 1 {
		t.Fatal("the configuration comes first")
	}
	if _, ok := b.next().(*exchange.Shares); !ok {
		t.Fatal("the shares come second")
	}
	if s, ok := b.next().(*exchange.Sums); !ok || s.Replicas != 2 {
		t.Fatal("the newer sums replace the older")
	}
	if b.next() != nil {
		t.Fatal("nothing is left")
	}
}

// Sums that are only what has changed do not replace sums that are not sent yet.
func TestMailboxAddsUpChanges(t *testing.T) {
	b := mailbox{wake: make(chan struct{}, 1)}
	b.put(&exchange.Sums{Full: true, Replicas: 2, Keys: []exchange.KeySum{{Key: 1}, {Key: 2}, {Key: 3}}})
	b.put(&exchange.Sums{Replicas: 2, Keys: []exchange.KeySum{{Key: 2, Claims: 5}}, Gone: []uint64{3}})
	b.put(&exchange.Sums{Replicas: 3, Keys: []exchange.KeySum{{Key: 3, Claims: 6}}})
	want := &exchange.Sums{Full: true, Replicas: 3, Keys: []exchange.KeySum{{Key: 1}, {Key: 2, Claims: 5},
		{Key: 3, Claims: 6}}, Gone: []uint64{}}
	if got := b.next(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v waits, want %+v", got, want)
	}
}

// More keys than fit into a message travel in several.
func TestLongSumsAreCut(t *testing.T) {
	s, h := start(t)
	f := dial(t, s)
	f.hello("gw", 1)
	long := &exchange.Sums{Full: true, Replicas: 2, Keys: make([]exchange.KeySum, 4*link.MaxRecords)}
	h.next(t, "connected").c.Send(long)
	defer f.live()()
	for n := range 4 {
		m, ok := f.hear().(*exchange.Sums)
		if !ok || len(m.Keys) != link.MaxRecords || m.Full != (n == 0) || m.More != (n < 3) {
			t.Fatalf("part %d has %d keys, full %v, more %v", n, len(m.Keys), m.Full, m.More)
		}
	}
}

// A filter that does not read holds nobody up: Send returns, others are served.
func TestStuckFilterBlocksNobody(t *testing.T) {
	s, h := start(t)
	stuck := dial(t, s)
	stuck.hello("stuck", 1)
	g := h.next(t, "connected").c
	for range 64 {
		g.Send(&exchange.Shares{Flows: make([]exchange.Share, 1<<16)})
	}
	f := dial(t, s)
	f.hello("well", 1)
	other := h.next(t, "connected").c
	other.Send(&exchange.Sums{Replicas: 3})
	if m, ok := f.hear().(*exchange.Sums); !ok || m.Replicas != 3 {
		t.Fatalf("got %+v", m)
	}
}

func TestMalformedClosesThatConnectionOnly(t *testing.T) {
	s, h := start(t)
	good, bad := dial(t, s), dial(t, s)
	good.hello("good", 1)
	h.next(t, "connected")
	bad.hello("bad", 1)
	h.next(t, "connected")
	if _, err := bad.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if e := h.next(t, "disconnected"); e.c.Hello.Replica != "bad" {
		t.Fatalf("%s ended", e.c.Hello.Replica)
	}
	good.say(&link.Heartbeat{Sequence: 1})
	h.next(t, "received")
	if got := s.Stats(); got.Malformed != 1 || got.Open != 1 {
		t.Fatalf("stats %+v", got)
	}
}

func TestRefusals(t *testing.T) {
	s, _ := start(t)
	for name, m := range map[string]link.Message{
		"no hello":    &link.Heartbeat{},
		"far version": &link.Hello{Version: link.Version + 2, Replica: "x"},
	} {
		f := dial(t, s)
		f.say(m)
		if _, err := f.r.Next(); err != io.EOF {
			t.Errorf("%s: %v, want EOF", name, err)
		}
	}
	f := dial(t, s)
	f.hello("x", 1)
	f.say(&config.Config{}) // only agents send one
	if _, err := f.r.Next(); err != io.EOF {
		t.Errorf("config from a filter: %v, want EOF", err)
	}
}

// A connection is closed by its number.
func TestCloseConn(t *testing.T) {
	s, h := start(t)
	first, second := dial(t, s), dial(t, s)
	first.hello("gw", 1)
	c := h.next(t, "connected").c
	second.hello("gw", 1)
	h.next(t, "connected")
	s.CloseConn(c.Number)
	s.CloseConn(c.Number + 9) // never opened
	if e := h.next(t, "disconnected"); e.c != c {
		t.Fatal("another connection was closed")
	}
	if _, err := first.r.Next(); err != io.EOF {
		t.Fatalf("%v, want EOF", err)
	}
	if got := s.Stats().Open; got != 1 {
		t.Fatalf("%d open, want 1", got)
	}
}

func TestSocketInTheWay(t *testing.T) {
	s, _ := start(t)
	log := slog.New(slog.DiscardHandler)
	if _, err := Listen(Options{Path: s.o.Path, Log: log}, nil); err == nil ||
		!strings.Contains(err.Error(), "another agent") {
		t.Errorf("living socket: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Options{Path: file, Log: log}, nil); err == nil ||
		!strings.Contains(err.Error(), "not a socket") {
		t.Errorf("plain file: %v", err)
	}
	if _, err := Listen(Options{Path: filepath.Join(t.TempDir(), "no", "dir"), Log: log}, nil); err == nil ||
		!strings.Contains(err.Error(), "make it") {
		t.Errorf("missing directory: %v", err)
	}
	stale := filepath.Join(t.TempDir(), "stale")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	again, err := Listen(Options{Path: stale, Log: log}, nil)
	if err != nil {
		t.Fatalf("stale socket: %v", err)
	}
	again.Close()
}

func TestPermit(t *testing.T) {
	for _, c := range []struct {
		uid, own int
		ok       bool
	}{{0, 1000, true}, {1000, 1000, true}, {1001, 1000, false}, {1, 0, false}} {
		if err := checkUser(c.uid, c.own); (err == nil) != c.ok {
			t.Errorf("user %d with an agent of %d: %v", c.uid, c.own, err)
		}
	}
}

// A path that no Unix socket can have is said to be too long, not "invalid".
func TestSocketPathTooLong(t *testing.T) {
	path := "/" + strings.Repeat("a", longestPath)
	if _, err := listen(path, ""); err == nil || !strings.Contains(err.Error(), "108 bytes") ||
		!strings.Contains(err.Error(), "--socket") {
		t.Errorf("%v", err)
	}
	if _, err := listen("", ""); err == nil {
		t.Error("no path at all")
	}
}
