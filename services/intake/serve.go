package intake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// Serving says how a service is served.
type Serving struct {
	Name     string // of the service, in errors
	Service  string // its full name in gRPC
	Stop     func() // called when the server stops, before it waits for requests under way
	StopWait time.Duration
}

// Serve answers on the listener until ctx ends, with gRPC's services of health and reflection. Requests under way then
// have StopWait.
func (i *Intake) Serve(ctx context.Context, server *grpc.Server, listener net.Listener, o Serving) error {
	live := health.NewServer()
	live.SetServingStatus(o.Service, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(i.Registrar(server), live)
	reflection.Register(server)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		live.Shutdown()
		o.Stop()
		force := time.AfterFunc(o.StopWait, server.Stop)
		defer force.Stop()
		server.GracefulStop()
	})
	err := server.Serve(listener)
	if !stop() {
		<-stopped
	}
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("%s on %s: %w", o.Name, listener.Addr(), err)
	}
	return nil
}
