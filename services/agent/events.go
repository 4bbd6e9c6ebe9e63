package agent

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/applied"
	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/linkserver"
	"github.com/titrate/titrate/services/agent/quotas"
)

// event gives the core an event and does what follows from it. Frames are put in the
// mailboxes under the lock, so that they are sent in the order of the events.
func (a *Agent) event(f func(now time.Duration, c *core.Core) core.Effects) {
	a.happen(func(now time.Duration, c *core.Core) core.Effects {
		out := f(now, c)
		a.plan(now)
		return out
	})
}

// happen is event, but sets no alarm: the caller does.
func (a *Agent) happen(f func(now time.Duration, c *core.Core) core.Effects) {
	a.mu.Lock()
	out := f(a.now(), a.core)
	for _, frame := range out.Frames {
		a.server.Send(uint64(frame.To), frame.Message)
	}
	a.mu.Unlock()
	if len(out.Packets) > 0 {
		a.gossip.Send(out.Packets)
	}
	if len(out.Bookings) > 0 {
		a.book(out.Bookings)
	}
	for _, at := range out.Close {
		a.server.CloseConn(uint64(at))
	}
	if out.GossipSoon {
		a.gossip.SendSoon()
	}
	if out.Save {
		a.unsaved.any.Store(true)
	}
	for _, e := range out.Log {
		a.log.Log(context.Background(), e.Level, e.Text, e.Details...)
	}
}

// plan sets the alarms for what the core has to do next. a.mu is locked.
func (a *Agent) plan(now time.Duration) {
	if at := a.core.TokensDue(); at != 0 {
		a.tokensDue.Set(at - now)
	}
	a.tickDue.Set(a.core.Due() - now)
}

// tickTokens has the core do what is due for tokens, when it is due.
func (a *Agent) tickTokens(ctx context.Context) {
	defer context.AfterFunc(ctx, a.tokensDue.Stop)()
	for a.tokensDue.Wait() {
		a.event(func(now time.Duration, c *core.Core) core.Effects { return c.TickTokens(now) })
	}
}

// tick gives the core the time when something is due, each half period at most, and looks which processes have exited.
func (a *Agent) tick(ctx context.Context) {
	defer context.AfterFunc(ctx, a.tickDue.Stop)()
	a.tickDue.Set(0)
	for a.tickDue.Wait() {
		a.findExited()
		a.happen(func(now time.Duration, c *core.Core) core.Effects { return c.Tick(now) })
		a.gossip.Round() // and plan: before it, what it sends would be due
	}
}

// ask asks the core something that has no effects.
func ask[T any](a *Agent, f func(now time.Duration, c *core.Core) T) T {
	a.mu.Lock()
	defer a.mu.Unlock()
	return f(a.now(), a.core)
}

// findExited reports processes without a link that have exited. Others keep their claims
// until T2: a filter goes on without its agent.
func (a *Agent) findExited() {
	for p, pid := range ask(a, func(_ time.Duration, c *core.Core) map[core.Process]int { return c.MayHaveExited() }) {
		if exited(pid) || pid == os.Getpid() && a.stopped.Load() {
			a.event(func(now time.Duration, c *core.Core) core.Effects { return c.Exited(now, p) })
		}
	}
}

// linked is the agent as the link server sees it.
type linked struct{ a *Agent }

// Connected: see [core.Core.Connected].
func (l linked) Connected(conn *linkserver.Conn) {
	l.a.event(func(now time.Duration, c *core.Core) core.Effects {
		return c.Connected(now, core.Link(conn.Number), conn.Hello, conn.PID)
	})
}

// Received: see [core.Core.Received].
func (l linked) Received(conn *linkserver.Conn, m link.Message) {
	l.a.event(func(now time.Duration, c *core.Core) core.Effects {
		return c.Received(now, core.Link(conn.Number), m)
	})
	l.a.traces.heard(conn.Hello.Replica, m)
	l.a.waits.heard(conn.Hello.Replica, m, l.a.configured)
}

// configured: see [core.Core.Configured].
func (a *Agent) configured(tenant, pool string) (t, p string) {
	names := ask(a, func(_ time.Duration, c *core.Core) [2]string {
		t, p := c.Configured(tenant, pool)
		return [2]string{t, p}
	})
	return names[0], names[1]
}

// ConfigSent: see [core.Core.ConfigSent].
func (l linked) ConfigSent(conn *linkserver.Conn, revision int64, err error) {
	l.a.event(func(_ time.Duration, c *core.Core) core.Effects {
		c.ConfigSent(core.Link(conn.Number), revision, err)
		return core.Effects{}
	})
}

