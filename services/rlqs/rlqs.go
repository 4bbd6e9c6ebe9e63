package rlqs

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	api "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/agentlink"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/rlqs/assign"
	"github.com/titrate/titrate/services/rls/subject"
)

const (
	// maxMessageBytes and maxMessageEntries bound a message: 10,000 buckets of four entries each.
	maxMessageBytes, maxMessageEntries = 4 << 20, 100_000
	// maxStreams, maxBucketsOfStream and maxBuckets bound the streams, the buckets of one, and those of all streams
	// together; about 1 KiB each.
	maxStreams, maxBucketsOfStream, maxBuckets = 1024, 10_000, 100_000
	// keys bounds the keys of limits: each bucket has a few.
	keys = 4 * maxBuckets
	// visitEvery is the time between two visits of the book, roundEvery that between two rounds, and roundAfter the
	// least one after a report. A round that takes long is made so rarely that it takes a twentieth of a processor.
	visitEvery, roundEvery = 10 * time.Millisecond, 250 * time.Millisecond
	roundAfter, roundPart  = 50 * time.Millisecond, 20
	// keepaliveEvery and keepaliveWait bound the time for which a peer that vanished counts as connected: less than
	// its assignments live.
	keepaliveEvery, keepaliveWait = 10 * time.Second, 5 * time.Second
	// configurationWait bounds the server's wait at its start for the coordinator's configuration.
	configurationWait = 5 * time.Second
	// stopWait bounds the time for the last message to the agent, and handshakeWait that until a connection has HTTP/2.
	stopWait, handshakeWait = time.Second, 5 * time.Second
)

// Options are fixed for a server's life.
type Options struct {
	// DenyUnknown refuses requests of tenants that are not configured, and of other domains. Default: they pass.
	DenyUnknown bool
	// Socket of the agent, and the gateway's name there.
	Socket, Name string
	// Alone: no coordinator's configuration will come.
	Alone       bool
	Credentials credentials.TransportCredentials
	Log         *slog.Logger
}

// Server assigns quotas. Create it with New.
type Server struct {
	api.UnimplementedRateLimitQuotaServiceServer

	o        Options
	intake   *intake.Intake
	enforcer *enforcer.Enforcer
	link     *agentlink.Client
	given    *config.Config // by the coordinator; of the link's goroutine
	counts   counts
	dirty    chan struct{} // a round is due soon
	stopping chan struct{} // closed when streams are to end

	mu     sync.Mutex // guards book
	book   *assign.Book
	engine *limiter.Engine
}

// New makes a server.
func New(o Options) *Server {
	s := &Server{o: o, given: &config.Config{}, dirty: make(chan struct{}, 1), stopping: make(chan struct{})}
	s.intake = intake.New(intake.Options{Log: o.Log, Bounds: func(string) intake.Bounds {
		return intake.Bounds{Bytes: maxMessageBytes, Entries: maxMessageEntries}
	}})
	bell := agentlink.NewBell()
	s.engine = limiter.New(limiter.Options{Keys: keys, Replica: o.Name, Start: enforcer.Now(), Ask: bell.Ring})
	s.book = s.newBook()
	s.enforcer = enforcer.New(enforcer.Options{Engine: s.engine, FailurePolicy: limiter.BootOpen,
		Deliver: func([]limiter.Event) {}, Log: func(text string) { o.Log.Error(text) }})
	s.link = agentlink.New(agentlink.Options{Socket: o.Socket, Engine: s.engine, Apply: s.configure, Change: s.change,
		Asked: bell, Answer: s.enforcer.Answer, Now: enforcer.Now, RecoverPanic: s.enforcer.RecoverPanic,
		Log: func(text string) { o.Log.Info(text) },
		Hello: link.Hello{Replica: o.Name, Weight: 1, PID: os.Getpid(), Generation: uint64(time.Now().UnixNano()),
			Envoy: "none: rate limit quota service"}})
	return s
}

