package rls

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/agentlink"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
	"github.com/titrate/titrate/services/rls/windows"
)

const (
	// maxRequestBytes bounds a request: as in ratelimit, 70 values of 60 KiB each, the longest header that Envoy
	// takes. maxRequestEntries bounds its descriptors and their entries.
	maxRequestBytes, maxRequestEntries = 4 << 20, 64 << 10
	// maxRequests bounds the requests of one connection at a time, and maxHeaders the headers of one, bytes.
	maxRequests, maxHeaders = 10_000, 64 << 10
	// windowBytes bounds what a caller may send before it is read, of a stream and of a connection. It is fixed,
	// because gRPC measures the connection otherwise, with a ping for each request.
	windowBytes = 1 << 20
	// maxAge closes a connection after a while, so that clients spread again.
	maxAge = time.Hour
	// configurationWait bounds the server's wait at its start for the coordinator's configuration and the xDS server's
	// limits before it serves without.
	configurationWait = 5 * time.Second
	// stopWait bounds the time for requests under way when the server stops, and then for the last message to the
	// agent.
	stopWait = time.Second
	// handshakeWait bounds the time until a connection has HTTP/2. A stop waits for it.
	handshakeWait = 5 * time.Second
)

// Options are fixed for a server's life.
type Options struct {
	// Dir has the files of envoyproxy/ratelimit; "": there are none.
	Dir string
	// XDS is a server that has the limits instead of files.
	XDS  XDS
	Read ratelimitconfig.Options
	// Shadow answers OK whatever the limits say. Quota treats every limit of the files as one with quota_mode.
	Shadow, Quota bool
	// Headers adds RateLimit-Limit, -Remaining and -Reset of the tightest limit to the
	// responses; Metadata adds what was asked, and the metadata of limits, as dynamic metadata.
	Headers, Metadata bool
	// StopOverLimit charges nothing for a descriptor that is refused. Default: it takes what is left.
	StopOverLimit bool

	// Windows is the kind of window in which the limits of the files count.
	Windows Windows
	// Keys is the budget of client keys, 40 B each; with fixed windows of counters, 140 B each at
	// most. 0: limiter.DefaultKeys.
	Keys int

	// Socket of the agent, and the gateway's name there.
	Socket, Name string
	// Seed of the keys' hashes until the coordinator's configuration brings one; the same in all agents.
	Seed uint64
	// Alone: no coordinator's configuration will come.
	Alone       bool
	Credentials credentials.TransportCredentials
	Log         *slog.Logger
}

// New makes a server and reads the files. With an xDS server the limits come once it serves.
func New(o Options) (*Server, error) {
	o.Keys = cmp.Or(o.Keys, limiter.DefaultKeys)
	s := &Server{o: o, now: time.Now}
	s.intake = s.newIntake()
	engineKeys, counters := o.Keys, agentlink.Counters(nil)
	if o.Windows == Fixed {
		s.windows = windows.New(o.Keys)
		counters = &sharing{s.windows, s, o.Alone}
		if o.Alone { // it has no limits
			engineKeys = 1
		}
	}
	bell := agentlink.NewBell()
	engine := limiter.New(limiter.Options{Keys: engineKeys, Replica: o.Name, Start: enforcer.Now(), Ask: bell.Ring})
	s.composer = newComposer(engine, o.Seed, o.Windows == Fixed)
	say := func(text string) { o.Log.Info(text) }
	s.enforcer = enforcer.New(enforcer.Options{Engine: engine, FailurePolicy: limiter.BootOpen, Deliver: s.held.deliver,
		Log: func(text string) { o.Log.Error(text) }})
	s.link = agentlink.New(agentlink.Options{Socket: o.Socket, Engine: engine, Apply: s.composer.configure,
		Change: s.composer.change, Counters: counters, Asked: bell, Answer: s.enforcer.Answer,
		Now: enforcer.Now, RecoverPanic: s.enforcer.RecoverPanic, Log: say,
		Hello: link.Hello{Replica: o.Name, Weight: 1, PID: os.Getpid(), Generation: uint64(time.Now().UnixNano()),
			Envoy: "none: rate limit service"}})
	s.watch = &watcher{dir: o.Dir, read: o.Read, load: s.composer.load, log: o.Log,
		sliding: o.Windows != Fixed}
	if o.XDS.Address != "" {
		var err error
		if s.xds, err = subscribe(o.XDS, o.Read, s.composer.load, o.Log); err != nil {
			return nil, err
		}
	}
	return s, s.watch.start()
}

// Serve answers on the listener until ctx ends. When it returns the agent was sent the spent costs, and the owners of
// EXACT limits' keys have their tokens back.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	s.enforcer.Start()
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	linked, unlink := context.WithCancel(context.WithoutCancel(ctx))
	parts.Go(func() { s.link.Run(linked) })
	parts.Go(func() { s.watch.run(ctx) })
	if s.xds != nil {
		parts.Go(func() { s.xds.run(ctx) })
	}
	defer parts.Wait()
	defer cancel() // if the listener fails ctx has not ended
	defer unlink()
	defer s.link.Finish(stopWait)
	defer s.enforcer.Stop()
	s.awaitConfiguration(ctx)
	return s.intake.Serve(ctx, s.grpc(), listener, intake.Serving{Name: "rate limit service",
		Service: api.RateLimitService_ServiceDesc.ServiceName, StopWait: stopWait, Stop: func() {}})
}

// awaitConfiguration waits for the xDS server's limits, and for the coordinator's configuration:
// the seed of its keys, and its tenants. Callers wait in the listener's queue meanwhile.
func (s *Server) awaitConfiguration(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, configurationWait)
	defer cancel()
	until := func(ready <-chan struct{}, missing string) {
		select {
		case <-ready:
		case <-wait.Done():
			if ctx.Err() == nil {
				s.o.Log.Warn("rate limit service: serving without " + missing)
			}
		}
	}
	if s.xds != nil {
		until(s.xds.first, "the limits of the xDS server, which has sent none yet")
	}
	if !s.o.Alone {
		until(s.link.Ready(), "the coordinator's configuration, which has not come yet")
	}
}

// newIntake bounds what callers send.
func (s *Server) newIntake() *intake.Intake {
	bounds := intake.Bounds{Bytes: maxRequestBytes, Entries: maxRequestEntries}
	return intake.New(intake.Options{Log: s.o.Log, Unmarshal: unmarshal,
		Bounds: func(string) intake.Bounds { return bounds }})
}

func (s *Server) grpc() *grpc.Server {
	server := grpc.NewServer(append(s.intake.ServerOptions(), grpc.Creds(s.o.Credentials),
		grpc.MaxConcurrentStreams(maxRequests), grpc.MaxHeaderListSize(maxHeaders),
		grpc.StaticStreamWindowSize(windowBytes), grpc.StaticConnWindowSize(windowBytes),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))), // beyond them a goroutine per request
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxAge, MaxConnectionAgeGrace: maxAge}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(handshakeWait))...)
	api.RegisterRateLimitServiceServer(s.intake.Registrar(server), s)
	return server
}

// Trouble is an alarm: requests are refused before they are decided.
func (s *Server) Trouble() error { return s.intake.Trouble() }

// ExactKey returns the hash of a key, and what the service's own limits allow it, for its owner; see
// [limiter.ExactKey]. It may be called from any goroutine.
func (s *Server) ExactKey(n *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	return s.composer.exactKey(n)
}

// Revision rises when limits that ExactKey knows may have changed.
func (s *Server) Revision() int64 { return s.composer.times.Load() }
