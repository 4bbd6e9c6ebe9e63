package rls

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/titrate/titrate/lab/installation/child"
	"github.com/titrate/titrate/services/agent"
	"github.com/titrate/titrate/services/rls"
)

// patience is the longest time until a process is ready.
const patience = 30 * time.Second

// ours starts an agent that serves the API with files by name; stop ends it.
func ours(t *testing.T, files map[string]string, o rls.Options) (address string, stop func()) {
	t.Helper()
	o.Dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	a, err := agent.Config{Name: "a", Socket: filepath.Join(t.TempDir(), "s"), Gossip: "127.0.0.1:0",
		Admin: "127.0.0.1:0", RLS: agent.RLS{Address: "127.0.0.1:0", Options: o},
		Log: slog.New(slog.DiscardHandler)}.Complete(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = func() {
		if cancel != nil {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			cancel = nil
		}
	}
	t.Cleanup(stop)
	return a.RLSAddress(), stop
}

func client(t *testing.T, address string) api.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return api.NewRateLimitServiceClient(conn)
}

// group is a set of processes that end with the test.
func group(t *testing.T) *child.Group {
	t.Helper()
	g := child.NewGroup()
	t.Cleanup(g.Close)
	return g
}

// binary is a program that the environment names; without it the test is skipped.
func binary(t *testing.T, variable, remedy string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set: %s", variable, remedy)
	}
	return path
}
