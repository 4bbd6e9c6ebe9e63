package answers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// module builds the filter once and returns its folder.
var module = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "titrate-answers")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-o", filepath.Join(dir, "libtitrate.so"),
		".")
	cmd.Dir, cmd.Env = "../../envoy-filter", append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build the filter: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv("ENVOY_BIN") != "" {
		if dir, _ := module(); dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// limits is a configuration of one pool and a tenant "acme".
func limits(list ...config.Limit) []link.Message {
	return []link.Message{
		&config.Config{Revision: 1, Seed: 7, Pools: []config.Pool{{Name: "api", Capacity: 1e5}},
			Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: list}}},
		&exchange.Shares{Epoch: 1, Revision: 1, Flows: []exchange.Share{{Tenant: "acme", Pool: "api", Share: 1e4}}},
		&exchange.Sums{Full: true, Replicas: 1, TotalWeight: 1, Weight: 1},
	}
}

// log is Envoy's output; safe to read while Envoy runs.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// gateway starts Envoy between the caller and an upstream's port, and returns the
// address to call once the limits are in force.
func gateway(t *testing.T, upstream string, state []link.Message, edits ...string) string {
	t.Helper()
	bin := os.Getenv("ENVOY_BIN")
	if bin == "" {
		t.Skip("ENVOY_BIN is not set to an Envoy binary (1.38, 1.39 or 1.40)")
	}
	modules, err := module()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../envoy-filter/examples/answers-grpc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	socket, admin, config := filepath.Join(dir, "a"), filepath.Join(dir, "admin"), filepath.Join(dir, "envoy.yaml")
	applied := agent(t, socket, state)
	edits = append(edits, "/run/titrate/agent.sock", socket, "port_value: 10000", "port_value: 0",
		"port_value: 9901", "port_value: 0", "port_value: 8080", "port_value: "+upstream)
	if err := os.WriteFile(config, []byte(strings.NewReplacer(edits...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &log{}
	cmd := exec.Command(bin, "-c", config, "--admin-address-path", admin, "--concurrency", "1", "--log-level", "warn",
		"--use-dynamic-base-id")
	cmd.Env = append(os.Environ(), "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+modules)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() || strings.Contains(out.String(), "recovered a panic") {
			t.Errorf("Envoy's log:\n%s", out)
		}
	})
	return front(t, admin, applied)
}

// front waits for the limits and returns the listener's address.
func front(t *testing.T, admin string, applied <-chan struct{}) string {
	t.Helper()
	select {
	case <-applied:
	case <-time.After(20 * time.Second):
		t.Fatal("the filter has not taken the limits within 20 s")
	}
	var found struct {
		Statuses []struct {
			Address struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if address, err := os.ReadFile(admin); err == nil {
			if resp, err := http.Get("http://" + string(address) + "/listeners?format=json"); err == nil {
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if json.Unmarshal(b, &found) == nil && len(found.Statuses) == 1 &&
					found.Statuses[0].Address.Socket.Port > 0 {
					address := fmt.Sprintf("127.0.0.1:%d", found.Statuses[0].Address.Socket.Port)
					// it takes no traffic before its configuration
					if conn, err := net.Dial("tcp", address); err == nil {
						conn.Close()
						return address
					}
				}
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("Envoy has no listener after 20 s")
	return ""
}

// agent acts as `titrate agent`; applied is closed when the filter has reported that the configuration is in
// force.
func agent(t *testing.T, socket string, state []link.Message) (applied <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	done := make(chan struct{})
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		w := link.NewWriter(conn)
		for _, m := range append([]link.Message{&link.Hello{Version: link.Version, Replica: "agent", Generation: 1,
			Weight: 1}}, state...) {
			if err := w.Write(m); err != nil {
				return
			}
		}
		var once sync.Once
		for r := link.NewReader(conn); ; {
			m, err := r.Next()
			if err != nil {
				return
			}
			if beat, ok := m.(*link.Heartbeat); ok {
				if beat.Revision > 0 {
					once.Do(func() { close(done) })
				}
				if w.Write(&link.Heartbeat{}) != nil {
					return
				}
			}
		}
	}()
	return done
}
