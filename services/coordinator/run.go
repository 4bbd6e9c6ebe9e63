package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/leadership"
	"github.com/titrate/titrate/services/coordinator/ledger"
	"github.com/titrate/titrate/services/coordinator/stream"
	"github.com/titrate/titrate/services/coordinator/webhook"
	"github.com/titrate/titrate/services/store"
)

const (
	// etcdWait is the time that etcd may take at start before the log says so.
	etcdWait = time.Second
	// suspectEvery is the interval at which the log names an agent that reports impossible numbers.
	suspectEvery = time.Minute
	// warnEvery is the interval at which that warning is repeated.
	warnEvery = 10 * time.Second
)

// wire connects the parts and registers the services.
func (o *Coordinator) wire(context.Context) error {
	o.loop = leadership.New(leadership.Options{
		Params: o.config.Allocation, Settle: o.config.Settle, Expiry: o.config.SoftExpiry, Log: o.log,
		Nacked: o.instruments.nacked,
	})
	o.ledger = ledger.New(ledger.Options{Client: o.client, Prefix: o.config.Prefix + "/bookings",
		Terms: o.terms, Changed: func() { o.streams.Announce() }, Log: o.log})
	if o.config.Webhook.URL != "" {
		o.webhook = webhook.New(o.config.Webhook, o.thresholds, o.log)
		o.admin.Alarm("webhook", o.webhook.Trouble)
	}
	o.streams = stream.New(timedLoop{o.loop, o}, o.configuration, o.ledger, o.config.Streams, o.log)
	if err := o.registerMetrics(); err != nil {
		return err
	}
	if err := o.openGuard(); err != nil {
		return err
	}
	if err := o.serve(); err != nil {
		return err
	}
	o.admin.Check("etcd", o.elector.Etcd)
	o.admin.Check("configuration", o.configured)
	if o.guard != nil {
		o.admin.Alarm("access", o.guard.Trouble)
	}
	o.admin.Alarm("messages", o.intake.Trouble)
	o.admin.Alarm("sharing", o.notShared)
	o.admin.Alarm("names", o.streams.Trouble)
	o.admin.Alarm("gateways", func() error { return o.fleet.Summary(o.streams.Agents()).First })
	return nil
}

// configured is nil while the configuration in etcd is known and followed.
func (o *Coordinator) configured() error {
	if trouble := o.configuration.Trouble(); trouble.Held != "" {
		return fmt.Errorf("held: %s; see titrate recover --help", trouble.Held)
	}
	if _, known, _ := o.configuration.Allocation(); !known {
		return fmt.Errorf("not read from etcd yet")
	}
	return o.store.Following()
}

// applyBatch puts a batch of the configuration in force.
func (o *Coordinator) applyBatch(b store.Batch) {
	if b.Lost != "" {
		o.log.Error("etcd has another history than before", "reason", b.Lost, "revision", b.Revision)
	}
	if b.Held != "" {
		o.log.Error("the configuration is held; what gateways have stays in force until titrate recover", "reason",
			b.Held, "revision", b.Revision)
	}
	began := time.Now()
	o.configuration.Apply(b)
	o.ledger.Configure(o.configuration.Calendars())
	o.traces.read(b, began)
	o.streams.Announce()
}

// timedLoop passes the streams' calls to the loop with the time of day.
type timedLoop struct {
	loop *leadership.Loop
	o    *Coordinator
}

// Hello is an agent's arrival.
func (c timedLoop) Hello(h *controlv1.Hello) *delivery.Receiver {
	c.o.fleet.Hello(h.GetAgent(), c.o.streams.Agents)
	return c.loop.Hello(time.Now(), h)
}

// Report passes on the reports of an agent's gateways.
func (c timedLoop) Report(agent string, r *controlv1.Report) (news bool) {
	now := time.Now()
	c.o.fleet.Report(now, agent, r)
	return c.loop.Report(now, agent, r)
}

// Next returns the messages about leases to send to an agent now.
func (c timedLoop) Next(r *delivery.Receiver) []delivery.Message { return c.loop.Next(time.Now(), r) }

// Again says that an agent has missed leases.
func (c timedLoop) Again(r *delivery.Receiver, reason string) { c.loop.Again(r, reason) }

// Left says that an agent has ended its stream in order.
func (c timedLoop) Left(agent string) {
	c.o.fleet.Left(agent)
	c.loop.Left(agent)
}

// Nack says that an agent refused a configuration.
func (c timedLoop) Nack(agent string, revision int64, reason string) {
	c.loop.Nack(agent, revision, reason)
}

