package kubernetes

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The load and the configuration of the installation. The limited client asks for twice its limit.
const (
	freeRate     = 20
	limitedOffer = 40
	limitedRate  = 20
	limitedBurst = 20
	bootstrapped = `
{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 1000}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/acme, spec: {weight: 1}}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/acme/limits/per-client
spec: {rate: 1000/s, burst: 1000, overrides: [{client: limited, rate: 20/s, burst: 20},
  {client: first, rate: 1/min, burst: 1}]}
`
	upstream = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: upstream, namespace: titrate}
spec:
  selector: {matchLabels: {app: upstream}}
  template:
    metadata: {labels: {app: upstream}}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: upstream
        image: titrate/lab:dev
        args: [upstream, --listen=0.0.0.0:9000, --capacity=100000, --service-time=1ms, --queue=10000]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        readinessProbe: {httpGet: {path: /healthz, port: 9000}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: upstream, namespace: titrate}
spec: {selector: {app: upstream}, ports: [{port: 80, targetPort: 9000}]}
`
)

// docker runs a command of the container engine.
func docker(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "docker", args...)
	cmd.Stdin, cmd.Env = strings.NewReader(stdin), append(os.Environ(), "DOCKER_BUILDKIT=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker %v: %v\n%s", args, err, said)
	}
}

// images writes the images of both versions, and the image that keeps a pod's namespaces, into an archive.
func images(t *testing.T, previous string) string {
	t.Helper()
	for name, from := range map[string][2]string{
		"titrate/pause:dev":        {"FROM scratch\nCOPY pause /\nENTRYPOINT [\"/pause\"]\n", programs(t)},
		"titrate/titrate:previous": {"FROM titrate/titrate:dev\nCOPY titrate /\n", previous},
		"titrate/module:previous":  {"FROM titrate/module:dev\nCOPY libtitrate.so /\n", previous},
		gatewayImage: {"FROM scratch\nCOPY envoy-gateway /usr/local/bin/\n" +
			"ENTRYPOINT [\"/usr/local/bin/envoy-gateway\"]\n", filepath.Dir(gatewayProgram(t))},
	} {
		docker(t, from[0], "build", "-t", name, "-f", "-", from[1])
	}
	file := filepath.Join(nodeDir(t), "images.tar")
	docker(t, "", "save", "-o", file, "titrate/pause:dev", "titrate/titrate:dev", "titrate/lab:dev", "titrate/titrate:previous",
		"titrate/module:dev", "titrate/module:previous", gatewayImage, "envoyproxy/envoy:v1.40.0", "quay.io/coreos/etcd:v3.7.3")
	return file
}

// installed is a release of the chart on a node.
type installed struct {
	*cluster
	documents string // file
	load      *traffic
}

// values are the arguments of Helm for a chart with images of a tag.
func (in *installed) values(t *testing.T, chart, tag string, more ...string) []string {
	t.Helper()
	set := append([]string{"images.tag=" + tag, "images.pullPolicy=Never", "coordinator.replicas=2",
		"gateway.replicas=2", "gateway.upstream.host=upstream.titrate.svc.cluster.local"}, more...)
	return []string{"demo", abs(t, chart), "--values", abs(t, chart+"/values/trial.yaml"), "--wait", "--timeout", "5m",
		"--set-file", "bootstrap.documents=" + in.documents, "--set", strings.Join(set, ",")}
}

// step does something under traffic.
func (in *installed) step(t *testing.T, name string, do func()) {
	t.Helper()
	began, before := time.Now(), in.load.count()
	do()
	t.Logf("%s: %.1f s, %d requests", name, time.Since(began).Seconds(), in.load.count()-before)
}

// TestNode installs the chart on a node, and scales, loses a leader, changes values, goes back and uninstalls
// under traffic; then it upgrades from the version before and goes back. No request fails, and the limited
// client gets no more than its limit and the bursts of new gateways. At last Envoy Gateway's Envoys have the
// module.
func TestNode(t *testing.T) {
	previous := given(t, "TITRATE_PREVIOUS", "a directory with the version before")
	in := &installed{cluster: node(t, images(t, previous)), documents: filepath.Join(t.TempDir(), "documents.yaml")}
	in.namespace(t, "titrate")
	for _, o := range objects(t, upstream) {
		in.create(t, o.path(), o.raw)
	}
	write(t, in.documents, bootstrapped)
	t.Run("this version", in.lives)
	t.Run("from the version before", func(t *testing.T) { in.upgrades(t, previous+"/chart") })
	t.Run("in Envoy Gateway", in.envoyGateway)
}

// lives installs this version, uses all its parts, and uninstalls it.
func (in *installed) lives(t *testing.T) {
	values := func(more ...string) []string {
		return in.values(t, chart, "dev", append(more, "crds.enabled=true", "operator.enabled=true", "rls.enabled=true",
			"rls.replicas=1", "etcd.replicas="+strconv.Itoa(members), "etcd.persistence.enabled=true")...)
	}
	in.volumes(t, members)
	began := time.Now()
	in.helm(t, append([]string{"install"}, values()...)...)
	ready, url := time.Since(began), in.gateway(t)
	retry(t, time.Minute, func() error { return refused(t, url) })
	t.Logf("installed and ready after %.1f s, first refusal of a limited client after %.1f s", ready.Seconds(),
		time.Since(began).Seconds())
	in.helm(t, "test", "demo")
	in.operates(t)
	in.begin(t, url)
	in.step(t, "scaled to 4", func() { in.helm(t, append([]string{"upgrade"}, values("gateway.replicas=4")...)...) })
	in.step(t, "scaled to 2", func() { in.helm(t, append([]string{"upgrade"}, values()...)...) })
	in.step(t, "leader deleted", func() { in.deleteLeader(t) })
	in.step(t, "all of etcd deleted", func() { in.deleteEtcd(t, members) })
	in.helm(t, "test", "demo")
	in.step(t, "other values", func() {
		in.helm(t, append([]string{"upgrade"}, values("agent.extraArgs={--log-level=debug}",
			"coordinator.extraArgs={--log-level=debug}")...)...)
	})
	in.step(t, "rolled back", func() { in.helm(t, "rollback", "demo", "--wait", "--timeout", "5m") })
	in.load.end(t, 2+2+2)
	in.helm(t, "uninstall", "demo", "--wait", "--timeout", "2m")
}

// upgrades installs the version before, upgrades it to this one, and goes back.
func (in *installed) upgrades(t *testing.T, before string) {
	in.helm(t, append([]string{"install"}, in.values(t, before, "previous")...)...)
	url := in.gateway(t)
	retry(t, time.Minute, func() error { return refused(t, url) })
	in.begin(t, url)
	in.step(t, "upgraded", func() { in.helm(t, append([]string{"upgrade"}, in.values(t, chart, "dev")...)...) })
	in.helm(t, "test", "demo")
	in.step(t, "rolled back", func() { in.helm(t, "rollback", "demo", "--wait", "--timeout", "5m") })
	in.load.end(t, 2+2)
	in.helm(t, "uninstall", "demo", "--wait", "--timeout", "2m")
}

// operates: the operator makes a custom resource the configuration, and deletes it again.
func (in *installed) operates(t *testing.T) {
	t.Helper()
	const path = "/apis/titrate.dev/v1alpha1/tenants"
	in.create(t, path, map[string]any{"apiVersion": "titrate.dev/v1alpha1", "kind": "Tenant",
		"metadata": map[string]any{"name": "kube"}, "name": "tenants/kube", "spec": map[string]any{"weight": 2}})
	retry(t, time.Minute, func() error {
		said := in.call(t, admin, http.MethodGet, path+"/kube", nil)
		if !strings.Contains(said.text, `"reason":"Applied"`) {
			return fmt.Errorf("%d %s", said.code, said.text)
		}
		return nil
	})
	in.call(t, admin, http.MethodDelete, path+"/kube", nil)
	retry(t, time.Minute, func() error {
		if said := in.call(t, admin, http.MethodGet, path+"/kube", nil); said.code != http.StatusNotFound {
			return fmt.Errorf("%d %s", said.code, said.text)
		}
		return nil
	})
}

// gateway is the URL of the gateways' Service.
func (c *cluster) gateway(t *testing.T) string {
	t.Helper()
	var service struct{ Spec struct{ ClusterIP string } }
	c.get(t, "/api/v1/namespaces/titrate/services/demo-gateway", &service)
	return "http://" + service.Spec.ClusterIP + "/"
}

// refused is nil if a client that has nothing left is refused.
func refused(t *testing.T, url string) error {
	t.Helper()
	status, err := ask(t.Context(), http.DefaultClient, url, "first")
	if err == nil && status != http.StatusTooManyRequests {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

func ask(ctx context.Context, client *http.Client, url, name string) (status int, err error) {
	status, _, err = askWhy(ctx, client, url, name)
	return status, err
}

// askWhy sends a request as a client, and returns the reason of a refusal.
func askWhy(ctx context.Context, client *http.Client, url, name string) (status int, reason string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("x-tenant", "acme")
	request.Header.Set("x-client", name)
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	var refusal struct{ Reason string }
	if json.Unmarshal(body, &refusal) != nil {
		refusal.Reason = "" // an answer of the upstream
	}
	return response.StatusCode, refusal.Reason, err
}

// The members of etcd keep the configuration on persistent volumes.
const members = 3

// volumes are directories of the node that claims may bind.
func (c *cluster) volumes(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		name := fmt.Sprintf("volume-%d", i)
		dir := filepath.Join(nodeDir(t), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // etcd, another user, writes into it
			t.Fatal(err)
		}
		c.create(t, "/api/v1/persistentvolumes", map[string]any{"apiVersion": "v1", "kind": "PersistentVolume",
			"metadata": map[string]any{"name": name},
			"spec": map[string]any{"capacity": map[string]any{"storage": "2Gi"}, "accessModes": []string{"ReadWriteOnce"},
				"persistentVolumeReclaimPolicy": "Retain", "hostPath": map[string]any{"path": dir, "type": "Directory"}}})
	}
}

// deleteEtcd deletes all members of etcd, and waits until new ones are ready. They find the configuration on
// their volumes.
func (c *cluster) deleteEtcd(t *testing.T, count int) {
	t.Helper()
	const pods = "/api/v1/namespaces/titrate/pods"
	uids := map[string]bool{}
	var list struct {
		Items []struct {
			Metadata struct{ Name, UID string }
			Status   struct {
				ContainerStatuses []struct{ Ready bool }
			}
		}
	}
	const selector = pods + "?labelSelector=app.kubernetes.io/component%3Detcd"
	c.get(t, selector, &list)
	if len(list.Items) != count {
		t.Fatalf("%d members of etcd, want %d", len(list.Items), count)
	}
	for _, pod := range list.Items {
		uids[pod.Metadata.UID] = true
		c.call(t, admin, http.MethodDelete, pods+"/"+pod.Metadata.Name, nil)
	}
	retry(t, 2*time.Minute, func() error {
		list.Items = nil
		c.get(t, selector, &list)
		ready := 0
		for _, pod := range list.Items {
			if s := pod.Status.ContainerStatuses; !uids[pod.Metadata.UID] && len(s) > 0 && s[0].Ready {
				ready++
			}
		}
		if ready < count {
			return fmt.Errorf("%d new members of etcd are ready, want %d", ready, count)
		}
		return nil
	})
}

// deleteLeader deletes the pod of the coordinator that leads, and waits until another one does.
func (c *cluster) deleteLeader(t *testing.T) {
	t.Helper()
	insecure := &http.Client{Timeout: 2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // its own pod
	leader := func(but string) (name string, err error) {
		var pods struct {
			Items []struct {
				Metadata struct{ Name string }
				Status   struct{ PodIP string }
			}
		}
		c.get(t, "/api/v1/namespaces/titrate/pods?labelSelector=app.kubernetes.io/component%3Dcoordinator", &pods)
		for _, pod := range pods.Items {
			if pod.Metadata.Name == but {
				continue
			}
			response, err := insecure.Get("https://" + pod.Status.PodIP + ":7401/metrics")
			if err != nil {
				continue
			}
			page, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if strings.Contains(string(page), "\ntitrate_leading 1\n") {
				return pod.Metadata.Name, nil
			}
		}
		return "", errors.New("no coordinator leads")
	}
	first, err := leader("")
	if err != nil {
		t.Fatal(err)
	}
	said := c.call(t, admin, http.MethodDelete, "/api/v1/namespaces/titrate/pods/"+first, nil)
	if said.code != http.StatusOK {
		t.Fatalf("DELETE %s: %d %s", first, said.code, said.text)
	}
	retry(t, time.Minute, func() error {
		next, err := leader(first)
		if err == nil {
			t.Logf("%s leads after %s", next, first)
		}
		return err
	})
}

// traffic are the requests of two clients of one tenant. One request in four has its own connection, so that
// new gateways are found.
type traffic struct {
	stop     context.CancelFunc
	all      sync.WaitGroup
	mu       sync.Mutex
	requests int
	failed   []string
	free     int            // requests of the client that is free
	refused  map[string]int // by reason
	admitted []time.Time
}

func (in *installed) begin(t *testing.T, url string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &traffic{stop: stop, refused: map[string]int{}}
	t.Cleanup(stop)
	kept := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	fresh := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for name, rate := range map[string]int{"free": freeRate, "limited": limitedOffer} {
		r.all.Go(func() {
			tick := time.NewTicker(time.Second / time.Duration(rate))
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				<-tick.C
				client := kept
				if i%4 == 0 {
					client = fresh
				}
				r.all.Go(func() { r.send(ctx, client, url, name) })
			}
		})
	}
	in.load = r
}

func (r *traffic) send(ctx context.Context, client *http.Client, url, name string) {
	began := time.Now()
	status, reason, err := askWhy(context.WithoutCancel(ctx), client, url, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if name == "free" {
		r.free++
	}
	switch {
	case err != nil:
		r.failed = append(r.failed, fmt.Sprintf("%s %s after %.2f s: %v", began.Format(time.TimeOnly), name,
			time.Since(began).Seconds(), err))
	case status == http.StatusOK && name == "limited":
		r.admitted = append(r.admitted, time.Now())
	case status == http.StatusTooManyRequests && name == "free":
		r.refused[reason]++
	case status != http.StatusOK && status != http.StatusTooManyRequests:
		r.failed = append(r.failed, fmt.Sprintf("%s %s: status %d", began.Format(time.TimeOnly), name, status))
	}
}

func (r *traffic) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// end judges the traffic. A new gateway, without state of a client, adds at most its burst.
func (r *traffic) end(t *testing.T, gateways int) {
	t.Helper()
	r.stop()
	r.all.Wait()
	slices.SortFunc(r.admitted, time.Time.Compare)
	worst, level := 0., 0.
	for i, at := range r.admitted {
		if i > 0 {
			level = max(0, level-limitedRate*at.Sub(r.admitted[i-1]).Seconds())
		}
		level++
		worst = max(worst, level-limitedBurst)
	}
	t.Logf("%d requests, %d failed; the limited client: %d admitted, at most %.1f over rate·t + burst", r.requests,
		len(r.failed), len(r.admitted), worst)
	if len(r.failed) > 0 {
		t.Errorf("%d requests failed, such as:\n%s", len(r.failed), strings.Join(r.failed[:min(10, len(r.failed))], "\n"))
	}
	// A new gateway begins without shares; a client below its part of the shares is refused at most 1 %.
	refused := 0
	for _, n := range r.refused {
		refused += n
	}
	t.Logf("the client below its limit: %d of %d refused %v", refused, r.free, r.refused)
	if refused > r.free/100 || refused > r.refused["tenant_share"] {
		t.Errorf("%d of %d requests of a client below its limit were refused: %v", refused, r.free, r.refused)
	}
	// Two gateways exchange their use within 0.1 s.
	if most := float64(gateways*limitedBurst) + 1 + 2*.1*limitedRate; worst > most {
		t.Errorf("%.1f over rate·t + burst, at most %.1f may be", worst, most)
	}
}
