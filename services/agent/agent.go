package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/envoy-filter/alarm"
	"github.com/titrate/titrate/services/agent/applied"
	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/agent/gossip"
	"github.com/titrate/titrate/services/agent/lastgood"
	"github.com/titrate/titrate/services/agent/linkserver"
	"github.com/titrate/titrate/services/agent/stream"
	"github.com/titrate/titrate/services/rlqs"
	"github.com/titrate/titrate/services/rls"
	"github.com/titrate/titrate/services/telemetry"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// Agent is one agent with its ports open.
type Agent struct {
	c     Config
	log   *slog.Logger
	start time.Time

	mu   sync.Mutex // guards core
	core *core.Core

	configuring sync.Mutex // of streams that bring configurations; locked before the others

	offers

	server *linkserver.Server
	gossip *gossip.Node
	stream *stream.Group
	listeners

	booksAt  atomic.Pointer[controlled] // the stream to the coordinator that takes bookings; nil: there is none
	unbooked atomic.Uint64              // bookings that were not sent

	tokensDue, tickDue *alarm.Alarm // when the core has to do something for tokens, and otherwise

	metrics *telemetry.Metrics
	traces  changeTraces
	waits   *waits
	logs    *telemetry.Logs // nil: none are sent
	admin   *telemetry.Admin
	cut     atomic.Bool // by fault injection
	stopped atomic.Bool // the gateway of this process has ended
	snapshots
	keyring
}

type keyring struct {
	gossipKeys  [][]byte // in force; watchKeys changes them
	keysTrouble atomic.Pointer[error]
}

type snapshots struct {
	snapshotLock *lastgood.Lock // nil: no snapshot is kept
	saved        atomic.Int64   // snapshots written
	saveFailures atomic.Int64   // since one was written
}

type offers struct {
	offering sync.Mutex // guards offer and unsaved; never locked while Agent.mu is
	offer    applied.Offer
	unsaved  unsaved
}

type listeners struct {
	rls     *rls.Server  // nil: there is none
	rlqs    *rlqs.Server // nil: there is none
	rlsAt   net.Listener // of rls
	rlqsAt  net.Listener // of rlqs
	adminAt net.Listener
}

// newAgent makes what needs no port.
func newAgent(c Config) (*Agent, error) {
	start := time.Now()
	a := &Agent{c: c, log: c.Log, start: start, tokensDue: alarm.New(), tickDue: alarm.New()}
	a.core = core.New(core.Options{Name: c.Name, Site: c.Site, Version: c.Version, Incarnation: a.incarnation(),
		Period: c.Period, T1: c.T1, T2: c.T2, ExactWithin: c.ExactWithin})
	a.core.GuessClock(a.now(), wall())
	if err := a.restore(); err != nil {
		a.snapshotLock.Close()
		return nil, err
	}
	return a, nil
}

// incarnation differs with each start of the agent.
func (a *Agent) incarnation() uint64 { return uint64(a.start.UnixNano()) }

// open opens the ports, first the ports that show whether another agent is running.
func (a *Agent) open(ctx context.Context) error {
	var err error
	if a.gossipKeys, err = a.c.keys(); err != nil {
		return err
	}
	meters := a.c.Meters
	meters.Service, meters.Instance, meters.Version = "titrate-agent", a.c.Name, a.c.Version
	meters.Log = a.log
	if a.metrics, err = meters.Open(ctx); err != nil {
		return err
	}
	if a.traces.sender, err = meters.OpenTraces(ctx, a.metrics); err != nil {
		return err
	}
	if a.log, a.logs, err = meters.OpenLogs(ctx, a.log, a.metrics); err != nil {
		return err
	}
	if a.server, err = linkserver.Listen(linkserver.Options{Path: a.c.Socket, Group: a.c.SocketGroup,
		Agent: a.c.Name, Generation: a.incarnation(), Log: a.log, Clock: a.clock}, linked{a}); err != nil {
		return err
	}
	if a.gossip, err = gossip.Open(gossip.Options{Name: a.c.Name, Site: a.c.Site, Bind: a.c.Gossip,
		Advertise: a.c.GossipAdvertise, Join: a.c.Join, Keys: a.gossipKeys, Period: a.c.Period, Paced: true,
		Log: a.log}, gossiped{a}); err != nil {
		return err
	}
	address := a.gossip.Address() // it waits for memberlist, which may wait for the lock to say who is alive
	a.mu.Lock()
	a.core.SetGossipAddress(address)
	a.mu.Unlock()
	credentials, err := a.c.Security.ClientCredentials()
	if err != nil {
		return err
	}
	a.stream = stream.NewGroup(stream.Options{Addresses: a.c.Coordinators, Log: a.log, Start: a.start,
		Dial: []grpc.DialOption{grpc.WithTransportCredentials(credentials)}},
		func() stream.Agent { return newControlled(a) })
	if err := errors.Join(a.openRLS(ctx), a.openRLQS(ctx)); err != nil {
		return err
	}
	return a.openAdmin(ctx)
}

