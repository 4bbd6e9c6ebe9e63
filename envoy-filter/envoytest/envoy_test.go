package envoytest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// module is the folder of the libtitrate.so under test.
var module string

func TestMain(m *testing.M) {
	if os.Getenv("ENVOY_BIN") == "" {
		fmt.Println("envoytest: skipped: ENVOY_BIN is not set to an Envoy binary (1.38, 1.39 or 1.40)")
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "titrate-envoytest")
	if err == nil {
		err = build(filepath.Join(dir, "libtitrate.so"), "..")
	}
	if err != nil {
		fmt.Println("envoytest:", err)
		os.Exit(1)
	}
	module = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func build(out, dir string, tags ...string) error {
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-tags", strings.Join(tags, ","), "-o", out,
		".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", out, err, text)
	}
	return nil
}

// needEnvoy returns the Envoy binary or skips the test.
func needEnvoy(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("ENVOY_BIN")
	if bin == "" {
		t.Skip("ENVOY_BIN is not set to an Envoy binary (1.38, 1.39 or 1.40)")
	}
	return bin
}

// envoy is a running Envoy.
type envoy struct {
	t            *testing.T
	cmd          *exec.Cmd
	log          *output
	socket       string
	addressFile  string
	admin, front string
	upstream     *httptest.Server
	exited       chan struct{}
	err          error // of Wait
	client       *http.Client
}

// output is a process's log, safe to read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// edit is a change to the example's text; from must be in the text.
type edit struct{ from, to string }

func example(t *testing.T, edits ...edit) string { return exampleOf(t, quickstart, edits...) }

func exampleOf(t *testing.T, file string, edits ...edit) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../examples", file))
	if err != nil {
		t.Fatal(err)
	}
	s := string(b)
	for _, e := range edits {
		if !strings.Contains(s, e.from) {
			t.Fatalf("examples/%s has no %q", file, e.from)
		}
		s = strings.ReplaceAll(s, e.from, e.to)
	}
	return s
}

const quickstart = "quickstart.yaml"

// launch says how an Envoy is started. Ports and the agent's socket in the
// example are replaced by free ones before the edits.
type launch struct {
	example     string
	environment []string
	concurrency int
	edits       []edit
	arguments   []string // of a hot restart; otherwise empty
	bootWait    string   // of the bootstrap extension; "": 0s, most agents come later
}

// spawn starts an Envoy on the quickstart with edits and does not wait for it.
func spawn(t *testing.T, environment []string, edits ...edit) *envoy {
	t.Helper()
	return launch{example: quickstart, environment: environment, concurrency: 2, edits: edits}.spawn(t)
}

func (l launch) spawn(t *testing.T) *envoy {
	t.Helper()
	bin := needEnvoy(t)
	dir := t.TempDir()
	e := &envoy{t: t, log: &output{}, socket: filepath.Join(dir, "agent.sock"), exited: make(chan struct{})}
	e.upstream = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "upstream %d", len(b))
	}))
	e.upstream.Config.Protocols = protocols(true, true)
	e.upstream.Start()
	t.Cleanup(e.upstream.Close)
	_, port, _ := net.SplitHostPort(e.upstream.Listener.Addr().String())
	edits := append([]edit{
		{"agent_socket: /run/titrate/agent.sock", "agent_socket: " + e.socket},
		{"port_value: 10000", "port_value: 0"}, {"port_value: 9901", "port_value: 0"},
		{"port_value: 8080", "port_value: " + port},
	}, l.edits...)
	text := l.waiting(exampleOf(t, l.example, edits...))
	config, address := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.arguments == nil {
		l.arguments = []string{"--use-dynamic-base-id", "--drain-time-s", "1"}
	}
	e.cmd = exec.Command(bin, append([]string{"-c", config, "--admin-address-path", address,
		"--concurrency", strconv.Itoa(l.concurrency), "--log-level", "info"}, l.arguments...)...)
	e.cmd.Env = append(append(os.Environ(), "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+module), l.environment...)
	e.cmd.Dir, e.cmd.Stdout, e.cmd.Stderr = dir, e.log, e.log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { e.err = e.cmd.Wait(); close(e.exited) }()
	t.Cleanup(e.kill)
	e.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 20 * time.Second}
	t.Cleanup(e.client.CloseIdleConnections)
	e.addressFile = address
	return e
}

