package containers

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	titrateImage = "titrate/titrate:dev"
	labImage     = "titrate/lab:dev"
	gatewayImage = "titrate/gateway:dev"
	etcdImage    = "quay.io/coreos/etcd:v3.7.3"
)

// cluster is etcd, a coordinator, an upstream and some gateways.
type cluster struct {
	mesh, edge *testcontainers.DockerNetwork
	agents     []testcontainers.Container
	gateways   []string // URLs on loopback
	api        string   // the coordinator's address on loopback
}

// member is one container of the cluster.
type member struct {
	name, image string
	args        []string
	networks    []*testcontainers.DockerNetwork
	port        string // published on loopback, e.g. "7400/tcp"
	run         string // host directory at /run/titrate
	ready       wait.Strategy
}

// startCluster starts everything; the test's end stops it.
func startCluster(t *testing.T, capacity float64, gateways int) *cluster {
	t.Helper()
	requireEngine(t)
	c := &cluster{mesh: newNetwork(t, network.WithInternal()), edge: newNetwork(t)}
	mesh, both := []*testcontainers.DockerNetwork{c.mesh}, []*testcontainers.DockerNetwork{c.edge, c.mesh}
	start(t, member{name: "etcd", image: etcdImage, networks: mesh,
		ready: wait.ForLog("ready to serve client requests"),
		args:  []string{"--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://etcd:2379"}})
	start(t, member{name: "upstream", image: labImage, networks: []*testcontainers.DockerNetwork{c.edge},
		args: []string{"upstream", "--listen=0.0.0.0:9000", fmt.Sprintf("--capacity=%g", capacity)}})
	coordinator := start(t, member{name: "coordinator", image: titrateImage, networks: both, port: "7400/tcp",
		ready: wait.ForListeningPort("7400/tcp").SkipInternalCheck(),
		args: []string{"coordinator", "--listen=0.0.0.0:7400", "--advertise=coordinator:7400",
			"--etcd-endpoints=http://etcd:2379", "--insecure"}})
	c.api = strings.TrimPrefix(endpoint(t, coordinator, "7400/tcp"), "http://")
	var peers []string
	for i := range gateways {
		peers = append(peers, fmt.Sprintf("agent-%d:7500", i+1))
	}
	for i := range gateways {
		c.startGateway(t, fmt.Sprint(i+1), strings.Join(peers, ","))
	}
	return c
}

func (c *cluster) startGateway(t *testing.T, n, peers string) {
	t.Helper()
	run := shortDir(t)
	c.agents = append(c.agents, start(t, member{name: "agent-" + n, image: titrateImage,
		networks: []*testcontainers.DockerNetwork{c.mesh}, run: run,
		args: []string{"agent", "--socket=/run/titrate/agent.sock", "--coordinator=coordinator:7400",
			"--gossip=0.0.0.0:7500", "--join=" + peers, "--snapshot-dir=/run/titrate/snapshot", "--insecure"}}))
	envoy := start(t, member{name: "gateway-" + n, image: gatewayImage,
		networks: []*testcontainers.DockerNetwork{c.edge}, run: run, port: "8000/tcp",
		ready: wait.ForListeningPort("8000/tcp").SkipInternalCheck(),
		args: []string{"-c", "/etc/envoy/envoy.yaml", "--concurrency", "1", "--log-level", "warn", "--drain-time-s",
			"2"}})
	c.gateways = append(c.gateways, endpoint(t, envoy, "8000/tcp"))
}

// cut takes an agent off the mesh: no gossip, no coordinator, in both directions.
func (c *cluster) cut(t *testing.T, agent int) {
	t.Helper()
	_, err := engine(t).NetworkDisconnect(t.Context(), c.mesh.ID,
		client.NetworkDisconnectOptions{Container: c.agents[agent].GetContainerID(), Force: true})
	if err != nil {
		t.Fatalf("cutting agent %d off the mesh: %v", agent+1, err)
	}
}

// heal puts it back.
func (c *cluster) heal(t *testing.T, agent int) {
	t.Helper()
	_, err := engine(t).NetworkConnect(t.Context(), c.mesh.ID,
		client.NetworkConnectOptions{Container: c.agents[agent].GetContainerID()})
	if err != nil {
		t.Fatalf("healing agent %d: %v", agent+1, err)
	}
}

func newNetwork(t *testing.T, options ...network.NetworkCustomizer) *testcontainers.DockerNetwork {
	t.Helper()
	n, err := network.New(t.Context(), options...)
	if err != nil {
		t.Fatalf("network: %v", err)
	}
	t.Cleanup(func() { _ = n.Remove(context.Background()) })
	return n
}

func start(t *testing.T, m member) testcontainers.Container {
	t.Helper()
	request := testcontainers.ContainerRequest{
		Image: m.image, Cmd: m.args, WaitingFor: m.ready,
		ConfigModifier: func(c *container.Config) { c.Hostname, c.User = m.name, "0:0" },
		HostConfigModifier: func(h *container.HostConfig) {
			if m.run != "" {
				h.Binds = []string{m.run + ":/run/titrate"}
			}
		},
		NetworkAliases: map[string][]string{},
	}
	for _, n := range m.networks {
		request.Networks = append(request.Networks, n.Name)
		request.NetworkAliases[n.Name] = []string{m.name}
	}
	if m.port != "" {
		request.ExposedPorts = []string{m.port}
	}
	c, err := testcontainers.GenericContainer(t.Context(),
		testcontainers.GenericContainerRequest{ContainerRequest: request, Started: true})
	t.Cleanup(func() { stop(t, m.name, c) })
	if err != nil {
		t.Fatalf("container %s: %v", m.name, err)
	}
	return c
}

// stop removes a container, after its last words if the test failed.
func stop(t *testing.T, name string, c testcontainers.Container) {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if t.Failed() {
		if logs, err := c.Logs(ctx); err == nil {
			text, _ := io.ReadAll(logs)
			t.Logf("%s said:\n%s", name, text[max(0, len(text)-4096):])
		}
	}
	_ = testcontainers.TerminateContainer(c, testcontainers.StopTimeout(time.Second))
}

func endpoint(t *testing.T, c testcontainers.Container, port string) string {
	t.Helper()
	url, err := c.PortEndpoint(t.Context(), port, "http")
	if err != nil {
		t.Fatalf("published port %s: %v", port, err)
	}
	return url
}

func engine(t *testing.T) *testcontainers.DockerClient {
	t.Helper()
	c, err := testcontainers.NewDockerClientWithOpts(t.Context())
	if err != nil {
		t.Fatalf("container engine: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// requireEngine skips the test where there is no engine or image, unless it must run.
func requireEngine(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{"TESTCONTAINERS_RYUK_DISABLED": "true",
		"TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1"} {
		t.Setenv(name, value)
	}
	give := t.Skipf
	if os.Getenv("TITRATE_CONTAINERS") != "" {
		give = t.Fatalf
	}
	if _, err := os.Stat("/var/run/docker.sock"); err != nil && os.Getenv("DOCKER_HOST") == "" {
		give("no container engine: `make containers` starts one")
	}
	for _, image := range []string{titrateImage, gatewayImage, etcdImage} {
		if _, err := engine(t).ImageInspect(t.Context(), image); err != nil {
			give("image %s: %v; `make images` builds it", image, err)
		}
	}
}

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ti")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.MkdirAll(filepath.Join(dir, "snapshot"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
