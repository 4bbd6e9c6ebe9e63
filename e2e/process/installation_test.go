package process

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
)

// documents are the installation's configuration. Requests wait for up to ten seconds, so that a test has time
// to break something while they wait.
const documents = `
apiVersion: titrate.dev/v1alpha1
kind: Pool
name: pools/api
spec: {capacity: 400, queue: {aqm: DROP_TAIL, delayTarget: 10s, maxWait: 30s}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/fed, spec: {weight: 4}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/capped, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/capped/quotas/api, spec: {max: 60}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/held, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/held/quotas/api, spec: {max: 50}}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/fed/limits/per-client
spec: {rate: 1000/s, burst: 1000, overrides: [{client: thirty, rate: 30/s, burst: 30},
  {client: terminated, rate: 6/min, burst: 20}, {client: killed, rate: 6/min, burst: 20}]}
`

// system is a small installation under test.
type system struct {
	*sandbox
	*installation.Installation
	bin                     binaries
	client                  *http.Client
	receiver                *receiver // of traces
	fronts, admins, sockets []string  // by gateway: URL for requests, URL of Envoy's admin, the agent's socket
	revision                float64   // of the latest configuration that was applied
}

const gateways = 2

func newSystem(t *testing.T) *system {
	t.Helper()
	w := newSystemOf(t, need(t), false)
	w.apply(documents)
	w.linked(t, patience, 0)
	return w
}

// newSystemOf returns an installation of these programs without a configuration. A rolled one has two
// coordinators, and Envoys that can be restarted hot. flags are for the coordinators.
func newSystemOf(t *testing.T, bin binaries, rolled bool, flags ...string) *system {
	t.Helper()
	w := &system{bin: bin, sandbox: newSandbox(t)}
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: patience}
	t.Cleanup(w.client.CloseIdleConnections)
	rig, err := installation.NewRig(installation.Programs{Titrate: w.bin.titrate, Module: w.bin.module, Envoy: w.bin.envoy},
		w.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.receiver = newReceiver(t)
	rig.Env = []string{"TMPDIR=" + w.dir, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + w.receiver.endpoint}
	t.Cleanup(rig.Close)
	ports, err := installation.PlanPorts(0, gateways)
	if err != nil {
		t.Fatal(err)
	}
	w.Installation, err = rig.New(installation.Options{Ports: ports, Coordinator: append(flags, "--session-ttl", "2s"),
		// Never the bottleneck: what is held, a gateway holds.
		Upstream: []string{"--capacity", "2000", "--service-time", "5ms", "--queue", "2000"}})
	if err == nil && rolled {
		err = w.AddCoordinator("coordinator-2")
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range gateways {
		w.gateway(fmt.Sprintf("gw-%d", i+1), rolled)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// gateway plans an agent and an Envoy; hot if the Envoy can be restarted hot.
func (w *system) gateway(name string, hot bool) {
	w.t.Helper()
	base := 0
	if hot {
		base = installation.AdminPort
	}
	g, err := w.AddGateway(installation.Envoy{Name: name, AnyProtocol: true, Also: whose, Base: base,
		Spans: installation.Port(strings.TrimPrefix(w.receiver.endpoint, "http://"))})
	if err != nil {
		w.t.Fatal(err)
	}
	w.fronts, w.admins = append(w.fronts, g.URL()), append(w.admins, g.AdminURL())
	w.sockets = append(w.sockets, w.Socket(name))
}

// servers are the processes, in the order in which they are started.
func (w *system) servers() []*installation.Server {
	all := []*installation.Server{w.Etcd, w.Upstream}
	for _, c := range w.Coordinators {
		all = append(all, c.Server)
	}
	for _, g := range w.Gateways {
		all = append(all, g.Agent, g.Proxy.Server)
	}
	return all
}

// start starts a server and waits until it serves.
func (w *system) start(s *installation.Server) {
	w.t.Helper()
	if err := s.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// healthy fails the test if a server has ended without being killed, or a filter has recovered a panic.
func (w *system) healthy(t *testing.T) {
	t.Helper()
	for _, s := range w.servers() {
		p := s.Process()
		if p == nil {
			t.Errorf("%s does not run", s.Name)
			continue
		}
		select {
		case <-p.Exited():
			t.Errorf("%v", p.Obituary())
		default:
		}
	}
	for i := range w.admins {
		if n := w.filter(i, "titrate_panics_total"); n != 0 {
			t.Errorf("the filter of gateway %d recovered %v panics:\n%s", i+1, n, child.Tail(w.Gateways[i].Process().Log, 30))
		}
	}
}

// get fetches a URL; status 0 if there is no answer.
func (w *system) get(url string) (status int, body string) {
	resp, err := w.client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// metric sums the series of a Prometheus page that have the name and the given
// piece of their labels; 0 if there is none. Envoy puts a prefix before what
// modules define, unless a runtime flag takes it away.
func (w *system) metric(url, name, labels string) float64 {
	_, body := w.get(url)
	sum := 0.0
	for _, found := range regexp.MustCompile(`(?m)^(?:envoy_dynamicmodulescustom_)?`+name+
		`(\{.*\})? (\S+)$`).FindAllStringSubmatch(body, -1) {
		if v, err := strconv.ParseFloat(found[2], 64); err == nil && strings.Contains(found[1], labels) {
			sum += v
		}
	}
	return sum
}

// filter reads a metric of a gateway's filter.
func (w *system) filter(gateway int, name string) float64 {
	return w.metric(w.admins[gateway]+"/stats/prometheus", name, "")
}

// inForce waits until every filter has the configuration that was applied last.
func (w *system) inForce(t *testing.T, within time.Duration) {
	t.Helper()
	eventually(t, "every gateway has the latest configuration", within, func() string {
		for i := range w.admins {
			if now := w.filter(i, "titrate_config_revision"); now < w.revision {
				return fmt.Sprintf("gateway %d has revision %v of %v", i+1, now, w.revision)
			}
		}
		return ""
	})
}

// linked waits until every filter has its agent, the latest configuration, and
// shares of an epoch beyond the given one.
func (w *system) linked(t *testing.T, within time.Duration, beyond float64) {
	t.Helper()
	w.inForce(t, within)
	eventually(t, "every gateway has its agent and shares", within, func() string {
		for i := range w.admins {
			connected, epoch, stale := w.filter(i, "titrate_link_connected"), w.filter(i, "titrate_shares_epoch"),
				w.filter(i, "titrate_shares_stale")
			if connected != 1 || epoch <= beyond || stale != 0 {
				return fmt.Sprintf("gateway %d: connected %v, epoch %v beyond %v, stale %v", i+1, connected, epoch,
					beyond, stale)
			}
		}
		return ""
	})
}

// apply applies documents with the command that users have.
func (w *system) apply(text string) {
	w.t.Helper()
	if status, complaint := w.tryApply(text); status != 0 {
		w.t.Fatalf("titrate apply: exit status %d: %s", status, complaint)
	}
}

// etag of a resource is the revision that last changed it, in hexadecimal.
var etag = regexp.MustCompile(`etag: "?([0-9a-f]+)"?`)

// tryApply applies documents, and returns the exit status and the output.
func (w *system) tryApply(text string) (status int, said string) {
	w.t.Helper()
	status, out, complaint := w.bin.run(w.t, text, "apply", "--server", w.API(), "-o", "yaml", "-f", "-")
	for _, found := range etag.FindAllStringSubmatch(out, -1) {
		if n, err := strconv.ParseUint(found[1], 16, 64); err == nil {
			w.revision = max(w.revision, float64(n))
		}
	}
	return status, complaint
}
