package linkserver

import (
	"bufio"
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

const (
	// maxGateways bounds the connections at once: a host runs a few Envoys, two processes each during a hot restart.
	maxGateways = 128
	// maxOfProcess bounds those of one process, so that it cannot keep others out. A filter has one, and a second
	// one for a moment. Processes that the kernel does not name, of other containers, count as one of maxGateways.
	maxOfProcess = 32
	// maxName bounds a gateway's name in bytes: other agents take no longer one. The filter's own bound is 253.
	maxName = 256
)

// Handler takes the events of connections. For one connection the calls come in order from one goroutine: Connected,
// any number of Received, Disconnected; ConfigSent comes from another one.
type Handler interface {
	// Connected: the Hellos are exchanged, Send works.
	Connected(c *Conn)
	// Received brings *Claims in parts, *Report, *Refused, *Names, *Decisions, *Spent or *Heartbeat, one after the
	// other. *TokenRequests, *SlotAsks and *QuotaAsks may come at the same time.
	Received(c *Conn, m link.Message)
	// ConfigSent: a configuration or a change was written, or could not be encoded.
	ConfigSent(c *Conn, revision int64, err error)
	// Disconnected: the connection is gone, for whatever reason.
	Disconnected(c *Conn)
}

// Options of a Server.
type Options struct {
	Path       string // of the Unix socket
	Group      string // name or number of a group whose processes may connect, too; "": none
	Agent      string // name, for the Hello to filters
	Generation uint64 // of the agent's process
	Log        *slog.Logger
	Clock      func() config.Instant // the coordinators' time of day, for the Hello; nil: not known
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
	logLimit rate.Sometimes // a client in a loop must not flood the log
	comings  *rate.Limiter  // the same of lines about gateways that come and go

	mu   sync.Mutex
	open map[uint64]*Conn // by Number
	of   map[int]*caller  // by process

	numbers, accepted, refused, malformed atomic.Uint64
}

// Listen opens the socket. Errors say what is in the way.
func Listen(o Options, h Handler) (*Server, error) {
	l, err := listen(o.Path, o.Group)
	if err != nil {
		return nil, err
	}
	return &Server{o: o, h: h, listener: l, open: map[uint64]*Conn{}, of: map[int]*caller{},
		logLimit: rate.Sometimes{First: 5, Interval: 10 * time.Second},
		comings:  rate.NewLimiter(rate.Every(time.Second), 256)}, nil
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
				return fmt.Errorf("linkserver: accept on %s: %w", s.o.Path, err)
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
			s.refuse(conn, fmt.Errorf("linkserver: %d connections are open, no more are taken", maxGateways))
			conn.Close()
		}
	}
}

// transient waits a little after an accept that may work later (no descriptors
// left), and returns false for a closed socket.
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
	pid, err := s.admit(conn)
	if err != nil {
		s.refuse(conn, err)
		return
	}
	defer s.left(pid)
	r := link.NewAgentReader(link.Alive(conn, link.DeadAfter))
	c, err := s.greet(conn, r)
	if err != nil {
		s.refuse(conn, err)
		return
	}
	c.PID = pid
	out := bufio.NewWriterSize(deadlineWriter{conn}, writeAtOnce)
	w := link.NewWriter(out)
	hello := &link.Hello{Version: link.Version, Replica: s.o.Agent, Generation: s.o.Generation, PID: os.Getpid(),
		Weight: 1, Decisions: true, Tokens: true, Slots: true, Quotas: true}
	if s.o.Clock != nil {
		hello.Clock = s.o.Clock()
	}
	if err := errors.Join(w.Write(hello), out.Flush()); err != nil {
		s.refuse(conn, err)
		return
	}
	w.SetVersion(c.Hello.Version)
	s.run(ctx, c, r, sink{w, out})
}

// writeAtOnce is the number of bytes to a filter that are gathered before they are written.
const writeAtOnce = 32 << 10

// sink gathers messages to a filter and writes them at once, which wakes the filter once.
type sink struct {
	*link.Writer
	out *bufio.Writer
}

// greet reads the Hello.
func (s *Server) greet(conn *net.UnixConn, r *link.Reader) (*Conn, error) {
	late := time.AfterFunc(link.HelloTimeout, func() { conn.Close() })
	defer late.Stop()
	m, err := r.Next()
	if err != nil {
		return nil, err
	}
	hello, ok := m.(*link.Hello)
	if !ok {
		return nil, fmt.Errorf("linkserver: the first message is a %T, want a Hello", m)
	}
	if err := checkName(hello.Replica); err != nil {
		return nil, err
	}
	c := &Conn{Number: s.numbers.Add(1), Hello: *hello, conn: conn}
	c.box.wake = make(chan struct{}, 1)
	c.Hello.Version, err = link.Negotiate(hello.Version)
	return c, err
}

