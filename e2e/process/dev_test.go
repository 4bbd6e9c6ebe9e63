package process

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
)

// Exit statuses of `titrate-lab dev`.
const (
	passed = 0
	failed = 1
	void   = 3
)

// devArgs are a run of dev with the files under test.
func (b binaries) devArgs(more ...string) []string {
	return append([]string{"dev", "--envoy", b.envoy, "--module", b.module}, more...)
}

// dev starts titrate-lab dev in a sandbox.
func (b binaries) dev(s *sandbox, log string, more ...string) *child.Process {
	s.t.Helper()
	return s.launch(child.Spec{Name: "dev", Path: b.lab, Args: b.devArgs(more...), Log: log})
}

// TestDemo is the demo as users run it, only shorter, and once. A void run says nothing of Titrate: the
// test is skipped, as nothing was judged.
func TestDemo(t *testing.T) {
	b := need(t)
	files, s := t.TempDir(), newSandbox(t)
	verdict, lines, again := filepath.Join(files, "verdict.json"), filepath.Join(files, "trace.ndjson"),
		filepath.Join(files, "again.json")
	log := filepath.Join(files, "log")
	p := b.dev(s, log, "--duration", "36s", "--json", verdict, "--trace", lines)
	status := exited(t, p, 3*time.Minute)
	v := read(t, verdict)
	if isVoid := status == void; v["void"] != isVoid || v["pass"] != (status == passed) {
		t.Errorf("exit status %d, pass %v, void %v", status, v["pass"], v["void"])
	}
	if status == failed {
		t.Errorf("broken: %v; the last lines:\n%s", broken(v), child.Tail(log, 3))
	}
	complete(t, v)
	status2, _, complaint := b.laboratory(t, "dev", "--recompute", lines, "--json", again)
	if status2 != status {
		t.Errorf("judged again: exit status %d, in the run %d: %s", status2, status, complaint)
	}
	if w := read(t, again); !reflect.DeepEqual(v, w) {
		t.Errorf("the verdict recomputed from the trace differs:\n%v\nin the run\n%v", w, v)
	}
	upstreamAgrees(t, lines)
	if status == passed {
		s.empty()
	}
	if s.processesGone(); status == void {
		t.Skipf("void: %v", v["voidReasons"])
	}
}

func read(t *testing.T, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, data)
	}
	return v
}

// complete checks that the JSON has all documented fields.
func complete(t *testing.T, v map[string]any) {
	t.Helper()
	list := func(in map[string]any, key string) []map[string]any {
		all, _ := in[key].([]any)
		var out []map[string]any
		for _, x := range all {
			out = append(out, x.(map[string]any))
		}
		if len(out) == 0 {
			t.Errorf("no %s in %v", key, in)
		}
		return out
	}
	has := func(in map[string]any, fields ...string) {
		for _, f := range fields {
			if _, ok := in[f]; !ok {
				t.Errorf("no field %q in %v", f, in)
			}
		}
	}
	phases := list(v, "phases")
	if len(phases) != 5 {
		t.Errorf("%d phases, want steady, hops, greed, coordinator, agent", len(phases))
	}
	for _, p := range phases {
		has(p, "name", "pool", "failed")
		pool, _ := p["pool"].(map[string]any)
		has(pool, "capacity", "offered", "admitted", "maxSliding1s")
		for _, x := range list(p, "tenants") {
			has(x, "name", "weight", "offered", "admitted", "fairShare", "rejected", "marked", "waitMeanMs", "waitP99Ms")
		}
		for _, x := range list(p, "clients") {
			has(x, "name", "rate", "burst", "offered", "admitted", "worstExcess", "wrongful429")
		}
	}
}

// broken returns the checks that did not pass, as in the JSON.
func broken(v map[string]any) []string {
	var out []string
	checks, _ := v["checks"].([]any)
	for _, c := range checks {
		if c, _ := c.(map[string]any); c["pass"] != true {
			out = append(out, fmt.Sprintf("%v of %v %v: %v, bound %v", c["name"], c["phase"], c["subject"], c["value"],
				c["bound"]))
		}
	}
	return out
}

// upstreamAgrees compares the load's trace with the upstream's own: as many
// requests arrived there as the load had answers from there.
func upstreamAgrees(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, records, err := trace.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for i := range records {
		if records[i].At > 0 {
			seen++
		}
	}
	own, err := os.ReadFile(strings.TrimSuffix(path, ".ndjson") + ".upstream.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	if arrived := strings.Count(string(own), "\n"); seen == 0 || seen != arrived {
		t.Errorf("%d requests arrived at the upstream, the load's trace has %d of them", arrived, seen)
	}
	t.Logf("%d requests, of which %d arrived at the upstream", len(records), seen)
}

// TestInterrupt: Ctrl-C during the run ends all processes.
func TestInterrupt(t *testing.T) {
	b, s := need(t), newSandbox(t)
	log := filepath.Join(t.TempDir(), "log")
	p := b.dev(s, log, "--no-load", "--gateways", "2")
	urls := regexp.MustCompile(`gw-\d+ +(http://\S+)`)
	var fronts [][]string
	eventually(t, "dev is ready", 2*patience, func() string {
		text, _ := os.ReadFile(log)
		if fronts = urls.FindAllStringSubmatch(string(text), -1); strings.Contains(string(text), "Ctrl-C") &&
			len(fronts) == 2 {
			return ""
		}
		select {
		case <-p.Exited():
			t.Fatalf("%v", p.Obituary())
		default:
		}
		return "not ready: " + string(text)
	})
	if n := len(s.processes()); n != 1+3+2*2 {
		t.Errorf("%d processes run, want dev, etcd, coordinator, upstream, 2 agents, 2 Envoys: %v", n, s.processes())
	}
	text, _ := os.ReadFile(log)
	rest := regexp.MustCompile(`curl (http://\S+/v1alpha1/pools) `).FindStringSubmatch(string(text))
	if rest == nil {
		t.Fatalf("no address of the API over HTTP: %s", text)
	}
	answer, err := http.Get(rest[1])
	if err != nil {
		t.Fatal(err)
	}
	pools, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(pools), `"name":"pools/`) {
		t.Errorf("GET %s: %s %s", rest[1], answer.Status, pools)
	}
	began := time.Now()
	if err := syscall.Kill(p.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status := exited(t, p, patience); status != passed {
		t.Errorf("%v", p.Obituary())
	}
	t.Logf("ended %.2f s after SIGINT", time.Since(began).Seconds())
	s.empty()
	for _, front := range fronts {
		address := strings.Trim(strings.TrimPrefix(front[1], "http://"), "/")
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("somebody still listens on %s", address)
		}
	}
}

// TestTakenPort: the port in the way is named before anything is started.
func TestTakenPort(t *testing.T) {
	b, s := need(t), newSandbox(t)
	// Below the range that kernels give to outgoing connections, since the port before it
	// must be free.
	ports, err := installation.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	port := ports[0]
	taken, err := net.Listen("tcp", installation.Address(port))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	log := filepath.Join(t.TempDir(), "log")
	// The second port is already in use.
	p := b.dev(s, log, "--no-load", "--base-port", strconv.Itoa(port-1))
	status := exited(t, p, patience)
	said := child.Tail(log, 10)
	if want := fmt.Sprintf("port %d", port); status != failed || !strings.Contains(said, want) ||
		!strings.Contains(said, "taken") {
		t.Errorf("exit status %d, want %d and a complaint that %s is taken:\n%s", status, failed, want, said)
	}
	s.empty()
}