// close closes what open opened, where Run was not called.
func (a *Agent) close() {
	if a.server != nil {
		a.server.Close()
	}
	if a.gossip != nil {
		a.gossip.Close()
	}
	for _, at := range []net.Listener{a.rlsAt, a.rlqsAt, a.adminAt} {
		if at != nil {
			at.Close()
		}
	}
	a.snapshotLock.Close()
	if a.metrics != nil {
		a.closeMetrics()
	}
}

func (a *Agent) closeMetrics() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := errors.Join(a.traces.sender.Close(ctx), a.logs.Close(ctx), a.metrics.Close(ctx)); err != nil {
		a.log.Debug("metrics, traces or logs not flushed", "error", err)
	}
}

// now is the agent's monotonic time.
func (a *Agent) now() time.Duration { return time.Since(a.start) }

// GossipAddress and AdminAddress are where the ports are, as the system gave them.
func (a *Agent) GossipAddress() string { return a.gossip.Address() }

// AdminAddress is host:port of the admin server.
func (a *Agent) AdminAddress() string { return a.adminAt.Addr().String() }

// Run serves until ctx ends, then stops in order. The rate limit services are first, so that they give back what the
// owners of EXACT limits' keys have granted. Then come the gateways, so that the claims of those whose process is gone
// are withdrawn, then the stream and the gossip. An error means that a port failed.
func (a *Agent) Run(ctx context.Context) error {
	a.log.Info("agent serves", "name", a.c.Name, "version", a.c.Version, "socket", a.c.Socket,
		"gossip", a.GossipAddress(), "admin", a.AdminAddress(), "rls", a.RLSAddress(),
		"rlqs", a.RLQSAddress(), "coordinators", a.c.Coordinators)
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, serving := errgroup.WithContext(parts)
	group.Go(func() error { return a.server.Serve(serving) })
	group.Go(func() error { return a.gossip.Run(serving) })
	group.Go(func() error { return a.admin.Serve(serving, a.adminAt) })
	group.Go(func() error { defer stop(); return a.serveAPIs(ctx, serving) })
	group.Go(func() error { a.tick(serving); return nil })
	group.Go(func() error { a.tickTokens(serving); return nil })
	if a.c.GossipKeyFile != "" {
		group.Go(func() error { a.watchKeys(serving, time.NewTicker(keysEvery)); return nil })
	}
	saved := make(chan struct{})
	go func() { defer close(saved); a.keepSnapshot(serving) }()
	streaming, stopStream := context.WithCancel(context.WithoutCancel(ctx))
	streamed := make(chan error, 1)
	go func() { streamed <- a.stream.Run(streaming) }()
	err := group.Wait()
	a.stopped.Store(true)
	a.findExited()
	a.closeQuotas()
	err = errors.Join(err, a.closeStream(streamed, stopStream))
	if leave := a.gossip.Leave(time.Second); leave != nil {
		err = errors.Join(err, leave)
	}
	select {
	case <-saved:
	case <-time.After(lastSave):
		a.log.Warn("the last good snapshot may be an older one: the disk is slow", "waited", lastSave)
	}
	a.closeMetrics()
	if err != nil {
		return err
	}
	a.log.Info("agent stopped")
	return nil
}

const (
	// lastReport bounds the time that the coordinator may take to receive the last report.
	lastReport = time.Second
	// lastBookings bounds the time until what this agent gives back of quotas is on its way.
	lastBookings = 200 * time.Millisecond
	// lastSave bounds the time for the last snapshot on disk, after all others know that the agent stops.
	lastSave = 2 * time.Second
)

// closeStream ends the stream to the coordinator. If no gateway lives on, a last report
// says so first. Without it the coordinator would keep the gateways' demand and shares for
// --membership, as for an agent that crashed.
func (a *Agent) closeStream(streamed <-chan error, cancel context.CancelFunc) error {
	if ask(a, func(_ time.Duration, c *core.Core) bool { return c.Empty() }) {
		a.stream.Leave()
		timer := time.AfterFunc(lastReport, cancel)
		defer timer.Stop()
	} else {
		cancel()
	}
	err := <-streamed
	cancel()
	return err
}

// closeQuotas gives back what this agent has booked and not granted.
func (a *Agent) closeQuotas() {
	a.event(func(now time.Duration, c *core.Core) core.Effects { return c.CloseQuotas(now) })
	for range 20 { // the stream may end at once afterwards
		if to := a.booksAt.Load(); to == nil || len(to.outgoing) == 0 {
			return
		}
		time.Sleep(lastBookings / 20)
	}
}

// Partition cuts the agent off from all other agents and from the coordinator, in both directions, or ends that.
func (a *Agent) Partition(on bool) {
	a.cut.Store(on)
	a.gossip.Partition(on)
	a.stream.Block(on)
	a.log.Warn("fault injection", "partition", on)
}