func (s *Server) newBook() *assign.Book {
	return assign.New(assign.Options{Engine: s.engine, DenyUnknown: s.o.DenyUnknown, Streams: maxStreams,
		MembersOfStream: maxBucketsOfStream, Members: maxBuckets, Rand: rand.Float64})
}

// configure puts the coordinator's configuration in force.
func (s *Server) configure(c *config.Config) error {
	if err := s.engine.Apply(c); err != nil {
		return err
	}
	s.configured(c)
	return nil
}

func (s *Server) change(d *config.Delta) error {
	c, err := s.given.With(d)
	if err == nil {
		err = s.engine.Change(d)
	}
	if err == nil {
		s.configured(c)
	}
	return err
}

// configured has the book find the identities and classes of a configuration.
func (s *Server) configured(c *config.Config) {
	s.given = c
	names, unused := subject.Names(c)
	s.counts.namesUnused.Store(int64(unused))
	s.engine.Name(names)
	s.mu.Lock()
	s.book.Name(&names)
	s.mu.Unlock()
	s.hurry()
}

// hurry has a round made soon.
func (s *Server) hurry() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// Serve answers on the listener until ctx ends. When it returns the agent was sent what was used.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	s.enforcer.Start()
	ctx, cancel := context.WithCancel(ctx)
	linked, unlink := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { s.link.Run(linked) })
	defer parts.Wait()
	defer unlink()
	defer s.link.Finish(stopWait)
	defer s.enforcer.Stop()
	defer s.flush()
	var dividing sync.WaitGroup
	dividing.Go(func() { s.divide(ctx) })
	defer dividing.Wait()
	defer cancel()
	s.awaitConfiguration(ctx)
	return s.intake.Serve(ctx, s.grpc(), listener, intake.Serving{Name: "rate limit quota service",
		Service:  api.RateLimitQuotaService_ServiceDesc.ServiceName,
		StopWait: stopWait, Stop: func() { close(s.stopping) }}) // Envoys go to other agents with their next reports
}

// awaitConfiguration waits for the coordinator's configuration. Envoys wait in the listener's queue meanwhile.
func (s *Server) awaitConfiguration(ctx context.Context) {
	if s.o.Alone {
		return
	}
	select {
	case <-s.link.Ready():
	case <-ctx.Done():
	case <-time.After(configurationWait):
		s.o.Log.Warn("rate limit quota service: serving without the coordinator's configuration, which has not " +
			"come yet")
	}
}

func (s *Server) grpc() *grpc.Server {
	server := grpc.NewServer(append(s.intake.ServerOptions(), grpc.Creds(s.o.Credentials),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveEvery, Timeout: keepaliveWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(handshakeWait))...)
	api.RegisterRateLimitQuotaServiceServer(s.intake.Registrar(server), s)
	return server
}

// divide drives the book until ctx ends.
func (s *Server) divide(ctx context.Context) {
	ticker := time.NewTicker(visitEvery)
	defer ticker.Stop()
	dirty, next, took := false, time.Now(), time.Duration(0)
	last := next
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty:
			dirty = true
			continue
		case <-ticker.C:
		}
		now := time.Now()
		due := !now.Before(next) || dirty && now.Sub(last) >= max(roundAfter, roundPart*took)
		s.turn(due)
		if due {
			took, last, dirty = time.Since(now), now, false
			next = now.Add(max(roundEvery, roundPart*took))
		}
	}
}

// turn visits the book, and makes a round if one is due. A panic is counted; assignments hold until they expire.
func (s *Server) turn(due bool) {
	defer s.enforcer.RecoverPanic("a round of assignments")
	s.mu.Lock()
	defer s.mu.Unlock()
	now := enforcer.Now()
	s.book.Visit(now)
	if due {
		s.book.Round(now)
	}
}

// flush accounts all that was reported.
func (s *Server) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.Flush(enforcer.Now())
}

// Trouble is an alarm: reports are refused before they are read, or buckets find no room.
func (s *Server) Trouble() error {
	if err := s.intake.Trouble(); err != nil {
		return err
	}
	return s.counts.trouble(time.Now())
}
