// Package storetest gives tests a real etcd: the server itself, embedded, in a
// temporary directory, on free loopback ports. There is no mock of etcd.
//
// One server per test binary is started at the first use and stopped by Main;
// tests keep apart by a prefix of their own:
//
//	func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
//	func TestX(t *testing.T)    { s := storetest.Open(t); … }
//
// A test that stops etcd starts a server of its own with Start.
package storetest

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/titrate/titrate/services/store"
)

// Etcd is a running server.
type Etcd struct {
	// Endpoint is its client address, host:port.
	Endpoint string
	server   *embed.Etcd
	dir      string
}

// startTimeout is generous: a loaded machine must not fail a test.
const startTimeout = 30 * time.Second

// Start runs a server on the data directory. listen is host:port for clients;
// port 0 takes a free one.
func Start(dir, listen string) (*Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.UnsafeNoFsync = true // nothing to survive but a stop in order
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	client, peer := url.URL{Scheme: "http", Host: listen}, url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		server.Close()
		return nil, fmt.Errorf("etcd stopped at start: %w", err)
	case <-time.After(startTimeout):
		server.Close()
		return nil, fmt.Errorf("etcd not ready after %s", startTimeout)
	}
	return &Etcd{Endpoint: server.Clients[0].Addr().String(), server: server, dir: dir}, nil
}

// Stop ends the server; its data stays for another Start on the directory.
func (e *Etcd) Stop() { e.server.Close() }

// Dir is its data directory.
func (e *Etcd) Dir() string { return e.dir }

// Client connects to the server; the test closes it at its end.
func (e *Etcd) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := store.Dial([]string{e.Endpoint}, nil)
	if err != nil {
		t.Fatalf("etcd client: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var shared struct {
	once sync.Once
	etcd *Etcd
	dir  string
	err  error
}

// Main runs a package's tests and stops the shared server. It returns the exit
// status.
func Main(m *testing.M) int {
	status := m.Run()
	if shared.etcd != nil {
		shared.etcd.Stop()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	return status
}

// Shared returns the server of this test binary.
func Shared(t testing.TB) *Etcd {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "titrate-etcd-"); shared.err == nil {
			shared.etcd, shared.err = Start(shared.dir, "127.0.0.1:0")
		}
	})
	if shared.err != nil {
		t.Fatalf("etcd: %v", shared.err)
	}
	return shared.etcd
}

// Prefix returns a key prefix for this test alone.
func Prefix(t testing.TB) string {
	return "/test/" + strings.ReplaceAll(t.Name(), "/", "-") + "/" + fmt.Sprint(time.Now().UnixNano()) + "/"
}

// Open returns a store on the shared server, under a prefix of this test alone.
func Open(t testing.TB) *store.Store {
	t.Helper()
	return store.Open(Shared(t).Client(t), Prefix(t))
}
