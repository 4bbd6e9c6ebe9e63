package rls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"

	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

const (
	// limitsType is the type of the resources that are asked for.
	limitsType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
	// DefaultNode is the node id by which Envoy Gateway knows its rate limit service.
	DefaultNode = "envoy-ratelimit"
	// streamPause is the time between the end of a stream and the next attempt.
	streamPause = time.Second
	// maxConnectPause bounds the time between two attempts to connect.
	maxConnectPause = 5 * time.Second
	// streamPing is the interval at which an idle connection is probed. Servers of gRPC close a connection that is
	// probed more often than every five minutes.
	streamPing = 6 * time.Minute
	// refusalPause is the time before limits are refused: servers send what was refused again
	// at once.
	refusalPause = 5 * time.Second
	// maxReason bounds the reason that a server is sent, in bytes.
	maxReason = 4 << 10
	// maxStateBytes bounds a response, which has all limits.
	maxStateBytes = 32 << 20
)

// XDS is a server of the xDS protocol that has the limits: state of the world, over an
// aggregated stream, as Envoy Gateway serves them.
type XDS struct {
	Address string // host:port; "": there is none
	Node    string // by which the server chooses the limits to send
	// ServerName is the name that the server's certificate must have; "": the host of Address.
	ServerName string
	Dial       []grpc.DialOption // credentials at least
}

// XDSStats is the state of the stream to the xDS server.
type XDSStats struct {
	Connected bool   // the server has answered on the stream that is open
	Lost      uint64 // streams that ended after an answer, ever
	Why       string // the last one ended, or none could be opened; "" while connected
	Version   string // of the limits in force; "" if the server has sent none
}

// subscriber follows an xDS server.
type subscriber struct {
	o     XDS
	read  ratelimitconfig.Options
	load  func(*ratelimitconfig.Config) error
	log   *slog.Logger
	conn  *grpc.ClientConn
	first chan struct{} // closed when the first limits are in force
	refusals

	now   sync.Mutex // guards state
	state XDSStats
}

// subscribe makes a subscriber. It connects when it runs.
func subscribe(o XDS, read ratelimitconfig.Options, load func(*ratelimitconfig.Config) error,
	log *slog.Logger) (*subscriber, error) {
	pauses := backoff.DefaultConfig
	pauses.MaxDelay = maxConnectPause
	if o.ServerName != "" {
		o.Dial = append(slices.Clone(o.Dial), grpc.WithAuthority(o.ServerName))
	}
	conn, err := grpc.NewClient(o.Address, append([]grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: maxConnectPause}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: streamPing}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxStateBytes)),
	}, o.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("--rls-xds %s: %w", o.Address, err)
	}
	return &subscriber{o: o, read: read, load: load, log: log, conn: conn,
		first: make(chan struct{})}, nil
}

// run keeps a stream open until ctx ends.
func (x *subscriber) run(ctx context.Context) {
	defer x.conn.Close()
	for ctx.Err() == nil {
		err := x.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		x.ended(err)
		select {
		case <-ctx.Done():
		case <-time.After(streamPause):
		}
	}
}

// follow opens a stream and takes what comes, until the stream ends. The first request names
// no version: a server that began again counts from 1 again, so that an equal version may have
// other limits.
func (x *subscriber) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(x.conn).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	next := &discovery.DiscoveryRequest{Node: &corev3.Node{Id: x.o.Node}, TypeUrl: limitsType}
	for first := true; ; first = false {
		if err := stream.Send(next); err != nil && !errors.Is(err, io.EOF) { // EOF: Recv says why it has ended
			return err
		}
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if first {
			x.opened()
		}
		if next = x.answer(response); next.GetErrorDetail() != nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(refusalPause):
			}
		}
	}
}

// answer puts the limits of a response in force and acknowledges them, or says what is
// wrong with them; then those before stay.
func (x *subscriber) answer(r *discovery.DiscoveryResponse) *discovery.DiscoveryRequest {
	request := &discovery.DiscoveryRequest{TypeUrl: limitsType, ResponseNonce: r.GetNonce()}
	err := x.take(r)
	news := x.note(err)
	switch {
	case err == nil:
		x.accepted(r.GetVersionInfo())
		x.log.Info("rate limits of the xDS server in force", "server", x.o.Address, "version", r.GetVersionInfo())
	case news:
		x.log.Error("rate limits of the xDS server refused; those before stay in force", "server", x.o.Address,
			"version", r.GetVersionInfo(), "error", err)
	}
	if err != nil {
		request.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: cut(err.Error())}
	}
	request.VersionInfo = x.stats().Version
	return request
}

// cut shortens a reason, which names every mistake.
func cut(reason string) string {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return reason
}

// take puts the limits of a response in force: all of them, or none.
func (x *subscriber) take(r *discovery.DiscoveryResponse) error {
	var errs []error
	all := make([]*rlsconfig.RateLimitConfig, len(r.GetResources()))
	for i, resource := range r.GetResources() {
		all[i] = &rlsconfig.RateLimitConfig{}
		errs = append(errs, resource.UnmarshalTo(all[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b *rlsconfig.RateLimitConfig) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
	c := &ratelimitconfig.Config{}
	for _, one := range all {
		errs = append(errs, c.AddResource(one, x.read))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return x.load(c)
}

func (x *subscriber) opened() {
	x.now.Lock()
	defer x.now.Unlock()
	x.state.Connected, x.state.Why = true, ""
	x.log.Info("stream to the xDS server opened", "server", x.o.Address, "node", x.o.Node)
}

// ended notes why a stream has ended, or could not be opened. The limits stay in force.
func (x *subscriber) ended(err error) {
	x.now.Lock()
	defer x.now.Unlock()
	if x.state.Connected {
		x.state.Lost++
	}
	if x.state.Connected || x.state.Why != err.Error() {
		x.log.Warn("no stream to the xDS server; its limits stay in force", "server", x.o.Address,
			"version", x.state.Version, "error", err)
	}
	x.state.Connected, x.state.Why = false, err.Error()
}

func (x *subscriber) accepted(version string) {
	x.now.Lock()
	defer x.now.Unlock()
	x.state.Version = version
	select {
	case <-x.first:
	default:
		close(x.first)
	}
}

func (x *subscriber) stats() XDSStats {
	x.now.Lock()
	defer x.now.Unlock()
	return x.state
}
