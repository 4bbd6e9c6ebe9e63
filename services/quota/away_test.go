package quota_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store"
)

// silent is a client of an etcd that takes connections and says nothing.
func silent(t *testing.T) *clientv3.Client {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"etcd:2379"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, there) }()
				return here, nil
			})}})
	if err != nil {
		t.Fatal(err)
	}
	return etcd
}

// Without etcd a caller learns that etcd is what is missing, before its own deadline,
// however many questions the request has for etcd.
func TestWithoutEtcdTheAnswerComesInTime(t *testing.T) {
	for _, granted := range []time.Duration{time.Second, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			etcd, listener := silent(t), bufconn.Listen(1<<20)
			server := grpc.NewServer(grpc.ChainUnaryInterceptor(quota.InTime))
			quota.New(store.Open(etcd, ""), nil).
				Audit(slog.New(slog.DiscardHandler), func(context.Context) string { return "" }).Register(server)
			go func() { _ = server.Serve(listener) }()
			conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					return listener.DialContext(ctx)
				}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { conn.Close(); server.Stop(); etcd.Close(); listener.Close() }()
			r := &quotav1.ApplyRequest{}
			for _, name := range []string{"tenants/a", "tenants/b", "tenants/c"} {
				r.Resources = append(r.Resources, envelope(&quotav1.Tenant{Name: name, Weight: 1}))
			}
			ctx, cancel := context.WithTimeout(t.Context(), granted)
			defer cancel()
			_, err = quotav1.NewQuotaServiceClient(conn).Apply(ctx, r)
			wantCode(t, err, codes.Unavailable, "etcd did not answer in time")
		})
	}
}
