package rlqs

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/artifact"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
)

// config is the Envoy of the how-to.
const config = "../../docs/how-to/envoy-quota.yaml"

const documents = `
{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 1000, queue: {aqm: POLICE}}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/acme, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/acme/limits/each, spec: {rate: 100/s, burst: 100}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/shared, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/shared/quotas/api, spec: {max: 60}}
`

// world is an installation.
type world struct {
	t      *testing.T
	in     *installation.Installation
	agents []*installation.Server
	rlqs   []int // ports
	envoys []*envoy
	http   *http.Client
}

// envoy is a proxy with the load of one client.
type envoy struct {
	*installation.Server
	url      string
	tenant   atomic.Pointer[string]
	load     atomic.Int64 // requests/s
	admitted atomic.Int64
	refused  atomic.Int64
	failed   atomic.Int64
	slowest  atomic.Int64 // nanoseconds
}

// TestMain runs all tests at once, whatever the number of processors: they wait for Envoys' reports most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// newWorld starts an installation whose agents have so many Envoys each.
func newWorld(t *testing.T, each ...int) *world {
	t.Helper()
	programs := artifact.Programs(t)
	dir, err := os.MkdirTemp("", "tq") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	rig, err := installation.NewRig(programs, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rig.Close)
	w := &world{t: t, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 10 * time.Second}}
	if w.in, err = rig.New(installation.Options{Documents: documents}); err != nil {
		t.Fatal(err)
	}
	w.must(w.in.Start(t.Context()))
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	at, err := url.Parse(upstream.URL)
	w.must(err)
	var gossip []string
	for i, envoys := range each {
		ports, err := installation.Ports(3)
		w.must(err)
		gossip = append([]string{installation.Address(ports[0])}, gossip...)
		a := rig.Agent(fmt.Sprintf("agent-%d", i+1), w.in.API(), installation.Address(ports[1]), gossip,
			"--rlqs", installation.Address(ports[2]))
		w.must(a.Start(t.Context()))
		w.agents, w.rlqs = append(w.agents, a), append(w.rlqs, ports[2])
		for range envoys {
			w.addEnvoy(rig, at.Port(), ports[2])
		}
	}
	return w
}

func (w *world) addEnvoy(rig *installation.Rig, upstream string, rlqs int) {
	w.t.Helper()
	ports, err := installation.Ports(2)
	w.must(err)
	text, err := os.ReadFile(config)
	w.must(err)
	name := fmt.Sprintf("envoy-%d", len(w.envoys)+1)
	path := rig.File(name + ".yaml")
	w.must(os.WriteFile(path, []byte(strings.NewReplacer("port_value: 9902", fmt.Sprint("port_value: ", ports[0]),
		"port_value: 10001", fmt.Sprint("port_value: ", ports[1]), "port_value: 8080", "port_value: "+upstream,
		"port_value: 8082", fmt.Sprint("port_value: ", rlqs)).Replace(string(text))), 0o600))
	e := &envoy{url: "http://" + installation.Address(ports[1]) + "/"}
	e.Server = rig.Server(child.Spec{Name: name, Path: rig.Programs.Envoy,
		Args: []string{"-c", path, "--concurrency", "1", "--log-level", "warn", "--use-dynamic-base-id"}},
		"http://"+installation.Address(ports[0])+"/ready")
	acme := "acme"
	e.tenant.Store(&acme)
	w.must(e.Start(w.t.Context()))
	w.envoys = append(w.envoys, e)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// run sends each Envoy its load until the test ends.
func (w *world) run() {
	ctx, stop := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	for _, e := range w.envoys {
		all.Go(func() { w.drive(ctx, e) })
	}
	w.t.Cleanup(func() { stop(); all.Wait() })
}

// drive sends an Envoy requests at random times, whatever becomes of those before.
func (w *world) drive(ctx context.Context, e *envoy) {
	var open sync.WaitGroup
	defer open.Wait()
	next := time.Now()
	for ctx.Err() == nil {
		load := e.load.Load()
		if load == 0 {
			time.Sleep(20 * time.Millisecond)
			next = time.Now()
			continue
		}
		next = next.Add(time.Duration(rand.ExpFloat64() / float64(load) * 1e9))
		time.Sleep(time.Until(next))
		open.Go(func() { w.ask(ctx, e) })
	}
}

func (w *world) ask(ctx context.Context, e *envoy) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		w.t.Error(err)
		return
	}
	r.Header.Set("X-Tenant", *e.tenant.Load())
	r.Header.Set("X-Client", "bob")
	start := time.Now()
	answer, err := w.http.Do(r)
	if err != nil {
		e.failed.Add(1)
		return
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	took := int64(time.Since(start))
	for was := e.slowest.Load(); took > was && !e.slowest.CompareAndSwap(was, took); was = e.slowest.Load() {
	}
	switch answer.StatusCode {
	case http.StatusOK:
		e.admitted.Add(1)
	case http.StatusTooManyRequests:
		e.refused.Add(1)
	default:
		e.failed.Add(1)
	}
}

// loads sets the load of each Envoy, requests/s.
func (w *world) loads(all ...int64) {
	for i, n := range all {
		w.envoys[i].load.Store(n)
	}
}

// rates returns what each Envoy admits, and all together, requests/s, over a time from now on.
func (w *world) rates(during time.Duration) (each []float64, sum float64) {
	each = make([]float64, len(w.envoys))
	for i, e := range w.envoys {
		each[i] = -float64(e.admitted.Load())
		e.slowest.Store(0)
	}
	start := time.Now()
	time.Sleep(during)
	for i, e := range w.envoys {
		each[i] = (each[i] + float64(e.admitted.Load())) / time.Since(start).Seconds()
		sum += each[i]
	}
	return each, sum
}

func (w *world) between(what string, got, least, most float64) {
	w.t.Helper()
	w.t.Logf("%s: %.1f", what, got)
	if got < least || got > most {
		w.t.Errorf("%s: %.1f, want %v to %v", what, got, least, most)
	}
}
