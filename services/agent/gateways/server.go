package gateways

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	"golang.org/x/time/rate"
)

// maxGateways bounds the connections at once: a host runs a few Envoys, two
// processes each during a hot restart.
const maxGateways = 128

// Handler takes what gateways say. For one gateway the calls come in order from
// one goroutine: Joined, any number of Heard, Left; for several at once.
type Handler interface {
	// Joined: the Hellos are exchanged, Send works.
	Joined(g *Gateway)
	// Heard brings *Claims, *Report, *Refused, *Spent or *Heartbeat.
	Heard(g *Gateway, m link.Message)
	// Left: the connection is gone, for whatever reason.
	Left(g *Gateway)
}

// Options of a Server.
type Options struct {
	Path       string // of the Unix socket
	Agent      string // name, told to filters
	Generation uint64 // of the agent's process
	Log        *slog.Logger
}

// Stats are cumulative counters but for Open.
type Stats struct {
	Open      int    // connections now
	Accepted  uint64 // connections that exchanged Hellos
	Refused   uint64 // credentials, versions, missing Hellos, too many
	Malformed uint64 // connections closed for malformed bytes
}

// Server serves the link.
type Server struct {
	o        Options
	h        Handler
	listener *net.UnixListener
	grumble  rate.Sometimes // a mad client must not flood the log

	mu   sync.Mutex
	open map[*Gateway]struct{}

	accepted, refused, malformed atomic.Uint64
}

// Listen opens the socket. Errors say what is in the way.
func Listen(o Options, h Handler) (*Server, error) {
	l, err := listen(o.Path)
	if err != nil {
		return nil, err
	}
	return &Server{o: o, h: h, listener: l, open: map[*Gateway]struct{}{},
		grumble: rate.Sometimes{First: 5, Interval: 10 * time.Second}}, nil
}

// Close closes a server that Serve was not called on.
func (s *Server) Close() error { return s.listener.Close() }

// Serve accepts gateways until ctx ends, then closes all and waits for their
// handlers. It returns an error only if the socket failed before.
func (s *Server) Serve(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	slots := make(chan struct{}, maxGateways)
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if !transient(ctx, err) {
				return fmt.Errorf("gateways: accept on %s: %w", s.o.Path, err)
			}
			continue
		}
		select {
		case slots <- struct{}{}:
			all.Go(func() {
				defer func() { <-slots }()
				s.serve(ctx, conn)
			})
		default:
			s.refuse(conn, fmt.Errorf("gateways: %d connections are open, no more are taken", maxGateways))
			conn.Close()
		}
	}
}

// transient waits a little after an accept that may work later (no descriptors
// left), and tells a closed socket from it.
func transient(ctx context.Context, err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
	return true
}

func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r := link.NewReader(link.Alive(conn, link.DeadAfter))
	g, version, err := s.greet(conn, r)
	if err != nil {
		s.refuse(conn, err)
		return
	}
	w := link.NewWriter(patient{conn})
	hello := &link.Hello{Version: link.Version, Replica: s.o.Agent, Generation: s.o.Generation, PID: os.Getpid(), Weight: 1}
	if err := w.Write(hello); err != nil {
		s.refuse(conn, err)
		return
	}
	w.SetVersion(version)
	s.run(ctx, g, r, w)
}

// greet checks who connects and reads its Hello.
func (s *Server) greet(conn *net.UnixConn, r *link.Reader) (*Gateway, uint8, error) {
	pid, err := authenticate(conn)
	if err != nil {
		return nil, 0, err
	}
	late := time.AfterFunc(link.HelloTimeout, func() { conn.Close() })
	defer late.Stop()
	m, err := r.Next()
	if err != nil {
		return nil, 0, err
	}
	hello, ok := m.(*link.Hello)
	if !ok {
		return nil, 0, fmt.Errorf("gateways: the first message is a %T, want a Hello", m)
	}
	version, err := link.Negotiate(hello.Version)
	if err != nil {
		return nil, 0, err
	}
	g := &Gateway{hello: *hello, version: version, pid: pid, since: time.Now(), conn: conn}
	g.box.wake = make(chan struct{}, 1)
	return g, version, nil
}

