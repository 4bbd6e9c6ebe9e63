package containers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	// prometheusImage is the image of docker-compose.yml. If it is not available, Debian's Prometheus runs in
	// debianImage instead.
	prometheusImage = "prom/prometheus:v3.5.0"
	debianImage     = "debian:bookworm-slim"
	// composePatience is the time that the test waits for states that take seconds on an idle machine.
	composePatience = 4 * time.Minute
)

// compose is docker-compose.yml in the test's own containers.
type compose struct {
	program    []string
	prometheus string // host:port
}

// The Prometheus of docker-compose.yml scrapes all that runs there, records the series of its rules, and
// an alert of theirs fires while there is no coordinator. Grafana is left out.
func TestComposeIsObserved(t *testing.T) {
	requireEngine(t)
	c := startCompose(t)
	c.until(t, "eight targets are up", "sum(up) == 8")
	c.until(t, "recorded series show the load", `titrate:pool_use:ratio{pool="api"} > 0`)
	if c.holds(t, `ALERTS{alertstate="firing",severity="critical"}`) {
		t.Error("a critical alert fires although all is well")
	}
	const fires = `ALERTS{alertname="TitrateNoLeader",alertstate="firing"}`
	c.run(t, "stop", "-t", "2", "coordinator")
	c.until(t, "TitrateNoLeader fires", fires)
	c.run(t, "start", "coordinator")
	c.until(t, "TitrateNoLeader ends", "absent("+fires+")")
}

// startCompose starts the profile observe; the test's end stops it.
func startCompose(t *testing.T) *compose {
	t.Helper()
	c := &compose{}
	for _, program := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.Command(program[0], append(program[1:], "version")...).Run() == nil {
			c.program = program
			break
		}
	}
	if c.program == nil {
		t.Skip("no docker compose: tools/sh/need.sh docker-compose installs Debian's")
	}
	file := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, composeFile(t), 0o600); err != nil {
		t.Fatal(err)
	}
	c.program = append(c.program, "-p", fmt.Sprintf("titrate-test-%d", os.Getpid()), "-f", file, "--profile", "observe")
	t.Cleanup(func() { c.run(t, "down", "-v", "-t", "2") })
	c.run(t, "up", "-d")
	c.prometheus = strings.TrimSpace(c.run(t, "port", "prometheus", "9090"))
	return c
}

// composeFile is docker-compose.yml without Grafana, and with one port of this machine only: Prometheus', a
// free one.
func composeFile(t *testing.T) []byte {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Services map[string]map[string]any
		Networks map[string]any
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	delete(all.Services, "grafana")
	for _, s := range all.Services {
		delete(s, "build")
		delete(s, "ports")
		volumes, _ := s["volumes"].([]any)
		absolute := make([]any, 0, len(volumes)) // services share lists
		for _, v := range volumes {
			if name := v.(string); strings.HasPrefix(name, "./") {
				v = filepath.Join(root, name)
			}
			absolute = append(absolute, v)
		}
		s["volumes"] = absolute
	}
	s := all.Services["prometheus"]
	s["ports"] = []string{"127.0.0.1::9090"}
	if s["image"] != prometheusImage {
		t.Fatalf("docker-compose.yml has %v, this test %s", s["image"], prometheusImage)
	}
	if _, err := engine(t).ImageInspect(t.Context(), prometheusImage); err != nil {
		program, err := exec.LookPath("prometheus")
		if err == nil {
			_, err = engine(t).ImageInspect(t.Context(), debianImage)
		}
		if err != nil {
			t.Skipf("no image %s, and for Debian's Prometheus (tools/sh/need.sh promtool) in %s: %v", prometheusImage,
				debianImage, err)
		}
		s["image"], s["entrypoint"] = debianImage, []string{"/usr/bin/prometheus"}
		s["volumes"] = append(s["volumes"].([]any), program+":/usr/bin/prometheus:ro")
	}
	out, err := yaml.Marshal(map[string]any{"version": "3.9", "services": all.Services, "networks": all.Networks,
		"volumes": all.Volumes})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run runs a command of compose, and returns what it says.
func (c *compose) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(c.program[0], append(c.program[1:len(c.program):len(c.program)], args...)...).Output()
	if err != nil {
		said := ""
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			said = string(failed.Stderr)
		}
		t.Fatalf("compose %v: %v\n%s%s", args, err, out, said)
	}
	return string(out)
}

// holds reports whether a query has a result.
func (c *compose) holds(t *testing.T, query string) bool {
	t.Helper()
	resp, err := http.Get("http://" + c.prometheus + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return false // it starts
	}
	defer resp.Body.Close()
	var got struct{ Data struct{ Result []any } }
	return json.NewDecoder(resp.Body).Decode(&got) == nil && len(got.Data.Result) > 0
}

// until waits until a query has a result.
func (c *compose) until(t *testing.T, what, query string) {
	t.Helper()
	for deadline := time.Now().Add(composePatience); !c.holds(t, query); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s (%s)\n%s", composePatience, what, query, c.run(t, "ps"))
		}
	}
}
