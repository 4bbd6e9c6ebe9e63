// Package filter is a synthetic gateway: the filter's side of the link, without an Envoy and without a limiter.
// It speaks the real protocol with a real agent. A [workload.Gateway] has its claims and the sums that it
// receives.
//
// Like the real filter it connects again when the link has failed, with a backoff of at most a second. It then
// reports that it had an agent before, and repeats all its claims. Meanwhile its clients' requests go on.
package filter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/e2e/fleet/workload"
	"github.com/titrate/titrate/proto/link"
)

// Options of a gateway.
type Options struct {
	// Socket is the agent's, Name the gateway's.
	Socket, Name string
	// Pool is shared by Tenants. The gateway reports for each tenant the demand Demand, cost units/s, and that
	// the part of the share was served.
	Pool    string
	Tenants []string
	Demand  float64
	// Start is time 0 of the fleet.
	Start time.Time
	// Patience is the longest time that the gateway may be without a link.
	Patience time.Duration
}

// The pauses between two attempts to connect, as in the real filter: a random half is taken off.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// Filter is a gateway that keeps a link.
type Filter struct {
	o       Options
	gateway *workload.Gateway
	hello   link.Hello

	closing context.Context // done: connect no more
	close   context.CancelFunc
	quiet   chan struct{} // closed: send nothing more
	end     sync.Once     // of quiet
	keeping sync.WaitGroup
	sending sync.WaitGroup

	mu      sync.Mutex
	session *session  // nil: there is no link
	down    time.Time // since when
	why     error     // the last attempt failed, or the last link ended
	links   int       // so far
	before  Traffic   // of the links before this one

	reported time.Time
}

// session is one link.
type session struct {
	conn     *counted
	writing  sync.Mutex
	w        *link.Writer
	revision atomic.Int64   // of the configuration
	config   *config.Config // of the reading goroutine
}

// Traffic are the bytes that have passed over the link.
type Traffic struct{ In, Out int64 }

// Connect links a gateway with its agent, and keeps it linked. It is there from now on.
func Connect(o Options, g *workload.Gateway) (*Filter, error) {
	f := &Filter{o: o, gateway: g, quiet: make(chan struct{}), down: time.Now(),
		hello: link.Hello{Version: link.Version, Replica: o.Name, Generation: uint64(time.Now().UnixNano()),
			PID: os.Getpid(), Weight: 1}}
	f.closing, f.close = context.WithCancel(context.Background())
	f.keeping.Go(f.keepLinked)
	if _, err := f.linked(); err != nil {
		f.Close()
		return nil, err
	}
	g.Set(workload.Present)
	f.sending.Go(f.live)
	return f, nil
}

// keepLinked connects whenever there is no link.
func (f *Filter) keepLinked() {
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		greeted, err := f.connect()
		if greeted {
			backoff = minBackoff
		}
		f.lost(greeted, err)
		select {
		case <-f.closing.Done():
			return
		case <-time.After(backoff/2 + rand.N(backoff/2)):
		}
	}
}

// connect runs one link until it ends. greeted: both Hellos were exchanged.
func (f *Filter) connect() (greeted bool, err error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: f.o.Socket, Net: "unix"})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(f.closing, func() { conn.Close() })()
	s := &session{conn: &counted{UnixConn: conn}}
	s.w = link.NewWriter(s.conn)
	r := link.NewReader(link.Alive(s.conn, link.DeadAfter))
	if err := s.greet(r, &f.hello); err != nil {
		return false, err
	}
	f.hello.Again = true
	f.gateway.Connected(f.now())
	f.mu.Lock()
	f.session = s
	f.links++
	f.mu.Unlock()
	return true, f.read(s, r)
}

// greet exchanges the Hellos and agrees on a version.
func (s *session) greet(r *link.Reader, hello *link.Hello) error {
	if err := s.write(hello); err != nil {
		return err
	}
	m, err := r.Next()
	if err != nil {
		return err
	}
	theirs, ok := m.(*link.Hello)
	if !ok {
		return fmt.Errorf("the agent begins with a %T, want a Hello", m)
	}
	version, err := link.Negotiate(theirs.Version)
	if err != nil {
		return err
	}
	s.w.SetVersion(version)
	return nil
}

// lost notes that there is no link, and why.
func (f *Filter) lost(was bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.why = err
	if was {
		f.before = f.traffic()
		f.session, f.down = nil, time.Now()
	}
}

// current is the link, nil without.
func (f *Filter) current() *session {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session
}

// linked waits for a link.
func (f *Filter) linked() (*session, error) {
	for {
		if s := f.current(); s != nil {
			return s, nil
		}
		if err := f.Err(); err != nil {
			return nil, err
		}
		time.Sleep(minBackoff)
	}
}

