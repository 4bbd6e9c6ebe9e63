package installation

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestPortsAreDifferentAndFree(t *testing.T) {
	all, err := Ports(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range all {
		if seen[p] || p < Lowest || p >= Highest {
			t.Errorf("port %d", p)
		}
		seen[p] = true
		if back := Port(Address(p)); back != p {
			t.Errorf("the port of %s is %d", Address(p), back)
		}
	}
}

func TestTryTellsTCPFromUDP(t *testing.T) {
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	port := packets.LocalAddr().(*net.UDPAddr).Port
	if err := Try(port, true); err == nil || err.Error() != "is taken" {
		t.Errorf("UDP: %v", err)
	}
}

func TestEnvoyFindsTheFilter(t *testing.T) {
	dir := t.TempDir()
	r, err := NewRig(Programs{Module: "/a/module.so"}, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if to, err := os.Readlink(filepath.Join(dir, "modules/libtitrate.so")); err != nil || to != "/a/module.so" {
		t.Error(to, err)
	}
	s, err := r.Envoy(Envoy{Name: "gw-1", Filter: Titrate})
	if err != nil || !slices.Contains(s.Spec.Env, "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+dir+"/modules") {
		t.Error(s, err)
	}
}

func TestBootstrapIsYAMLWhateverThePaths(t *testing.T) {
	socket := "/tmp/with: \"quotes\" #and more/agent.sock"
	text, err := Envoy{Name: "gw-1", Filter: Titrate, Socket: socket, Port: 1, Admin: 2, Upstream: 3}.Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Bootstrap []struct {
			Config struct {
				Extension struct {
					Value map[string]any `yaml:"value"`
				} `yaml:"extension_config"`
			} `yaml:"typed_config"`
		} `yaml:"bootstrap_extensions"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if got := doc.Bootstrap[0].Config.Extension.Value["agent_socket"]; got != socket {
		t.Errorf("agent_socket %q", got)
	}
}

// Each filter, and each thing that may be added, leaves a document that can be read.
func TestEveryBootstrapIsYAML(t *testing.T) {
	for _, filter := range []Filter{Plain, Local, Dynamic, Remote, Titrate} {
		for _, e := range []Envoy{{}, {Upstream: 1, Sign: true}, {Stamp: true, Keys: 5, PoolHeader: true}, {Routes: "/a b"},
			{Limits: []Limit{{"a", 1}}, RateLimit: 7, AnyProtocol: true}} {
			e.Name, e.Filter = "gw-1", filter
			text, err := e.Bootstrap()
			var doc map[string]any
			if err == nil {
				err = yaml.Unmarshal([]byte(text), &doc)
			}
			if err != nil {
				t.Errorf("%+v: %v\n%s", e, err, text)
			}
		}
	}
}

func TestGetWantsSuccess(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("because"))
	}))
	defer s.Close()
	if body, err := Get(context.Background(), s.Client(), s.URL+"/good"); body != "because" || err != nil {
		t.Error(body, err)
	}
	_, err := Get(context.Background(), s.Client(), s.URL+"/bad")
	if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "because") {
		t.Error(err)
	}
}
