// Package quotatest serves the admin API for tests.
package quotatest

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
)

// Serve serves an API on loopback until the test ends, with whatever more registers, and returns its address.
func Serve(t testing.TB, api *quota.Server, more ...func(grpc.ServiceRegistrar)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	api.Register(server)
	for _, register := range more {
		register(server)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// Client is a client of an API that is served until the test ends.
func Client(t testing.TB, api *quota.Server) quotav1.QuotaServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(Serve(t, api), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return quotav1.NewQuotaServiceClient(conn)
}
