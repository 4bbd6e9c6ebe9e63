package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/services/agent/gateways"
	"github.com/titrate/titrate/services/agent/lastgood"
	"github.com/titrate/titrate/services/agent/mesh"
	"github.com/titrate/titrate/services/agent/orders"
	"github.com/titrate/titrate/services/agent/reports"
	"github.com/titrate/titrate/services/agent/spent"
	"github.com/titrate/titrate/services/agent/stream"
	"github.com/titrate/titrate/services/agent/tally"
	"github.com/titrate/titrate/services/telemetry"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// Agent is one agent with its ports open.
type Agent struct {
	c           Config
	log         *slog.Logger
	start       time.Time
	incarnation uint64

	orders  *orders.Orders
	tally   *tally.Tally
	reports *reports.Reports
	spent   spent.Book
	desk    *desk
	state   state
	server  *gateways.Server
	mesh    *mesh.Mesh
	stream  *stream.Client

	handing  sync.Mutex // orders to gateways, in order
	metrics  *telemetry.Metrics
	admin    *telemetry.Admin
	adminAt  net.Listener
	cut      atomic.Bool  // by fault injection
	unsaved  atomic.Bool  // orders changed since the snapshot was written
	saved    atomic.Int64 // snapshots written
	saveFail atomic.Int64
}

// newAgent makes what needs no port.
func newAgent(c Config) (*Agent, error) {
	start := time.Now()
	a := &Agent{c: c, log: c.Log, start: start, incarnation: uint64(start.UnixNano()), orders: &orders.Orders{}, reports: reports.New()}
	a.tally = tally.New(tally.Options{Period: c.Period, T1: c.T1, T2: c.T2, Incarnation: a.incarnation})
	a.desk = newDesk(a)
	return a, a.restore()
}

// restore puts the last good snapshot in force, if there is a usable one. A
// damaged one is no reason not to start.
func (a *Agent) restore() error {
	dir := a.c.SnapshotDir
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--snapshot-dir: %w", err)
	}
	if err := lastgood.Writable(dir); err != nil {
		return fmt.Errorf("--snapshot-dir: %w; name a directory that this user may write, or leave it out", err)
	}
	s, err := lastgood.Load(dir)
	if err == nil && s != nil {
		if bad := a.orders.Restore(s); bad != nil {
			err = lastgood.Reject(dir, bad)
		}
	}
	if damaged := new(lastgood.DamagedError); errors.As(err, &damaged) {
		a.log.Error(err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("--snapshot-dir: %w", err)
	}
	if s != nil {
		a.tally.Remember(a.now(), members(s.Leases.GetMembers()))
		status := a.orders.Status(0)
		a.log.Info("last good snapshot in force", "revision", status.Revision, "resources", status.Resources, "epoch", status.Epoch, "leases", status.Leases)
	}
	return nil
}

// open opens the ports: first those that tell of another agent in the way.
func (a *Agent) open(ctx context.Context) error {
	key, err := a.c.key()
	if err != nil {
		return err
	}
	meters := a.c.Meters
	meters.Service, meters.Instance, meters.Version = "titrate-agent", a.c.Name, a.c.Version
	if a.metrics, err = meters.Open(ctx); err != nil {
		return err
	}
	if a.server, err = gateways.Listen(gateways.Options{Path: a.c.Socket, Agent: a.c.Name, Generation: a.incarnation, Log: a.log}, a.desk); err != nil {
		return err
	}
	if a.mesh, err = mesh.Open(mesh.Options{Name: a.c.Name, Incarnation: a.incarnation, Bind: a.c.Gossip, Advertise: a.c.GossipAdvertise,
		Join: a.c.Join, Key: key, Period: a.c.Period, Start: a.start, Log: a.log}, a.tally); err != nil {
		return err
	}
	credentials, err := a.c.Security.ClientCredentials()
	if err != nil {
		return err
	}
	a.stream = stream.New(stream.Options{Addresses: a.c.Coordinators, Log: a.log,
		Dial: []grpc.DialOption{grpc.WithTransportCredentials(credentials)}}, coordinated{a})
	return a.openAdmin(ctx)
}

// close closes what open opened, where Run was not called.
func (a *Agent) close() {
	if a.server != nil {
		a.server.Close()
	}
	if a.mesh != nil {
		a.mesh.Close()
	}
	if a.adminAt != nil {
		a.adminAt.Close()
	}
	if a.metrics != nil {
		a.closeMetrics()
	}
}

func (a *Agent) closeMetrics() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.metrics.Close(ctx); err != nil {
		a.log.Debug("metrics not flushed", "error", err)
	}
}

// now is the agent's monotonic time.
func (a *Agent) now() time.Duration { return time.Since(a.start) }

// GossipAddress and AdminAddress are where the ports are, as the system gave them.
func (a *Agent) GossipAddress() string { return a.mesh.Address() }

// AdminAddress is host:port of the admin server.
func (a *Agent) AdminAddress() string { return a.adminAt.Addr().String() }

// Run serves until ctx ends, then stops in order: gateways first, so that those
// whose process is gone are withdrawn, then the coordinator and the mesh are told.
// An error means that a port failed.
func (a *Agent) Run(ctx context.Context) error {
	a.log.Info("agent serves", "name", a.c.Name, "version", a.c.Version, "socket", a.c.Socket,
		"gossip", a.GossipAddress(), "admin", a.AdminAddress(), "coordinators", a.c.Coordinators)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	group, serving := errgroup.WithContext(serving)
	group.Go(func() error { return a.server.Serve(serving) })
	group.Go(func() error { return a.mesh.Run(serving) })
	group.Go(func() error { return a.admin.Serve(serving, a.adminAt) })
	group.Go(func() error { a.beat(serving); return nil })
	group.Go(func() error { a.keep(serving); return nil })
	talking, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	talked := make(chan error, 1)
	go func() { talked <- a.stream.Run(talking) }()
	err := group.Wait()
	a.desk.bury(a.now())
	err = errors.Join(err, a.hangUp(talked, hangUp))
	if leave := a.mesh.Leave(time.Second); leave != nil {
		err = errors.Join(err, leave)
	}
	a.closeMetrics()
	if err != nil {
		return err
	}
	a.log.Info("agent stopped")
	return nil
}

// goodbye is how long the coordinator may take to hear the last report.
const goodbye = time.Second

// hangUp ends the stream to the coordinator. If no gateway lives on, a last report
// says so first, or the coordinator would keep their demand and their parts for
// --membership, as of an agent that crashed.
func (a *Agent) hangUp(talked <-chan error, cancel context.CancelFunc) error {
	if a.desk.empty() {
		a.stream.Leave()
		timer := time.AfterFunc(goodbye, cancel)
		defer timer.Stop()
	} else {
		cancel()
	}
	err := <-talked
	cancel()
	return err
}

// Partition cuts the agent off from all other agents and from the coordinator,
// in both directions, or ends that.
func (a *Agent) Partition(on bool) {
	a.cut.Store(on)
	a.mesh.Partition(on)
	a.stream.Block(on)
	a.log.Warn("fault injection", "partition", on)
}