// run is a gateway's life between the Hellos and the end.
func (s *Server) run(ctx context.Context, g *Gateway, r *link.Reader, w *link.Writer) {
	s.enter(g)
	s.h.Joined(g)
	ctx, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() { s.write(ctx, g, w) })
	err := s.read(g, r)
	cancel()
	g.conn.Close()
	writer.Wait()
	s.mu.Lock()
	delete(s.open, g)
	s.mu.Unlock()
	s.h.Left(g)
	log := s.o.Log.With("gateway", g.Replica(), "generation", g.Generation())
	if malformed := new(link.FormatError); errors.As(err, &malformed) {
		s.malformed.Add(1)
		s.grumble.Do(func() { log.Warn("gateway closed: it sent malformed bytes", "error", err) })
		return
	}
	log.Info("gateway left", "reason", err)
}

// enter registers g; an older connection of the same process is dead and goes.
func (s *Server) enter(g *Gateway) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.open {
		if o.Replica() == g.Replica() && o.Generation() == g.Generation() {
			o.Close()
		}
	}
	s.open[g] = struct{}{}
	s.accepted.Add(1)
	s.o.Log.Info("gateway joined", "gateway", g.Replica(), "generation", g.Generation(), "pid", g.PID(), "envoy", g.Envoy())
}

func (s *Server) read(g *Gateway, r *link.Reader) error {
	for {
		m, err := r.Next()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *link.Heartbeat:
			g.heard(m)
			s.h.Heard(g, m)
		case *link.Refused:
			g.out.Store(m)
			s.h.Heard(g, m)
		case *exchange.Names:
			g.names.Store(m)
		case *exchange.Claims, *exchange.Report, *exchange.Spent:
			s.h.Heard(g, m)
		default:
			return &link.FormatError{Message: fmt.Sprintf("%T", m), Reason: "a filter does not send this after its Hello"}
		}
	}
}

// write empties the mailbox until ctx ends. A message that cannot be encoded is
// skipped, and a configuration then counts as refused; a failure of the stream
// closes it, which ends read.
func (s *Server) write(ctx context.Context, g *Gateway, w *link.Writer) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.box.wake:
		}
		for m := g.box.take(); m != nil; m = g.box.take() {
			err := g.write(w, m)
			if err == nil {
				continue
			}
			s.o.Log.Warn("writing to a gateway failed", "gateway", g.Replica(), "message", fmt.Sprintf("%T", m), "error", err)
			if broken := new(net.OpError); errors.As(err, &broken) {
				g.conn.Close()
				return
			}
		}
	}
}

// write writes one message, a configuration in the form that the filter's version
// has.
func (g *Gateway) write(w *link.Writer, m link.Message) error {
	c, ok := m.(*config.Config)
	if !ok {
		return w.Write(m)
	}
	if g.version < 2 {
		c = c.Inherited()
	}
	err := w.Write(c)
	if err == nil {
		g.unsent.Store(nil)
	} else {
		g.unsent.Store(&link.Heartbeat{Refused: c.Revision, Reason: "the agent cannot send it: " + err.Error()})
	}
	return err
}

func (s *Server) refuse(conn net.Conn, err error) {
	if errors.Is(err, io.EOF) {
		return // somebody looked whether the socket is in use
	}
	s.refused.Add(1)
	if malformed := new(link.FormatError); errors.As(err, &malformed) {
		s.malformed.Add(1)
	}
	s.grumble.Do(func() { s.o.Log.Warn("connection refused", "socket", s.o.Path, "error", err) })
	conn.Close()
}

// Each calls f for every gateway that is connected now.
func (s *Server) Each(f func(*Gateway)) {
	s.mu.Lock()
	all := make([]*Gateway, 0, len(s.open))
	for g := range s.open {
		all = append(all, g)
	}
	s.mu.Unlock()
	for _, g := range all {
		f(g)
	}
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.open)
	s.mu.Unlock()
	return Stats{Open: open, Accepted: s.accepted.Load(), Refused: s.refused.Load(), Malformed: s.malformed.Load()}
}
