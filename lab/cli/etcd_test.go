package cli

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/titrate/titrate/lab/installation"
	titrate "github.com/titrate/titrate/services/cli"
)

// out is a writer that hands on what is written.
type out chan string

func (o out) Write(b []byte) (int, error) {
	o <- string(b)
	return len(b), nil
}

func TestEtcdServesUntilItIsStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	cmd, said, done := newEtcd(), make(out, 16), make(chan error, 1)
	cmd.SetArgs([]string{"--data-dir", t.TempDir(), "--client-url", "http://127.0.0.1:0", "--listen-peer",
		"127.0.0.1:0"})
	cmd.SetOut(said)
	cmd.SetErr(io.Discard)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	select {
	case line := <-said:
		url, ok := strings.CutPrefix(strings.TrimSpace(line), "etcd is ready at ")
		if answer, err := http.Get(url + "/health"); !ok || err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("it says %q; health %v %v", line, answer, err)
		}
	case err := <-done:
		t.Fatalf("etcd ended: %v", err)
	case <-time.After(etcdStart):
		t.Fatal("no ready line")
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("stop: %v", err)
	}
}

// etcd waits seven seconds for a watch to end, and the watch of a client that lives on does not end.
func TestEtcdStopsBesideAWatch(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	config, err := etcdConfig(t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", "error")
	if err != nil {
		t.Fatal(err)
	}
	at, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- runEtcd(ctx, config, func(address string) { at <- address }) }()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{<-at}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if created := <-client.Watch(t.Context(), "key", clientv3.WithCreatedNotify()); !created.Created {
		t.Fatalf("%+v", created)
	}
	start := time.Now()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("it stopped after %v, want less than a second on an idle machine", took)
	}
}

// At each stop etcd logged that setting up serving had failed, since its listeners are closed.
func TestEtcdLogsNoErrorAtANormalStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	config, err := etcdConfig(t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", "error")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "log")
	logger, err := etcdLogger("error", file)
	if err != nil {
		t.Fatal(err)
	}
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	if err := runEtcd(ctx, config, func(string) { stop() }); err != nil {
		t.Error(err)
	}
	if log, err := os.ReadFile(file); err != nil || len(log) > 0 {
		t.Errorf("log %q, %v; want an empty one", log, err)
	}
}

func TestEtcdRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--data-dir is required": nil,
		"not a loopback address": {"--data-dir", t.TempDir(), "--listen", "0.0.0.0:2379"},
		"want debug, info":       {"--data-dir", t.TempDir(), "--log-level", "loud"},
		"want host:port":         {"--data-dir", t.TempDir(), "--peer-url", "http://localhost"},
	} {
		cmd := newEtcd()
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage = true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// The two commands as dev starts them: the coordinator becomes ready on the etcd.
func TestCoordinatorOnEtcd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ports, err := installation.Addresses(4)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	etcd, coordinator := newEtcd(), titrate.Root()
	etcd.SetArgs([]string{"--data-dir", t.TempDir(), "--listen", ports[0], "--listen-peer", ports[1]})
	coordinator.SetArgs([]string{"coordinator", "--name", "one", "--listen", ports[2], "--admin", ports[3], "--etcd-endpoints",
		"http://" + ports[0], "--log-level", "error"})
	etcd.SetOut(io.Discard)
	go func() { done <- etcd.ExecuteContext(ctx) }()
	go func() { done <- coordinator.ExecuteContext(ctx) }()
	for limit := time.Now().Add(etcdStart); ; {
		if answer, err := http.Get("http://" + ports[3] + "/readyz"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(limit) {
			t.Fatal("never ready")
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
