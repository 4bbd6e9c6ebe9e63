package cli

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// named is a coordinator that answers with its name.
type named struct {
	quotav1.UnimplementedQuotaServiceServer
	name   string
	health *health.Server
}

// GetPool implements quotav1.QuotaServiceServer.
func (n *named) GetPool(context.Context, *quotav1.GetPoolRequest) (*quotav1.Pool, error) {
	return &quotav1.Pool{Name: n.name}, nil
}

func (n *named) leads(is bool) {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if is {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	n.health.SetServingStatus(controlv1.ControlService_ServiceDesc.ServiceName, status)
}

// The operator asks the coordinator that leads, whichever it is: the others know no gateways.
func TestTheLeaderIsAsked(t *testing.T) {
	addresses := manual.NewBuilderWithScheme("coordinators")
	var all []*named
	var at []resolver.Address
	for _, name := range []string{"one", "two"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		n, server := &named{name: name, health: health.NewServer()}, grpc.NewServer()
		quotav1.RegisterQuotaServiceServer(server, n)
		grpc_health_v1.RegisterHealthServer(server, n.health)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		all, at = append(all, n), append(at, resolver.Address{Addr: listener.Addr().String()})
	}
	addresses.InitialState(resolver.State{Addresses: at})
	conn, err := grpc.NewClient("coordinators:///", grpc.WithResolvers(addresses), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(atLeader), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func() (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		p, err := quotav1.NewQuotaServiceClient(conn).GetPool(ctx, &quotav1.GetPoolRequest{})
		return p.GetName(), err
	}
	until := func(what string, is func(string, error) bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			name, err := ask()
			if is(name, err) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("want %s, and %q answers: %v", what, name, err)
			}
		}
	}
	for _, leader := range []string{"two", "one"} {
		for _, n := range all {
			n.leads(n.name == leader)
		}
		until(leader, func(name string, _ error) bool { return name == leader })
		for range 10 {
			if name, err := ask(); name != leader {
				t.Errorf("%s leads, and %q answers: %v", leader, name, err)
			}
		}
	}
	for _, n := range all {
		n.leads(false)
	}
	until("nobody", func(_ string, err error) bool {
		return err != nil && strings.Contains(cause(err.Error()), "no coordinator there leads")
	})
}