// waiting sets how long Envoy waits for its first configuration.
func (l launch) waiting(text string) string {
	wait := "boot_wait: " + cmp.Or(l.bootWait, "0s")
	text = strings.Replace(text, "{ agent_socket: ", "{ "+wait+", agent_socket: ", 1)
	return strings.Replace(text, "        agent_socket: ", "        "+wait+"\n        agent_socket: ", 1)
}

// start starts an Envoy and waits until it serves.
func start(t *testing.T, edits ...edit) *envoy {
	t.Helper()
	e := spawn(t, nil, edits...)
	e.serve()
	return e
}

// serve waits until Envoy serves and finds the address of its listener.
func (e *envoy) serve() {
	e.t.Helper()
	e.eventually("its admin address", func() bool {
		b, err := os.ReadFile(e.addressFile)
		e.admin = "http://" + string(b)
		return err == nil && len(b) > 0
	})
	e.eventually("readiness", func() bool {
		status, _ := e.tryAdmin("/ready")
		return status == http.StatusOK
	})
	var listeners struct {
		Statuses []struct {
			Address struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	_, body := e.tryAdmin("/listeners?format=json")
	if err := json.Unmarshal([]byte(body), &listeners); err != nil || len(listeners.Statuses) != 1 {
		e.t.Fatalf("Envoy's listeners: %s, %v", body, err)
	}
	e.front = fmt.Sprintf("http://127.0.0.1:%d", listeners.Statuses[0].Address.Socket.Port)
}

// eventually polls until done; it fails when Envoy dies or after 30 s.
func (e *envoy) eventually(what string, done func() bool) {
	e.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		if done() {
			return
		}
		select {
		case <-e.exited:
			e.t.Fatalf("Envoy ended (%v) while waiting for %s:\n%s", e.err, what, e.log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("waited for %s for 30 s; Envoy's log:\n%s", what, e.log)
		}
	}
}

// logged waits until Envoy's log has a text.
func (e *envoy) logged(text string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(e.log.String(), text) })
}

func (e *envoy) tryAdmin(path string) (int, string) {
	resp, err := e.client.Get(e.admin + path)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// metric reads one series from /stats/prometheus; 0 if it is not there.
func (e *envoy) metric(series string) float64 {
	_, body := e.tryAdmin("/stats/prometheus")
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` ([0-9.e+]+)$`).FindStringSubmatch(body)
	if m == nil {
		return 0
	}
	v, _ := strconv.ParseFloat(m[1], 64)
	return v
}

func outcome(pool, outcome string) string {
	return fmt.Sprintf(`titrate_requests_total{pool="%s",outcome="%s"}`, pool, outcome)
}

// answer is a response, read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

// get asks the front for a path with header pairs; of a name twice the last
// counts, unless + before it makes a further line.
func (e *envoy) get(path string, headers ...string) answer {
	e.t.Helper()
	a, err := e.do(context.Background(), http.MethodGet, path, nil, headers...)
	if err != nil {
		e.t.Fatalf("GET %s: %v; Envoy's log:\n%s", path, err, e.log)
	}
	return a
}

func (e *envoy) do(ctx context.Context, method, path string, body io.Reader, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.front+path, body)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "host" {
			req.Host = headers[i+1]
		}
		if line, further := strings.CutPrefix(headers[i], "+"); further {
			req.Header.Add(line, headers[i+1])
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}, err
}

// protocols returns HTTP/1.1, HTTP/2 without TLS, or both.
func protocols(one, two bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(one)
	p.SetUnencryptedHTTP2(two)
	return p
}

// http2 is the same Envoy, asked by HTTP/2 over one connection.
func (e *envoy) http2() *envoy {
	other := *e
	other.client = &http.Client{Transport: &http.Transport{Protocols: protocols(false, true)},
		Timeout: 20 * time.Second}
	e.t.Cleanup(other.client.CloseIdleConnections)
	return &other
}

// dialling is the same Envoy, asked from another address of loopback; "" is any.
func (e *envoy) dialling(from string) *envoy {
	if from == "" {
		return e
	}
	other := *e
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	other.client = &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		Timeout: 20 * time.Second}
	return &other
}

func (e *envoy) kill() {
	e.cmd.Process.Kill()
	<-e.exited
}

// alive fails the test if Envoy has died or the filter has panicked.
func (e *envoy) alive() {
	e.t.Helper()
	select {
	case <-e.exited:
		e.t.Fatalf("Envoy ended: %v\n%s", e.err, e.log)
	default:
	}
	if strings.Contains(e.log.String(), "recovered a panic") {
		e.t.Fatalf("the filter panicked:\n%s", e.log)
	}
}