// Ahead notes that an agent knows a later epoch or revision than this coordinator. Where coordinators share the pools,
// the agent may have the epoch from another coordinator.
func (c timedLoop) Ahead(h *controlv1.Hello) {
	if c.o.claims.add(time.Now(), h.GetAgent(), h.GetEpoch(), h.GetRevision()) {
		c.o.decide()
	}
}

// Run serves until ctx ends, then stops in order. It returns nil after such a stop, otherwise what broke.
func (o *Coordinator) Run(ctx context.Context) error {
	defer o.release()
	o.log.Info("coordinator starts", "name", o.config.Name, "grpc", o.Address(), "agents", o.AgentAddress(),
		"advertise", o.config.Advertise, "rest", o.RestAddress(), "console", o.ConsoleAddress(),
		"admin", o.AdminAddress(), "etcd", o.config.EtcdEndpoints)
	// The servers outlive ctx until the stop is done.
	serving, down := context.WithCancel(context.WithoutCancel(ctx))
	defer down()
	group, ctx := errgroup.WithContext(ctx)
	o.decide = func() { o.deciding.Go(func() { o.decideClaims(ctx) }) }
	group.Go(func() error { return o.admin.Serve(serving, o.adminListener) })
	group.Go(func() error { return serveOn(o.server, o.grpcListener) })
	if o.agentListener != nil {
		group.Go(func() error { return serveOn(o.agents, o.agentListener) })
	}
	if o.rest != nil {
		group.Go(func() error { return o.runHTTP(serving, o.rest, o.restListener) })
	}
	if o.console.server != nil {
		group.Go(func() error { return o.runHTTP(serving, o.console.server, o.console.listener) })
	}
	group.Go(func() error {
		defer down()
		o.work(ctx)
		o.stop()
		return nil
	})
	return group.Wait()
}

// work leads or follows until ctx ends and the lead is given back.
func (o *Coordinator) work(ctx context.Context) {
	var group errgroup.Group
	group.Go(func() error { o.elector.Run(ctx); return nil })
	group.Go(func() error { o.warnWithoutEtcd(ctx); return nil })
	group.Go(func() error { o.traces.learn(ctx, o.store.Seed); return nil })
	if o.guard != nil {
		group.Go(func() error { o.guard.Run(ctx); return nil })
	}
	group.Go(func() error {
		for batch := range o.store.Watch(ctx, store.Snapshot{}) {
			o.applyBatch(batch)
		}
		return nil
	})
	group.Go(func() error { o.lead(ctx); return nil })
	group.Go(func() error { o.ledger.Run(ctx); return nil })
	if o.webhook != nil {
		group.Go(func() error { o.webhook.Run(ctx); return nil })
	}
	_ = group.Wait() // each loop ends with ctx and without an error
	o.tidying.Wait()
	o.deciding.Wait()
}

// stop ends the streams, then the server.
func (o *Coordinator) stop() {
	o.streams.Shut(status.Error(codes.Unavailable, "this coordinator is stopping"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.server.GracefulStop()
		o.agents.GracefulStop() // again, if they are one: nothing is left to do
	}()
	limit := time.NewTimer(o.config.ShutdownTimeout)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		o.log.Warn("calls are cut off at shutdown", "after", o.config.ShutdownTimeout)
		o.server.Stop()
		o.agents.Stop()
	}
	o.log.Info("coordinator stopped")
}

// warnWithoutEtcd logs while there is no configuration from etcd after the start.
func (o *Coordinator) warnWithoutEtcd(ctx context.Context) {
	for wait := etcdWait; ; wait = warnEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if _, known, _ := o.configuration.Allocation(); known {
			return
		}
		o.log.Warn("waiting for etcd: no configuration yet, nothing is granted", "endpoints", o.config.EtcdEndpoints)
	}
}

