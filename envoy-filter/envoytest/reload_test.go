package envoytest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// With a wrong configuration Envoy does not start, and logs the field.
func TestBadConfigurationRefused(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change edit
		want   string
	}{
		"unknown filter field": {edit{"pool: { literal: api }", "pol: { literal: api }"}, "field pol is unknown"},
		"bad source": {edit{"tenant: { header: x-tenant }", "tenant: { heder: x-tenant }"},
			"field tenant.heder is unknown"},
		"bad route": {edit{"{ cost: { literal: 10 } }", "{ cost: { literal: -10 } }"},
			"field cost.literal is -10"},
		"unknown bootstrap": {edit{"weight: 1", "wight: 1"}, "field wight is unknown"},
		"bad policy":        {edit{"boot_policy: OPEN", "boot_policy: AJAR"}, `field boot_policy is "AJAR"`},
		"other extension": {edit{"extension_name: titrate", "extension_name: tritate"},
			`extension_name is "tritate"`},
		"wrong filter name": {edit{"filter_name: titrate\n              filter_config",
			"filter_name: titrat\n              filter_config"}, `filter_name is "titrat"`},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := spawn(t, nil, c.change)
			select {
			case <-e.exited:
			case <-time.After(15 * time.Second):
				t.Fatalf("Envoy runs with a wrong configuration:\n%s", e.log)
			}
			if e.err == nil || !strings.Contains(e.log.String(), c.want) {
				t.Fatalf("ended with %v, want %q in the log:\n%s", e.err, c.want, e.log)
			}
		})
	}
}