// Disconnected: see [core.Core.Disconnected].
func (l linked) Disconnected(conn *linkserver.Conn) {
	l.a.event(func(now time.Duration, c *core.Core) core.Effects {
		c.Disconnected(now, core.Link(conn.Number))
		return core.Effects{}
	})
	l.a.findExited()
}

// gossiped is the agent as the gossip sees it.
type gossiped struct{ a *Agent }

// PeerSite: see [core.Core.PeerSite].
func (g gossiped) PeerSite(name, site string) {
	g.a.event(func(_ time.Duration, c *core.Core) core.Effects {
		c.PeerSite(name, site)
		return core.Effects{}
	})
}

// PeerAlive: see [core.Core.PeerAlive].
func (g gossiped) PeerAlive(name, address string, newLife bool, version uint8) {
	g.a.event(func(now time.Duration, c *core.Core) core.Effects {
		c.PeerAlive(now, name, address, newLife, version)
		return core.Effects{}
	})
}

// PeerFailed: see [core.Core.PeerFailed].
func (g gossiped) PeerFailed(name string) (inOrder bool) {
	g.a.event(func(now time.Duration, c *core.Core) core.Effects {
		inOrder = c.PeerFailed(now, name)
		return core.Effects{}
	})
	return inOrder
}

// Round: see [core.Core.Round].
func (g gossiped) Round(soon bool) (out []schedule.Outgoing, forgotten []string) {
	out = ask(g.a, func(now time.Duration, c *core.Core) (out []schedule.Outgoing) {
		out, forgotten = c.Round(now, soon)
		g.a.plan(now)
		return out
	})
	return out, forgotten
}

// LastRound: see [core.Core.LastRound].
func (g gossiped) LastRound() []schedule.Outgoing {
	return ask(g.a, func(now time.Duration, c *core.Core) []schedule.Outgoing { return c.LastRound(now) })
}

// ReceivePackets: see [core.Core.ReceivePackets].
func (g gossiped) ReceivePackets(packets ...*gossipv1.Packet) (drops []schedule.Drop, soon bool) {
	g.a.event(func(now time.Duration, c *core.Core) (out core.Effects) {
		drops, out = c.ReceivePackets(now, packets...)
		soon, out.GossipSoon = out.GossipSoon, false // the gossip sees to that itself
		return out
	})
	return drops, soon
}

// PeerAddresses: see [core.Core.PeerAddresses].
func (g gossiped) PeerAddresses() schedule.Addresses {
	return ask(g.a, func(now time.Duration, c *core.Core) schedule.Addresses { return c.PeerAddresses(now) })
}

// maxOutgoing is the most messages that wait to be sent to a coordinator.
const maxOutgoing = 256

// controlled is the agent as a stream to a coordinator sees it.
type controlled struct {
	outgoing chan *controlv1.ConnectRequest
	books    bool // its coordinator takes bookings: it has said which periods it is

	a       *Agent
	to      *core.Stream     // of the last Hello
	offered *applied.Offered // the same
}

func newControlled(a *Agent) *controlled {
	return &controlled{a: a, outgoing: make(chan *controlv1.ConnectRequest, maxOutgoing)}
}

// Outgoing has the bookings of quotas.
func (s *controlled) Outgoing() <-chan *controlv1.ConnectRequest { return s.outgoing }

// book sends bookings to the coordinator that takes them. Where there is none, or it does not take them in time, owners
// ask again.
func (a *Agent) book(list []quotas.Booking) {
	to := a.booksAt.Load()
	for _, m := range quotas.EncodeBookings(list) {
		sent := false
		if to != nil {
			select {
			case to.outgoing <- &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Bookings{Bookings: m}}:
				sent = true
			default:
			}
		}
		if !sent {
			a.unbooked.Add(uint64(len(m.GetRequests())))
		}
	}
}

// setPeriods takes in which periods the coordinator says it is. It takes bookings from now on.
func (s *controlled) setPeriods(m *controlv1.Periods) {
	fresh := !s.books
	s.books = true
	s.a.booksAt.Store(s)
	s.a.event(func(now time.Duration, c *core.Core) core.Effects {
		return c.SetPeriods(now, quotas.DecodePeriods(m), fresh)
	})
}

// endBooking notes that the stream has ended.
func (s *controlled) endBooking() {
	s.books = false
	s.a.booksAt.CompareAndSwap(s, nil)
	for len(s.outgoing) > 0 {
		<-s.outgoing
	}
}

