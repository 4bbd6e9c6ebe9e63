package answers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
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
	cmd.Dir, cmd.Env = "../../envoy-filter", append(os.Environ(), "GOWORK=off", "CGO_ENABLED=1")
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
	ports, err := installation.Ports(2)
	if err != nil {
		t.Fatal(err)
	}
	rig, err := installation.NewRig(installation.Programs{Module: filepath.Join(modules, "libtitrate.so")}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	applied := agent(t, rig.File("a"), state)
	edits = append(edits, "/run/titrate/agent.sock", rig.File("a"), "port_value: 10000", fmt.Sprint("port_value: ", ports[0]),
		"port_value: 9901", fmt.Sprint("port_value: ", ports[1]), "port_value: 8080", "port_value: "+upstream)
	config := rig.File("envoy.yaml")
	if err := os.WriteFile(config, []byte(strings.NewReplacer(edits...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	envoy := rig.Server(child.Spec{Name: "envoy", Path: bin, Args: []string{"-c", config, "--concurrency", "1",
		"--log-level", "warn", "--use-dynamic-base-id"},
		Env: []string{"ENVOY_DYNAMIC_MODULES_SEARCH_PATH=" + rig.File("modules")}},
		"http://"+installation.Address(ports[1])+"/ready")
	t.Cleanup(func() {
		rig.Close()
		log, _ := os.ReadFile(envoy.Log())
		if t.Failed() || strings.Contains(string(log), "recovered a panic") {
			t.Errorf("Envoy's log:\n%s", log)
		}
	})
	if err := envoy.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-applied:
	case <-time.After(20 * time.Second):
		t.Fatal("the filter has not taken the limits within 20 s")
	}
	return installation.Address(ports[0])
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