// --mode validate reads everything and starts nothing.
func TestValidateMode(t *testing.T) {
	t.Parallel()
	bin := needEnvoy(t)
	for text, want := range map[string]string{
		example(t): " OK",
		example(t, edit{"client: [{ header", "client: [{ hedder"}): "field client[0].hedder is unknown",
		example(t, edit{"keys: 1000000", "keys: 12"}):              "field keys is 12",
	} {
		file := filepath.Join(t.TempDir(), "envoy.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bin, "--mode", "validate", "-c", file)
		cmd.Env = append(os.Environ(), "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+module)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (want == " OK") || !strings.Contains(string(out), want) {
			t.Errorf("want %q, got %v:\n%s", want, err, out)
		}
	}
}

// reloadable starts an Envoy that reads its listener from a file: resource is the file's content, put replaces
// it.
func reloadable(t *testing.T) (e *envoy, resource string, put func(text string)) {
	t.Helper()
	needEnvoy(t)
	text := example(t)
	listeners := regexp.MustCompile(`(?s)  listeners:\n(  - name: ingress.*?)\n\n  clusters:`).FindStringSubmatch(text)
	if listeners == nil {
		t.Fatal("the example's listener is not where it was")
	}
	resource = strings.Replace(strings.ReplaceAll(listeners[1], "\n  ", "\n"), "  - name: ingress",
		"resources:\n- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  name: ingress", 1)
	file := filepath.Join(t.TempDir(), "lds.yaml")
	put = func(text string) {
		text = strings.ReplaceAll(text, "port_value: 10000", "port_value: 0")
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	put(resource)
	inline := strings.ReplaceAll(listeners[0], "port_value: 10000", "port_value: 0")
	e = launch{example: quickstart, concurrency: 2, edits: []edit{{inline, "\n  clusters:"}, {"static_resources:",
		"node: { id: test, cluster: test }\ndynamic_resources:\n  lds_config: { path_config_source: { path: " + file +
			" } }\nstatic_resources:"}}}.spawn(t)
	e.serve()
	return e, resource, put
}

// A listener that is updated with a wrong configuration keeps the previous one. A listener that is updated with
// a good configuration loses no state.
func TestReload(t *testing.T) {
	t.Parallel()
	e, resource, put := reloadable(t)
	startAgent(t, e.socket, setup(1, config.Queue{}, limited("acme", 0.01, 5))...)
	e.eventually("the configuration", func() bool { return e.metric("titrate_config_revision{}") > 0 })
	for range 5 {
		e.get("/", "x-tenant", "acme")
		e.get("/", "x-tenant", "acme", "x-client", "anonymous")
	}
	put(strings.Replace(resource, "pool: { literal: api }", "pool: { litteral: api }", 1))
	e.eventually("the refusal", func() bool { return e.metric("envoy_listener_manager_lds_update_rejected{}") >= 1 })
	e.logged("field pool.litteral is unknown")
	if a := e.get("/", "x-tenant", "acme"); a.status != 429 {
		t.Errorf("after a refused update: %+v", a)
	}
	put(strings.Replace(resource, "literal: anonymous", "literal: nobody", 1))
	e.eventually("the update", func() bool { return e.metric("envoy_listener_manager_lds_update_success{}") >= 2 })
	e.serve()
	e.eventually("the new client", func() bool { return e.get("/", "x-tenant", "acme").status == 200 })
	if a := e.get("/", "x-tenant", "acme", "x-client", "anonymous"); a.status != 429 {
		t.Errorf("the update forgot a client: %+v", a)
	}
	e.alive()
}

// The agent's messages are in force, except invalid ones; without the agent the filter keeps working.
func TestAgentLink(t *testing.T) {
	t.Parallel()
	e, a := linked(t, setup(1, config.Queue{}, limited("acme", 0.01, 3)))
	if h := a.hellos[0]; h.Replica != "gw-1" || h.Weight != 1 || h.PID != e.cmd.Process.Pid || h.Generation == 0 {
		t.Errorf("the filter's hello: %+v", h)
	}
	spend := func(client string) (admitted int) {
		for range 6 {
			if e.get("/", "x-tenant", "acme", "x-client", client).status == 200 {
				admitted++
			}
		}
		return admitted
	}
	if n := spend("one"); n != 3 {
		t.Errorf("%d admitted at a burst of 3", n)
	}
	a.send(setup(2, config.Queue{}, limited("acme", 0.01, 5))...)
	e.eventually("revision 2", func() bool { return a.lastHeartbeat().Revision == 2 })
	if n := spend("two"); n != 5 {
		t.Errorf("%d admitted at a burst of 5", n)
	}
	a.send(&config.Config{Revision: 3, Pools: []config.Pool{{Name: "api", Capacity: -1}}})
	e.eventually("the refusal of revision 3", func() bool { return a.lastHeartbeat().Refused == 3 })
	if b := a.lastHeartbeat(); b.Revision != 2 || b.Reason == "" {
		t.Errorf("after a wrong configuration: %+v", b)
	}
	a.send(setup(4, config.Queue{}, limited("acme", 0.01, 2))...)
	sessions := a.sessions()
	a.sendGarbage(bytes.Repeat([]byte{0xff}, 64))
	e.eventually("a new link", func() bool { return a.sessions() > sessions && a.lastHeartbeat().Revision == 4 })
	e.eventually("the counters", func() bool {
		return e.metric("titrate_link_malformed_total{}") == 1 && e.metric("titrate_config_refused_total{}") == 1
	})
	a.kill()
	e.eventually("the loss", func() bool { return e.metric("titrate_link_connected{}") == 0 })
	if n := spend("three"); n != 2 {
		t.Errorf("%d admitted at a burst of 2 without an agent", n)
	}
	if err := os.RemoveAll(e.socket); err != nil {
		t.Fatal(err)
	}
	startAgent(t, e.socket, setup(5, config.Queue{}, limited("acme", 0.01, 4))...)
	e.eventually("another agent", func() bool { return e.metric("titrate_config_revision{}") == 5 })
	e.alive()
}

// A process has room for one Go runtime.
func TestOtherGoModuleRefused(t *testing.T) {
	t.Parallel()
	needEnvoy(t)
	dir := t.TempDir()
	source := "package main\nimport \"C\"\n//export other\nfunc other() {}\nfunc main() {}\n"
	for name, text := range map[string]string{"main.go": source, "go.mod": "module other\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := build(filepath.Join(dir, "libother.so"), dir); err != nil {
		t.Fatal(err)
	}
	e := spawn(t, []string{"LD_PRELOAD=" + filepath.Join(dir, "libother.so")})
	select {
	case <-e.exited:
	case <-time.After(15 * time.Second):
		t.Fatalf("Envoy runs with two Go runtimes:\n%s", e.log)
	}
	if !strings.Contains(e.log.String(), "libother.so carries a Go runtime") {
		t.Fatalf("the other module is not named:\n%s", e.log)
	}
}