// Hello opens a stream.
func (s *controlled) Hello() *controlv1.Hello {
	s.endBooking()
	h := ask(s.a, func(now time.Duration, c *core.Core) (h *controlv1.Hello) {
		s.to, h = c.Hello(now)
		return h
	})
	h.Books = true
	s.a.offering.Lock()
	defer s.a.offering.Unlock()
	s.offered = s.a.offer.Begin(h.GetRevision())
	h.Digest = uint64(s.a.offer.Digest(h.GetRevision()))
	return h
}

// Report is the next report.
func (s *controlled) Report() *controlv1.Report {
	return ask(s.a, func(now time.Duration, _ *core.Core) *controlv1.Report { return s.to.Report(now) })
}

// Receive takes a message of the coordinator. An error ends the stream.
func (s *controlled) Receive(m *controlv1.ConnectResponse) (*controlv1.ConnectRequest, error) {
	ask(s.a, func(now time.Duration, c *core.Core) bool { c.ReceiveClock(now, m.GetSent()); return true })
	switch m := m.GetMessage().(type) {
	case *controlv1.ConnectResponse_Configuration:
		ack, err := s.configure(m.Configuration)
		return acknowledged(ack), err
	case *controlv1.ConnectResponse_Coordinators:
		ask(s.a, func(time.Duration, *core.Core) bool { s.to.Share(m.Coordinators); return true })
	case *controlv1.ConnectResponse_Question:
		answer := ask(s.a, func(now time.Duration, c *core.Core) func() *controlv1.Answer {
			return c.Answer(now, m.Question)
		})
		return &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Answer{Answer: answer()}}, nil
	case *controlv1.ConnectResponse_Periods:
		s.setPeriods(m.Periods)
	case *controlv1.ConnectResponse_Booked:
		s.a.event(func(now time.Duration, c *core.Core) core.Effects {
			return c.Booked(now, quotas.DecodeBooked(m.Booked))
		})
	case *controlv1.ConnectResponse_Leases:
		var err error
		s.a.event(func(now time.Duration, _ *core.Core) (out core.Effects) {
			out, err = s.to.Leases(now, m.Leases)
			return out
		})
		if err == nil {
			s.a.traces.leased(m.Leases.GetRevision())
		}
		if missed := new(applied.MissedError); errors.As(err, &missed) {
			s.a.log.Warn("leases are missing; all of them are asked for", "reason", missed)
			return acknowledged(&controlv1.Ack{Error: missed.Error()}), nil
		}
		return nil, err
	}
	return nil, nil // of a newer build: it means nothing here
}

// acknowledged is the message of an Ack, nil for none.
func acknowledged(a *controlv1.Ack) *controlv1.ConnectRequest {
	if a == nil {
		return nil
	}
	return &controlv1.ConnectRequest{Message: &controlv1.ConnectRequest_Ack{Ack: a}}
}

func (s *controlled) offer(m *controlv1.Configuration) (*applied.Configuration, error) {
	s.a.offering.Lock()
	defer s.a.offering.Unlock()
	return s.offered.Add(m)
}

// configure takes a part of a configuration. It compiles without the lock: that may take a
// second, in which claims and packets go on.
func (s *controlled) configure(m *controlv1.Configuration) (*controlv1.Ack, error) {
	s.a.configuring.Lock() // what streams bring is put in force in the order in which it compiles
	defer s.a.configuring.Unlock()
	began := time.Now()
	if err := ask(s.a, func(_ time.Duration, c *core.Core) error { return c.CheckEpoch(m.GetEpoch()) }); err != nil {
		return nil, err
	}
	m.Ahead = s.a.ahead()
	compiled, err := s.offer(m)
	if errors.Is(err, applied.ErrKnown) {
		return &controlv1.Ack{Nonce: m.GetNonce()}, nil
	}
	if err != nil {
		s.a.log.Error("the coordinator's configuration is refused; the older one stays in force", "error", err)
		return &controlv1.Ack{Nonce: m.GetNonce(), Error: err.Error()}, nil
	}
	if compiled == nil {
		return nil, nil
	}
	s.a.event(func(_ time.Duration, c *core.Core) (out core.Effects) {
		out, err = c.Configure(compiled)
		return out
	})
	if err != nil {
		return nil, err
	}
	s.a.traces.configured(m, began)
	s.a.offering.Lock()
	defer s.a.offering.Unlock()
	s.a.unsaved.note(compiled.Source)
	return &controlv1.Ack{Nonce: m.GetNonce()}, nil
}
