package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/rest"
	"github.com/titrate/titrate/services/telemetry"
)

const (
	// A dead agent is noticed after these two; a NAT keeps the connection open.
	keepaliveTime    = 5 * time.Second
	keepaliveTimeout = 3 * time.Second
	// restReadTimeout bounds how long a request over HTTP may take to arrive: 64 MiB at 9 Mbit/s.
	restReadTimeout = time.Minute
	// maxRestHeaders bounds the headers of a request over HTTP, bytes, and maxRestCalls how many requests
	// a connection has at a time.
	maxRestHeaders, maxRestCalls = 64 << 10, 100
)

// serve makes the gRPC servers: one, or one for people and one for agents; and that of HTTP.
func (o *Coordinator) serve() error {
	changes, err := o.openAudit()
	if err != nil {
		return err
	}
	o.health = health.NewServer()
	o.intake = intake.New(intake.Options{Admit: o.admit, Bounds: bounds, Unary: o.unary(), Stream: o.streamed(),
		Log: o.log})
	security := o.config.Security
	security.Optional = o.config.takesTokens()
	people, err := security.ServerCredentials()
	if err != nil {
		return err
	}
	o.server = o.newServer(people)
	o.agents = o.server
	if o.agentListener != nil {
		agents, err := o.config.Security.ServerCredentials()
		if err != nil {
			return err
		}
		o.agents = o.newServer(agents)
		reflection.Register(o.agents)
	}
	agents := o.intake.Registrar(o.agents)
	o.streams.Register(agents)
	answers := &live{o}
	if o.config.SharePools {
		own, err := o.config.Security.ClientCredentials()
		if err != nil {
			return err
		}
		o.peers = newPeers(answers, own)
		controlv1.RegisterPeerServiceServer(agents, o.peers)
	}
	api := func(to grpc.ServiceRegistrar) {
		server := quota.New(o.store, answers).Audit(changes, access.Who).Stored(o.traces.stored).
			Bound(access.Ceilings{}).Minor(access.Minor).Reads(access.ReadsOnly)
		if o.config.AuditRequired {
			server.AuditFirst()
		}
		server.Register(to)
		quotav1.RegisterAccessServiceServer(to, access.NewServer(o.guard))
	}
	api(o.intake.Registrar(o.server))
	reflection.Register(o.server)
	if o.restListener != nil {
		if o.rest, err = o.newHTTP(security, api); err != nil {
			return err
		}
	}
	if o.console.listener == nil {
		return nil
	}
	return o.serveConsole(security, api)
}

// newServer makes a gRPC server that has the health service alone.
func (o *Coordinator) newServer(secure credentials.TransportCredentials) *grpc.Server {
	s := grpc.NewServer(append(o.intake.ServerOptions(),
		grpc.Creds(secure),
		grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithMeterProvider(o.metrics.Provider()))),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(o.config.ShutdownTimeout), // a stop waits for handshakes, too
	)...)
	grpc_health_v1.RegisterHealthServer(o.intake.Registrar(s), o.health)
	return s
}

// newHTTP makes an HTTP server of the admin API.
func (o *Coordinator) newHTTP(security telemetry.Security, api func(grpc.ServiceRegistrar)) (*http.Server, error) {
	secure, err := security.ServerTLS()
	if err != nil {
		return nil, err
	}
	own, _, err := net.SplitHostPort(o.config.Advertise)
	if err != nil {
		return nil, err
	}
	s := rest.New(rest.Options{Interceptors: append([]grpc.UnaryServerInterceptor{o.intake.Recover}, o.unary()...),
		Admit: o.admit, Bounds: bounds, Room: o.intake, Anyone: o.guard == nil,
		Names: []string{own}, Answered: o.instruments.answered})
	api(s)
	handler, err := s.Handler()
	if err != nil {
		return nil, err
	}
	return &http.Server{Handler: handler, TLSConfig: secure, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: restReadTimeout, WriteTimeout: 2 * restReadTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxRestHeaders, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxRestCalls},
		ErrorLog: slog.NewLogLogger(o.log.Handler(), slog.LevelDebug)}, nil
}

// runHTTP answers over HTTP until ctx ends.
func (o *Coordinator) runHTTP(ctx context.Context, server *http.Server, at net.Listener) error {
	if err := telemetry.ServeHTTP(ctx, server, at, o.config.ShutdownTimeout); err != nil {
		return fmt.Errorf("HTTP server on %s: %w", at.Addr(), err)
	}
	return nil
}

func serveOn(s *grpc.Server, at net.Listener) error {
	if err := s.Serve(at); err != nil {
		return fmt.Errorf("gRPC server on %s: %w", at.Addr(), err)
	}
	return nil
}