// lead follows the election, and runs rounds while this coordinator leads, until ctx ends.
func (o *Coordinator) lead(ctx context.Context) {
	var before election.State
	ticker := time.NewTimer(0)
	defer ticker.Stop()
	for {
		state, elected := o.elector.State()
		o.configuration.Lapse(time.Now())
		config, known, configured := o.configuration.Allocation()
		if !known {
			config = nil
		}
		o.part.of(config, state.Sharing)
		if state == before {
			o.configure()
		} else {
			if o.changeRole(ctx, before, state) {
				before = state
			}
			o.health.SetServingStatus(controlv1.ControlService_ServiceDesc.ServiceName, serving(state.Role))
		}
		began := time.Now()
		if state.Role == election.Following {
			o.traces.follows()
		} else {
			o.round()
			o.stateHomes(ctx, began, state.Sharing)
		}
		every := o.loop.Every(o.config.Round, o.config.GossipPeriod)
		if o.loop.Calm() {
			every = max(every, min(leadership.CalmRound, o.config.SoftExpiry/4))
		}
		ticker.Reset(every)
		stirred := o.loop.Stirred()
		for wait := true; wait; {
			wait = false
			select {
			case <-stirred: // the next round comes no sooner than it would if it were not calm
				stirred, wait = nil, true
				ticker.Reset(o.config.Round - time.Since(began))
			case <-ctx.Done():
				o.health.Shutdown()
				return
			case <-elected:
			case <-configured:
			case <-ticker.C:
			}
		}
	}
}

// configure puts a change of the configuration in force here.
func (o *Coordinator) configure() {
	if o.part.config == nil {
		return
	}
	o.loop.Configure(o.part.config)
	if o.part.moved() {
		o.part.lead()
		o.streams.Share(o.sharing(o.part.sharing))
	}
}

// round computes shares, or renews them, and publishes them.
func (o *Coordinator) round() {
	started := time.Now()
	if o.config.SharePools && o.streams.Older() != "" {
		o.elector.HeardOlder()
	}
	if o.loop.Step(started) {
		o.streams.Announce()
	}
	o.instruments.round(time.Since(started))
	o.traces.round(func() int64 {
		if out := o.loop.View(started).Outcome; out != nil {
			return out.Revision
		}
		return 0
	})
	o.logSuspect(started)
}

// logSuspect names the agent with the most impossible numbers, once every suspectEvery.
func (o *Coordinator) logSuspect(now time.Time) {
	v := o.loop.View(now)
	if v.Outcome == nil || len(v.Outcome.Suspects) == 0 || now.Sub(o.suspectLogged) < suspectEvery {
		return
	}
	o.suspectLogged = now
	worst := slices.MaxFunc(v.Outcome.Suspects, func(a, b allocation.Suspect) int {
		return cmp.Compare(a.Bounded+a.Unknown, b.Bounded+b.Unknown)
	})
	o.log.Warn("an agent reports impossible numbers or unknown pools: numbers are bounded, unknown pools do not count",
		"agent", worst.Agent, "numbers", worst.Bounded, "unknown", worst.Unknown, "agents", len(v.Outcome.Suspects))
}

func serving(r election.Role) grpc_health_v1.HealthCheckResponse_ServingStatus {
	if r == election.Following {
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

// changeRole acts on a change of the election. It reports false if it has to be tried
// again: a leadership cannot begin without the seed.
func (o *Coordinator) changeRole(ctx context.Context, before, now election.State) bool {
	switch now.Role {
	case election.Leading:
		seed, err := o.store.Seed(ctx)
		if err != nil {
			o.log.Warn("elected, but the seed of key hashes cannot be read yet", "error", err)
			return false
		}
		elected := now.Sharing == nil || now.Sharing.Chairs()
		if elected {
			o.tidying.Go(func() { // a large change takes as long as etcd does
				if err := o.store.Tidy(ctx); err != nil && ctx.Err() == nil {
					o.log.Warn("what crashed writers left is not cleaned up yet; the next change will", "error", err)
				}
			})
		}
		goOn := before.Role != election.Following
		if goOn && now.Sharing != nil && !now.Sharing.GoesOn(before.Epoch) {
			// Others have led its pools meanwhile. Agents connect again, with what they hold.
			goOn = false
			o.part.forget()
			o.loop.Stop()
			o.streams.Shut(status.Error(codes.Unavailable, "this coordinator was away and begins anew"))
			o.fleet.Forget()
		}
		o.loop.Begin(time.Now(), now.Epoch, goOn)
		o.loop.Part(time.Now(), o.part.config, o.part.gained(), !elected)
		o.part.lead()
		o.streams.Open(now.Epoch, seed, o.sharing(now.Sharing))
		if elected {
			o.ledger.Lead(now.Epoch)
		} else {
			o.ledger.Lead(0)
		}
	case election.Orphaned:
		o.loop.Freeze()
	default:
		o.ledger.Lead(0)
		o.part.forget()
		o.loop.Stop()
		o.streams.Shut(stream.NotLeader(now.Leader))
		o.fleet.Forget()
	}
	return true
}