// Err returns an error if the gateway has had no link for longer than Patience.
func (f *Filter) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != nil || time.Since(f.down) <= f.o.Patience {
		return nil
	}
	return fmt.Errorf("gateway %s has had no link for %v: %w", f.o.Name, f.o.Patience,
		cmp.Or(f.why, errors.New("the agent has not answered its Hello")))
}

// Reconnects returns how often the gateway has connected again after its link had failed.
func (f *Filter) Reconnects() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(0, f.links-1)
}

// Traffic returns the bytes that have passed over the gateway's links so far.
func (f *Filter) Traffic() Traffic {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.traffic()
}

// traffic is Traffic under the lock.
func (f *Filter) traffic() Traffic {
	t := f.before
	if f.session != nil {
		t.In += f.session.conn.in.Load()
		t.Out += f.session.conn.out.Load()
	}
	return t
}

// now is the time of the fleet.
func (f *Filter) now() time.Duration { return time.Since(f.o.Start) }

// Withdraw withdraws all claims. The gateway is away from then on, and uses nothing more. The link stays: the
// agent sends others the withdrawals of a linked gateway. Close ends it.
func (f *Filter) Withdraw() error {
	f.stop()
	for {
		s, err := f.linked()
		if err != nil {
			return err
		}
		if s.writeClaims(f.gateway.Withdrawal()) == nil {
			return nil
		}
		s.conn.Close() // so that the next one comes
		time.Sleep(minBackoff)
	}
}

// Close ends the link without a word. An agent that lives counts the claims on, unless they
// were withdrawn.
func (f *Filter) Close() {
	f.stop()
	f.close()
	f.keeping.Wait()
}

// stop ends the gateway's periodic work. It is away from then on.
func (f *Filter) stop() {
	f.end.Do(func() { close(f.quiet) })
	f.sending.Wait()
	f.gateway.Set(workload.Away)
}

// live makes requests each period, linked or not, and sends the agent the messages that are due.
func (f *Filter) live() {
	tick := time.NewTicker(exchange.DefaultPeriod)
	defer tick.Stop()
	f.reported = time.Now()
	for n := 0; ; n++ {
		f.gateway.Work(f.now())
		if s := f.current(); s != nil && f.send(s, n) != nil {
			s.conn.Close() // wakes the reader, which connects again
		}
		select {
		case <-f.quiet:
			return
		case <-tick.C:
		}
	}
}

// send sends the messages that are due in the n-th period.
func (f *Filter) send(s *session, n int) error {
	const reports, beats = int(exchange.ReportEvery / exchange.DefaultPeriod),
		int(link.HeartbeatEvery / exchange.DefaultPeriod)
	if n%beats == 0 {
		if err := s.write(&link.Heartbeat{Sequence: uint64(n), Revision: s.revision.Load()}); err != nil {
			return err
		}
	}
	if c := f.gateway.Claims(f.now()); c != nil {
		if err := s.writeClaims(c); err != nil {
			return err
		}
	}
	if n%reports == 0 {
		return s.write(f.report())
	}
	return nil
}

// report sends the demand since the report before.
func (f *Filter) report() *exchange.Report {
	now := time.Now()
	r := &exchange.Report{Interval: now.Sub(f.reported)}
	f.reported = now
	amount := f.o.Demand * r.Interval.Seconds()
	for _, t := range f.o.Tenants {
		r.Flows = append(r.Flows, exchange.FlowReport{Tenant: t, Pool: f.o.Pool, Demand: amount,
			Served: amount / 2, Rejected: amount / 2, Limited: true})
	}
	return r
}

func (s *session) writeClaims(c *exchange.Claims) error {
	for _, part := range c.Parts(link.MaxRecords) {
		if err := s.write(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) write(m link.Message) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(link.DeadAfter)); err != nil {
		return err
	}
	return s.w.Write(m)
}

// read takes the agent's messages until the link ends.
func (f *Filter) read(s *session, r *link.Reader) error {
	for {
		m, err := r.Next()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *config.Config:
			s.config = m
			err = s.enforced()
		case *config.Delta:
			if s.config, err = s.config.With(m); err == nil {
				err = s.enforced()
			}
		case *exchange.Shares:
			f.gateway.HearShares(f.sharesOf(m))
		case *exchange.Sums:
			f.gateway.Receive(f.now(), m)
		}
		if err != nil {
			return err
		}
	}
}

// enforced notes that the configuration is in force.
func (s *session) enforced() error {
	s.revision.Store(s.config.Revision)
	return s.write(&link.Refused{Revision: s.config.Revision})
}

// sharesOf adds up the shares of the gateway's flows.
func (f *Filter) sharesOf(m *exchange.Shares) (sum float64) {
	for _, s := range m.Flows {
		if s.Pool == f.o.Pool {
			sum += s.Share
		}
	}
	return sum
}

// counted counts the bytes that pass.
type counted struct {
	*net.UnixConn
	in, out atomic.Int64 // bytes
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.UnixConn.Read(b)
	c.in.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.UnixConn.Write(b)
	c.out.Add(int64(n))
	return n, err
}
