package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/child"
	"github.com/titrate/titrate/lab/dev/local"
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

// server is a process of the installation that can be started again after its end.
type server struct {
	of local.Server
	*child.Process
}

// installation is a small installation under test.
type installation struct {
	*sandbox
	bin                         binaries
	client                      *http.Client
	etcd, upstream, coordinator *server
	standby                     *server // another coordinator, or nil
	rig                         *local.Rig
	receiver                    *receiver // of traces
	api, standbyAPI             string    // the coordinators' gRPC addresses
	agents, envoys              []*server
	fronts, admins, sockets     []string // by gateway: URL for requests, URL of Envoy's admin, the agent's socket
	agentWeb                    []string // URL of the agent's admin
	revision                    float64  // of the latest configuration that was applied
}

const gateways = 2

func newInstallation(t *testing.T) *installation {
	t.Helper()
	w := newInstallationOf(t, need(t), false)
	w.apply(documents)
	w.linked(t, patience, 0)
	return w
}

// newInstallationOf returns an installation of these programs without a configuration. A rolled one has two
// coordinators, and Envoys that can be restarted hot. flags are for the coordinators.
func newInstallationOf(t *testing.T, bin binaries, rolled bool, flags ...string) *installation {
	t.Helper()
	w := &installation{bin: bin, sandbox: newSandbox(t)}
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: patience}
	t.Cleanup(w.client.CloseIdleConnections)
	var err error
	w.rig, err = local.NewRig(local.Programs{Titrate: w.bin.titrate, Module: w.bin.module, Envoy: w.bin.envoy}, w.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.receiver = newReceiver(t)
	w.rig.Env = []string{"TMPDIR=" + w.dir, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + w.receiver.endpoint}
	t.Cleanup(w.rig.Close)
	free, err := local.Addresses(7 + 4*gateways)
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		address := free[0]
		free = free[1:]
		return address
	}
	etcd, web, upstream := next(), next(), next()
	w.api = next()
	w.etcd = &server{of: w.rig.Etcd("etcd", etcd, next())}
	flags = append(flags, "--session-ttl", "2s")
	w.coordinator = &server{of: w.rig.Coordinator("coordinator", w.api, web, etcd, flags...)}
	all := w.api
	if rolled {
		w.standbyAPI = next()
		w.standby = &server{of: w.rig.Coordinator("coordinator-2", w.standbyAPI, next(), etcd, flags...)}
		all += "," + w.standbyAPI
	}
	// Never the bottleneck: what is held, a gateway holds.
	w.upstream = &server{of: w.rig.Upstream(upstream, "--capacity", "2000", "--service-time", "5ms",
		"--queue", "2000")}
	var gossip []string
	for range gateways {
		gossip = append(gossip, next())
	}
	for i := range gateways {
		w.gateway(fmt.Sprintf("gw-%d", i+1), all, slices.Concat(gossip[i:], gossip[:i]), next(), next(), next(), upstream)
	}
	for _, s := range w.servers() {
		w.start(s)
	}
	return w
}

// servers are the processes, in the order in which they are started.
func (w *installation) servers() []*server {
	all := []*server{w.etcd, w.upstream, w.coordinator}
	if w.standby != nil {
		all = append(all, w.standby)
	}
	return slices.Concat(all, w.agents, w.envoys)
}

// gateway is an agent and an Envoy; peers are the gossip addresses, its own first.
func (w *installation) gateway(name, coordinators string, peers []string, front, admin, web, upstream string) {
	w.t.Helper()
	a := w.rig.Agent(name, coordinators, web, peers)
	base := 0
	if w.standby != nil {
		base = local.Port(admin) // no other process gets it, as long as Envoy has the port
	}
	e, err := w.rig.Envoy(local.Envoy{Name: name, Filter: local.Titrate, Port: local.Port(front), Admin: local.Port(admin),
		Upstream: local.Port(upstream), AnyProtocol: true, Also: whose, Base: base,
		Spans: local.Port(strings.TrimPrefix(w.receiver.endpoint, "http://"))})
	if err != nil {
		w.t.Fatal(err)
	}
	w.agents, w.envoys = append(w.agents, &server{of: a}), append(w.envoys, &server{of: e})
	w.fronts, w.admins = append(w.fronts, "http://"+front+"/"), append(w.admins, "http://"+admin)
	w.sockets, w.agentWeb = append(w.sockets, w.rig.Socket(name)), append(w.agentWeb, "http://"+web)
}

// start starts a server and waits until it serves.
func (w *installation) start(s *server) {
	w.t.Helper()
	var err error
	if s.Process, err = w.rig.Launch(s.of.Spec); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if err := w.rig.Serving(ctx, s.Process, s.of.URL); err != nil {
		w.t.Fatal(err)
	}
}

// kill sends SIGKILL and waits for the end.
func (w *installation) kill(s *server) {
	w.t.Helper()
	s.Kill()
	<-s.Exited()
}

// healthy fails the test if a server has ended without being killed, or a filter has recovered a panic.
func (w *installation) healthy(t *testing.T) {
	t.Helper()
	for _, s := range w.servers() {
		select {
		case <-s.Exited():
			t.Errorf("%v", s.Obituary())
		default:
		}
	}
	for i := range w.admins {
		if n := w.filter(i, "titrate_panics_total"); n != 0 {
			t.Errorf("the filter of gateway %d recovered %v panics:\n%s", i+1, n, child.Tail(w.envoys[i].Log, 30))
		}
	}
}

// get fetches a URL; status 0 if there is no answer.
func (w *installation) get(url string) (status int, body string) {
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
func (w *installation) metric(url, name, labels string) float64 {
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
func (w *installation) filter(gateway int, name string) float64 {
	return w.metric(w.admins[gateway]+"/stats/prometheus", name, "")
}

// inForce waits until every filter has the configuration that was applied last.
func (w *installation) inForce(t *testing.T, within time.Duration) {
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
func (w *installation) linked(t *testing.T, within time.Duration, beyond float64) {
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
func (w *installation) apply(text string) {
	w.t.Helper()
	if status, complaint := w.tryApply(text); status != 0 {
		w.t.Fatalf("titrate apply: exit status %d: %s", status, complaint)
	}
}

// etag of a resource is the revision that last changed it, in hexadecimal.
var etag = regexp.MustCompile(`etag: "?([0-9a-f]+)"?`)

// tryApply applies documents, and returns the exit status and the output.
func (w *installation) tryApply(text string) (status int, said string) {
	w.t.Helper()
	status, out, complaint := w.bin.run(w.t, text, "apply", "--server", w.api, "-o", "yaml", "-f", "-")
	for _, found := range etag.FindAllStringSubmatch(out, -1) {
		if n, err := strconv.ParseUint(found[1], 16, 64); err == nil {
			w.revision = max(w.revision, float64(n))
		}
	}
	return status, complaint
}
