// Package uplink is the filter's end of the link to the agent beside it.
//
// # Model
//
// One goroutine dials the agent's Unix socket, for ever, with a backoff that
// ends at one second. On each connection the two Hellos fix the version; then
// one goroutine hands what the agent says to the engine (configuration, shares,
// sums), and another writes what the engine has to tell: claims every 50 ms if
// there are any, a report every 250 ms, a heartbeat every second and whenever a
// configuration was taken or refused. All of it is state, except reports, which
// the engine adds up until one is taken; so a lost connection loses at most the
// report that was being written.
//
// # Invariants
//
//   - No request ever waits for the link: the engine's data path is called by
//     nobody here, and a peer that does not read is cut off after [link.DeadAfter].
//   - With the agent gone the engine goes on with what it last knew, and the other
//     replicas are taken to go on as they last claimed: see adrift.
//   - A configuration that the engine refuses leaves the old one in force; the
//     heartbeat tells the agent which revision was refused, and why.
//   - Malformed bytes end the connection, nothing else.
package uplink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
)

const (
	claimsEvery = limiter.DefaultPeriod
	reportEvery = 250 * time.Millisecond
	dialTimeout = time.Second
	minBackoff  = 20 * time.Millisecond
	maxBackoff  = time.Second
	// longestWhy bounds each text about one limit that is left out, so that MaxRefused
	// of them are within a message's bound.
	longestWhy = 256
	// longestReason keeps a refusal within a heartbeat's bound.
	longestReason = 1024
)

// Options are fixed for a client's life.
type Options struct {
	// Socket is the path of the agent's Unix socket.
	Socket string
	// Hello introduces this process; its Version is filled in.
	Hello link.Hello
	// Engine is told what the agent says and asked what to tell.
	Engine *limiter.Engine
	// Now is the engine's clock, in nanoseconds.
	Now func() int64
	// Contain is deferred by each goroutine to recover a panic.
	Contain func(where string)
	// Log takes what an operator must know: the link's ups and downs,
	// refused configurations.
	Log func(text string)
}

// Status is what the client knows of the link. Safe for concurrent use.
type Status struct {
	Connected atomic.Bool
	// Revision of the configuration in force, 0 before the first.
	Revision atomic.Int64
	// LeftOut is the number of limits of the configuration in force that are not
	// enforced, see [Client.LeftOutLimits].
	LeftOut atomic.Int64
	// Sessions counts connections on which both Hellos were exchanged,
	// Malformed those that ended by malformed bytes, Refused the refused
	// configurations.
	Sessions, Malformed, Refused atomic.Uint64
}

// Client keeps the link. Create it with New.
type Client struct {
	Status
	o       Options
	refusal atomic.Pointer[refusal]
	leftOut atomic.Pointer[link.Refused] // of the configuration in force
	claims  exchange.Claims
	report  exchange.Report

	ready   chan struct{} // closed by the first configuration with sums
	settled sync.Once
	// Of listen: what was spent before this process has been told, or a configuration
	// without it; a configuration is in force; sums were heard.
	inherited, configured, summed bool

	finishing chan struct{} // closed by Finish
	finish    sync.Once
	finished  chan struct{} // closed when the last word was written

	adrift   adrift
	withheld []uint64 // guarded by adrift.mu
}

type refusal struct {
	revision int64
	reason   string
}

// Refusal is the configuration that was refused last and not replaced since, and
// why; 0 is none.
func (c *Client) Refusal() (revision int64, reason string) {
	if r := c.refusal.Load(); r != nil {
		return r.revision, r.reason
	}
	return 0, ""
}

// New returns a client that has not dialled yet.
func New(o Options) *Client {
	o.Hello.Version = link.Version
	return &Client{o: o, ready: make(chan struct{}), finishing: make(chan struct{}), finished: make(chan struct{})}
}