// run serves a connection from its Hellos to its end.
func (s *Server) run(ctx context.Context, c *Conn, r *link.Reader, w sink) {
	log := s.o.Log.With("gateway", c.Hello.Replica, "generation", c.Hello.Generation)
	s.mu.Lock()
	s.open[c.Number] = c
	s.mu.Unlock()
	s.accepted.Add(1)
	tell := s.comings.Allow()
	if tell {
		log.Info("gateway connected", "pid", c.PID, "envoy", c.Hello.Envoy)
	}
	s.h.Connected(c)
	ctx, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() { s.write(ctx, c, w) })
	err := s.read(ctx, c, r)
	cancel()
	c.conn.Close()
	writer.Wait()
	s.mu.Lock()
	delete(s.open, c.Number)
	s.mu.Unlock()
	s.h.Disconnected(c)
	if malformed := new(link.FormatError); errors.As(err, &malformed) {
		s.malformed.Add(1)
		s.logLimit.Do(func() { log.Warn("gateway closed: it sent malformed bytes", "error", err) })
		return
	}
	if tell {
		log.Info("gateway disconnected", "reason", err)
	}
}

func (s *Server) read(ctx context.Context, c *Conn, r *link.Reader) error {
	to := s.newLane(ctx, c)
	defer to.close()
	for {
		m, err := r.Next()
		if err != nil {
			return err
		}
		switch m.(type) {
		case *link.Heartbeat, *link.Refused, *exchange.Names, *exchange.Claims, *exchange.Report, *exchange.Decisions,
			*exchange.Spent, *exchange.TokenRequests, *exchange.SlotAsks, *exchange.QuotaAsks:
			err = to.take(ctx, m)
		default:
			return &link.FormatError{Message: fmt.Sprintf("%T", m),
				Reason: "a filter does not send this after its Hello"}
		}
		if err != nil {
			return err
		}
	}
}

// write empties the mailbox until ctx ends. A message that cannot be encoded is skipped; a
// failure of the stream closes it, which ends read.
func (s *Server) write(ctx context.Context, c *Conn, w sink) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.box.wake:
		}
		for m := c.box.next(); m != nil; m = c.box.next() {
			if err := s.writeOne(c, w, m); err != nil && s.writeFailed(c, fmt.Sprintf("%T", m), err) {
				return
			}
		}
		if err := w.out.Flush(); err != nil && s.writeFailed(c, "all that waited", err) {
			return
		}
	}
}

// writeFailed logs that a message was not written, and closes the connection if that is broken.
func (s *Server) writeFailed(c *Conn, what string, err error) (broken bool) {
	s.logLimit.Do(func() {
		s.o.Log.Warn("writing to a gateway failed", "gateway", c.Hello.Replica, "message", what, "error", err)
	})
	if op := new(net.OpError); errors.As(err, &op) {
		c.conn.Close()
		return true
	}
	return false
}

// writeOne writes one message, and calls the handler after a configuration.
func (s *Server) writeOne(c *Conn, w sink, m link.Message) error {
	var revision int64
	switch m := m.(type) {
	case *exchange.Sums:
		return writeAll(w.Writer, m.Parts(link.MaxRecords))
	case *exchange.TokenAnswers:
		return writeAll(w.Writer, m.Parts(link.MaxTokens))
	case byOwner[*exchange.SlotReplies]:
		return m.write(w.Writer)
	case byOwner[*exchange.QuotaReplies]:
		return m.write(w.Writer)
	case *config.Config:
		revision = m.Revision
	case *config.Delta:
		revision = m.Revision
	default:
		return w.Write(m)
	}
	err := errors.Join(w.Write(m), w.out.Flush())
	s.h.ConfigSent(c, revision, err)
	return err
}

// writeAll writes the parts of a message.
func writeAll[M link.Message](w *link.Writer, parts []M) error {
	for _, part := range parts {
		if err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) refuse(conn net.Conn, err error) {
	if errors.Is(err, io.EOF) {
		return // somebody looked whether the socket is in use
	}
	s.refused.Add(1)
	if malformed := new(link.FormatError); errors.As(err, &malformed) {
		s.malformed.Add(1)
	}
	s.logLimit.Do(func() { s.o.Log.Warn("connection refused", "socket", s.o.Path, "error", err) })
	conn.Close()
}

// Send sends a message to the connection of that number, if it is open, see [Conn.Send].
func (s *Server) Send(number uint64, m link.Message) {
	if c := s.conn(number); c != nil {
		c.Send(m)
	}
}

// CloseConn closes the connection of that number, if it is open.
func (s *Server) CloseConn(number uint64) {
	if c := s.conn(number); c != nil {
		c.Close()
	}
}

func (s *Server) conn(number uint64) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[number]
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.open)
	s.mu.Unlock()
	return Stats{Open: open, Accepted: s.accepted.Load(), Refused: s.refused.Load(), Malformed: s.malformed.Load()}
}
