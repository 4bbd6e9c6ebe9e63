package console

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/artifact"
	"github.com/titrate/titrate/lab/installation"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

const documents = `
apiVersion: titrate.dev/v1alpha1
kind: Pool
name: pools/api
spec: {capacity: 25}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/acme, spec: {weight: 3, displayName: "` + hostile + `"}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/dart, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Quota, name: tenants/acme/quotas/api, spec: {guaranteed: 10}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/dart/limits/per-client, spec: {rate: 2/s, burst: 10, precision: EXACT}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/acme/limits/per-client, spec: {rate: 12/s, burst: 20, precision: LOCAL}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/acme/limits/trial, spec: {rate: 1/s, mode: SHADOW}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/dart/limits/monthly, spec: {quota: {amount: 100000}}}
`

// hostile is a name that would run a script if a page took it for HTML.
const hostile = "<img src=x onerror=document.title=1>"

// system is an installation under load: two coordinators, of which the second wants tokens.
type system struct {
	*installation.Installation
	open, guarded string // URLs of the consoles
	tokens        string // path of the file of tokens
}

// tokenOf is the token of a caller with a role. That of a tenant-viewer is for the tenant dart.
func tokenOf(role string) string { return "a-token-of-a-" + role }

func start(t *testing.T) *system {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "console-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	rig, err := installation.NewRig(artifact.Programs(t), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rig.Close)
	ports, err := installation.PlanPorts(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	s := &system{open: "http://" + ports.Console() + "/"}
	s.Installation, err = rig.New(installation.Options{Ports: ports, Documents: documents,
		Coordinator: []string{"--console", ports.Console(), "--share-pools"},
		Upstream:    []string{"--capacity", "100"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, err := s.AddGateway(installation.Envoy{Name: fmt.Sprintf("gw-%d", i+1), AnyProtocol: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	s.guard(t, rig)
	return s
}

// guard adds a coordinator that wants tokens. The two share the pools, so that each knows the figures of now.
func (s *system) guard(t *testing.T, rig *installation.Rig) {
	t.Helper()
	free, err := installation.Addresses(3)
	if err != nil {
		t.Fatal(err)
	}
	s.tokens = rig.File("tokens.yaml")
	s.grant(t, grants)
	etcd := ""
	for i, arg := range s.Coordinators[0].Args {
		if arg == "--etcd-endpoints" {
			etcd = s.Coordinators[0].Args[i+1]
		}
	}
	s.guarded = "http://" + free[2] + "/"
	if err := rig.Coordinator("guarded", free[0], free[1], etcd, "--tokens", s.tokens, "--console", free[2],
		"--share-pools").
		Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// refusedID stands for the ID of a request that was refused, see latest.
const refusedID = "{refused}"

// refused has IDs of refused requests.
var refused latest

// latest has the ID of one of the latest requests. Agents have known of it for a second or two.
type latest struct {
	mu       sync.Mutex
	now, new string
	since    time.Time // of new
}

func (l *latest) add(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.since) >= time.Second {
		l.now, l.new, l.since = l.new, id, time.Now()
	}
}

// id waits for an ID: the first requests of a client have tokens, and wait for their tenant's share.
func (l *latest) id(t *testing.T) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		l.mu.Lock()
		id := l.now
		l.mu.Unlock()
		if id != "" {
			return id
		}
		if time.Now().After(end) {
			t.Fatalf("no request of client dart-1 was refused for %s", patience)
		}
	}
}

// steady is the time between two requests of a client that sends all the time.
const steady = 25 * time.Millisecond

// load sends requests until the test ends: more than the pool has, of clients with ordinary names and with a hostile
// one.
func (s *system) load(t *testing.T) {
	t.Helper()
	for _, who := range []struct {
		tenant, client string
		every          time.Duration // of each worker
		workers        int           // at each gateway
	}{{"acme", "acme-1", steady, 1}, {"acme", "acme-2", steady, 1}, {"dart", hostile, steady, 1},
		{"dart", "dart-1", steady, 1}, {"dart", "dart-2", steady, 1}, {"dart", "bursts", 4 * time.Second, 4},
		{"acme", "bursts", 4 * time.Second, 8}} {
		for i := range who.workers * len(s.Gateways) {
			g := s.Gateways[i%len(s.Gateways)]
			go func() {
				for n := 0; t.Context().Err() == nil; n++ {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL(), nil)
					if err != nil {
						return
					}
					r.Header.Set("x-tenant", who.tenant)
					r.Header.Set("x-client", who.client)
					id := fmt.Sprintf("%s-%d-%d", who.client, i, n)
					r.Header.Set("x-request-id", id)
					if answer, err := http.DefaultClient.Do(r); err == nil {
						answer.Body.Close()
						if who.client == "dart-1" && answer.StatusCode == http.StatusTooManyRequests {
							refused.add(id)
						}
					}
					select {
					case <-t.Context().Done():
					case <-time.After(time.Until(time.Now().Truncate(who.every).Add(who.every))):
					}
				}
			}()
		}
	}
}

// api is the admin API of the first coordinator.
func (s *system) api(t *testing.T) quotav1.QuotaServiceClient {
	t.Helper()
	conn, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return quotav1.NewQuotaServiceClient(conn)
}
