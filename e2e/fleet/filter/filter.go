// Package filter is a synthetic gateway: the filter's side of the link, without an Envoy and
// without a limiter. It speaks the real protocol with a real agent. What it claims, and what
// it hears, is a [workload.Gateway].
package filter

import (
	"fmt"
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
	// Pool is shared by Tenants. The gateway reports that each of them wants Demand, cost
	// units/s, and is served as much as its part of the share allows.
	Pool    string
	Tenants []string
	Demand  float64
	// Start is time 0 of the fleet.
	Start time.Time
}

// Filter is a gateway that is linked.
type Filter struct {
	o       Options
	gateway *workload.Gateway
	conn    *counted

	writing sync.Mutex
	w       *link.Writer

	stop             chan struct{}
	reading, sending sync.WaitGroup
	ended            atomic.Bool // by Withdraw or Close
	err              atomic.Pointer[error]

	revision atomic.Int64   // of the configuration
	config   *config.Config // of the reading goroutine
	late     atomic.Int64   // ns, the most since Late
	beats    uint64
	reported time.Time
}

// Traffic is what has passed over the link, bytes.
type Traffic struct{ In, Out int64 }

// Connect links a gateway with its agent. It is there from now on.
func Connect(o Options, g *workload.Gateway) (*Filter, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: o.Socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("gateway %s: %w", o.Name, err)
	}
	f := &Filter{o: o, gateway: g, conn: &counted{UnixConn: conn}, stop: make(chan struct{})}
	f.w = link.NewWriter(f.conn)
	r := link.NewReader(link.Alive(f.conn, link.DeadAfter))
	if err := f.greet(r); err != nil {
		conn.Close()
		return nil, fmt.Errorf("gateway %s: %w", o.Name, err)
	}
	g.Connected(time.Since(o.Start))
	g.Set(workload.Present)
	f.reading.Go(func() { f.fail(f.read(r)) })
	f.sending.Go(func() { f.fail(f.live()) })
	return f, nil
}

// greet exchanges the Hellos and agrees on a version.
func (f *Filter) greet(r *link.Reader) error {
	hello := &link.Hello{Version: link.Version, Replica: f.o.Name, Generation: uint64(time.Now().UnixNano()),
		PID: os.Getpid(), Weight: 1}
	if err := f.w.Write(hello); err != nil {
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
	f.w.SetVersion(version)
	return nil
}

// fail notes why the link ended, if nobody has ended it.
func (f *Filter) fail(err error) {
	if err != nil && !f.ended.Load() {
		err = fmt.Errorf("the link of %s: %w", f.o.Name, err)
		f.err.CompareAndSwap(nil, &err)
		f.conn.Close()
	}
}

// Err is why the link ended by itself, nil while it has not.
func (f *Filter) Err() error {
	if e := f.err.Load(); e != nil {
		return *e
	}
	return nil
}

// Traffic is what has passed over the link so far.
func (f *Filter) Traffic() Traffic { return Traffic{f.conn.in.Load(), f.conn.out.Load()} }

// Late is the longest time since the last call that claims were sent after they were due.
func (f *Filter) Late() time.Duration { return time.Duration(f.late.Swap(0)) }

// Withdraw takes back all claims. The gateway is away from then on, and uses nothing more. The
// link stays: the agent sends others what a gateway that is linked says. Close ends it.
func (f *Filter) Withdraw() error {
	f.end()
	return f.writeClaims(f.gateway.Withdrawal())
}

// Close ends the link without a word. An agent that lives counts the claims on, unless they
// were withdrawn.
func (f *Filter) Close() {
	f.end()
	f.conn.Close()
	f.reading.Wait()
}

// end stops what the gateway does by itself. It is away from then on.
func (f *Filter) end() {
	if !f.ended.Swap(true) {
		close(f.stop)
	}
	f.sending.Wait()
	f.gateway.Set(workload.Away)
}

// live sends claims each period, and what is due less often.
func (f *Filter) live() error {
	tick := time.NewTicker(exchange.DefaultPeriod)
	defer tick.Stop()
	const reports, beats = int(exchange.ReportEvery / exchange.DefaultPeriod),
		int(link.HeartbeatEvery / exchange.DefaultPeriod)
	f.reported = time.Now()
	for n := 0; ; n++ {
		if n%beats == 0 {
			f.beats++
			if err := f.write(&link.Heartbeat{Sequence: f.beats, Revision: f.revision.Load()}); err != nil {
				return err
			}
		}
		if c := f.gateway.Claims(time.Since(f.o.Start)); c != nil {
			if err := f.writeClaims(c); err != nil {
				return err
			}
		}
		if n%reports == 0 {
			if err := f.write(f.report()); err != nil {
				return err
			}
		}
		select {
		case <-f.stop:
			return nil
		case at := <-tick.C:
			f.wasLate(time.Since(at))
		}
	}
}

func (f *Filter) wasLate(d time.Duration) {
	for {
		most := f.late.Load()
		if int64(d) <= most || f.late.CompareAndSwap(most, int64(d)) {
			return
		}
	}
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

func (f *Filter) writeClaims(c *exchange.Claims) error {
	for _, part := range c.Parts(link.MaxRecords) {
		if err := f.write(part); err != nil {
			return err
		}
	}
	return nil
}

func (f *Filter) write(m link.Message) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	if err := f.conn.SetWriteDeadline(time.Now().Add(link.DeadAfter)); err != nil {
		return err
	}
	return f.w.Write(m)
}

// read takes what the agent says until the link ends.
func (f *Filter) read(r *link.Reader) error {
	for {
		m, err := r.Next()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *config.Config:
			f.config = m
			err = f.enforced()
		case *config.Delta:
			if f.config, err = f.config.With(m); err == nil {
				err = f.enforced()
			}
		case *exchange.Shares:
			f.gateway.HearShares(f.sharesOf(m))
		case *exchange.Sums:
			f.gateway.Hear(m)
		}
		if err != nil {
			return err
		}
	}
}

// enforced says that the configuration is in force.
func (f *Filter) enforced() error {
	f.revision.Store(f.config.Revision)
	return f.write(&link.Refused{Revision: f.config.Revision})
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

// counted counts what passes.
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