// Run keeps the link up until the context ends.
func (c *Client) Run(ctx context.Context) {
	var standIn sync.WaitGroup
	defer standIn.Wait()
	standIn.Go(func() { c.drift(ctx) })
	backoff, quiet := minBackoff, false
	for ctx.Err() == nil {
		greeted, err := c.once(ctx)
		c.Connected.Store(false)
		if ctx.Err() != nil {
			return
		}
		if greeted || !quiet {
			c.o.Log(fmt.Sprintf("titrate: no link to the agent at %s, going on with what is known: %v", c.o.Socket, err))
		}
		if quiet = true; greeted {
			backoff = minBackoff
		}
		select {
		case <-ctx.Done():
		case <-c.finishing: // without a link there is nobody to tell
			return
		case <-time.After(backoff/2 + rand.N(backoff/2)):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// once is one connection's life. greeted: both Hellos were exchanged.
func (c *Client) once(ctx context.Context) (greeted bool, err error) {
	defer c.o.Contain("the link")
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", c.o.Socket)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	w := link.NewWriter(deadline{conn})
	r := link.NewReader(link.Alive(conn, link.DeadAfter))
	version, err := c.greet(r, w)
	if err != nil {
		return false, c.note(err)
	}
	c.Sessions.Add(1)
	c.Connected.Store(true)
	c.o.Log("titrate: linked to the agent at " + c.o.Socket)
	ended := make(chan struct{})
	writer := make(chan struct{})
	go func() {
		defer close(writer)
		defer conn.Close() // wakes the reader
		defer c.o.Contain("the link's writer")
		c.tell(w, version, ended)
	}()
	defer func() { // also of a panic: the next session has a writer of its own
		close(ended)
		conn.Close()
		<-writer
	}()
	greeted, err = true, errPanic
	err = c.note(c.listen(r))
	return greeted, err
}

// errPanic is why a session ended when nothing else is said.
var errPanic = errors.New("a panic was recovered")

// note counts the connections that malformed bytes ended.
func (c *Client) note(err error) error {
	var format *link.FormatError
	if errors.As(err, &format) {
		c.Malformed.Add(1)
	}
	return err
}

func (c *Client) greet(r *link.Reader, w *link.Writer) (version uint8, err error) {
	if err := w.Write(&c.o.Hello); err != nil {
		return 0, fmt.Errorf("uplink: say hello: %w", err)
	}
	m, err := r.Next()
	if err != nil {
		return 0, fmt.Errorf("uplink: hear the agent's hello: %w", err)
	}
	hello, ok := m.(*link.Hello)
	if !ok {
		return 0, fmt.Errorf("uplink: the agent began with %T, a Hello is needed", m)
	}
	if version, err = link.Negotiate(hello.Version); err != nil {
		return 0, err
	}
	w.SetVersion(version)
	return version, nil
}

// listen hands what the agent says to the engine until the link ends.
func (c *Client) listen(r *link.Reader) error {
	for {
		m, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("the agent closed the link")
			}
			return err
		}
		switch m := m.(type) {
		case *config.Config:
			c.configure(m)
		case *exchange.Shares:
			c.o.Engine.SetShares(m) // which refuses an older epoch
		case *exchange.Sums:
			now := c.o.Now()
			c.adrift.hear(now, m)
			c.o.Engine.SetSums(now, m)
			c.summed = true
			c.settle()
		case *exchange.Spent:
			c.inherit(m)
		case *link.Heartbeat, *link.Hello:
		default:
			return fmt.Errorf("uplink: an agent does not send %T", m)
		}
	}
}

func (c *Client) configure(m *config.Config) {
	left := m.LeaveOut()
	if err := c.o.Engine.Apply(m); err != nil {
		c.Refused.Add(1)
		c.refusal.Store(&refusal{m.Revision, clip(err.Error(), longestReason)})
		c.o.Log(fmt.Sprintf("titrate: configuration revision %d refused, revision %d stays in force: %v",
			m.Revision, c.Revision.Load(), err))
		return
	}
	c.refusal.Store(nil)
	c.inherited, c.configured = true, true
	defer c.settle()
	c.Revision.Store(m.Revision)
	c.leaveOut(m.Revision, left)
}

// leaveOut notes what is not enforced of the configuration in force.
func (c *Client) leaveOut(revision int64, left []config.LeftOut) {
	r := &link.Refused{Revision: revision, Total: len(left)}
	for _, l := range left[:min(len(left), link.MaxRefused)] {
		r.Limits = append(r.Limits, config.LeftOut{Tenant: clip(l.Tenant, longestWhy), Limit: clip(l.Limit, longestWhy),
			Reason: clip(l.Reason, longestWhy)})
	}
	c.LeftOut.Store(int64(len(left)))
	c.leftOut.Store(r)
	if len(left) > 0 {
		c.o.Log(fmt.Sprintf("titrate: %d limits of configuration revision %d are not enforced; the first is %q of tenant %q: %v",
			len(left), revision, left[0].Limit, left[0].Tenant, left[0].Reason))
	}
}

// LeftOutLimits lists what of the configuration in force is not enforced, nil
// before the first configuration.
func (c *Client) LeftOutLimits() *link.Refused { return c.leftOut.Load() }

func clip(s string, most int) string { return s[:min(len(s), most)] }

// Ready is closed once the first configuration is in force, with what the agent
// knows of clients and of other replicas.
func (c *Client) Ready() <-chan struct{} { return c.ready }

func (c *Client) settle() {
	if c.configured && c.summed {
		c.settled.Do(func() { close(c.ready) })
	}
}

// inherit takes over what the process before this one let its clients spend. Later
// words are of this process itself, after a link that was lost.
func (c *Client) inherit(m *exchange.Spent) {
	if c.inherited {
		return
	}
	c.inherited = true
	now := c.o.Now()
	for _, k := range m.Keys {
		c.o.Engine.Inherit(now, k)
	}
	c.o.Log(fmt.Sprintf("titrate: the agent remembers what %d keys have spent", len(m.Keys)))
}

func (c *Client) heartbeat(sequence uint64) *link.Heartbeat {
	h := &link.Heartbeat{Sequence: sequence, Revision: c.Revision.Load()}
	if r := c.refusal.Load(); r != nil {
		h.Refused, h.Reason = r.revision, r.reason
	}
	return h
}

// deadline gives each write of a message DeadAfter to be taken.
type deadline struct{ net.Conn }

func (d deadline) Write(b []byte) (int, error) {
	if err := d.SetWriteDeadline(time.Now().Add(link.DeadAfter)); err != nil {
		return 0, err
	}
	return d.Conn.Write(b)
}
