package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/lab/dev"
	"github.com/titrate/titrate/lab/dev/child"
	"github.com/titrate/titrate/lab/dev/local"
	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/secrets"
)

const (
	gateways = 3
	// startWithin and stopWithin bound how long the processes may take. A fast machine needs a fifth.
	startWithin = 60 * time.Second
	stopWithin  = 5 * time.Second
)

// Names in certificates, which Prometheus checks.
const (
	coordinatorName = "coordinator.observe.titrate"
	agentsName      = "agents.observe.titrate"
	adminName       = "admin.observe.titrate"
)

// policy are the rights of the processes, as in the chart.
const policy = `grants:
  - {id: ` + agentsName + `, role: agent, names: ["gw-*"]}
  - {id: ` + adminName + `, role: admin}
`

// limits are added to the demo's configuration, so that each panel has something to show.
//
//go:embed limits.yaml
var limits string

// tenants are the rates of the load's tenants, requests per second: 410 for a pool of 300.
var tenants = []string{"acme=150", "bolt=100", "core=60", "dart=100"}

// installation is everything that runs.
type installation struct {
	options
	rig  *local.Rig
	web  *http.Client
	fail context.CancelCauseFunc

	etcd, etcdPeer, upstream, api, coordinatorWeb, prometheus string // host:port
	fronts, admins, agentWebs, gossip                         []string

	mu      sync.Mutex
	running map[string]*child.Process // by name: processes that were not asked to end
}

// newInstallation prepares a directory; fail is called when a process ends unexpectedly.
func newInstallation(o options, dir string, fail context.CancelCauseFunc) (*installation, error) {
	rig, err := local.NewRig(o.Programs, dir, nil)
	if err != nil {
		return nil, err
	}
	in := &installation{options: o, rig: rig, fail: fail, running: map[string]*child.Process{}}
	free, err := local.Addresses(6 + 4*gateways)
	if err != nil {
		return nil, err
	}
	for _, to := range []*string{&in.etcd, &in.etcdPeer, &in.upstream, &in.api, &in.coordinatorWeb, &in.prometheus} {
		*to, free = free[0], free[1:]
	}
	for _, to := range []*[]string{&in.fronts, &in.admins, &in.agentWebs, &in.gossip} {
		*to, free = free[:gateways], free[gateways:]
	}
	return in, in.writeFiles()
}

// writeFiles writes certificates, the gossip key, the policy and the configurations.
func (in *installation) writeFiles() error {
	names := func(secret, name string) secrets.Certificate {
		return secrets.Certificate{Secret: secret, Names: []string{name, "127.0.0.1"}}
	}
	_, _, err := secrets.Make(context.Background(), secrets.Files(in.rig.File("secrets")), secrets.Wanted{
		Certificates: []secrets.Certificate{names("coordinator", coordinatorName), names("agent", agentsName),
			names("admin", adminName)}, GossipKeys: []string{"gossip"}})
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"policy.yaml": policy, "prometheus.yaml": in.scrapes(),
		"configuration.yaml": string(dev.DemoDocument) + "---\n" + limits} {
		if err := os.WriteFile(in.rig.File(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	ca, err := os.ReadFile(in.secret("admin", "ca.crt"))
	if err != nil {
		return err
	}
	in.web, err = kubernetes.Trusting(ca)
	return err
}

// secret is a file of one of the secrets.
func (in *installation) secret(of, file string) string {
	return filepath.Join(in.rig.File("secrets"), of, file)
}

// tls are the flags of a process with the certificate.
func (in *installation) tls(of string) []string {
	return []string{"--tls-ca", in.secret(of, "ca.crt"), "--tls-cert", in.secret(of, "tls.crt"), "--tls-key",
		in.secret(of, "tls.key")}
}

// start starts all processes, in the order of their dependencies.
func (in *installation) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("not within %v", startWithin))
	defer cancel()
	servers := []local.Server{in.rig.Etcd("etcd", in.etcd, in.etcdPeer),
		in.rig.Upstream(in.upstream, "--capacity", "330", "--queue", "100"), in.coordinator()}
	for i := range gateways {
		servers = append(servers, in.agent(i))
	}
	for i := range gateways {
		envoy, err := in.rig.Envoy(local.Envoy{Name: gateway(i), Filter: local.Titrate, Port: local.Port(in.fronts[i]),
			Admin: local.Port(in.admins[i]), Upstream: local.Port(in.upstream), AnyProtocol: true,
			Also: dev.DemoClasses})
		if err != nil {
			return err
		}
		servers = append(servers, envoy)
	}
	for _, s := range append(servers, in.load(), in.scraper()) {
		if err := in.run(ctx, s); err != nil {
			return err
		}
		if s.Name == "coordinator" {
			if err := in.apply(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func gateway(i int) string { return fmt.Sprintf("gw-%d", i+1) }

// secure is the server with its admin page behind TLS.
func secure(s local.Server) local.Server {
	s.URL = strings.Replace(s.URL, "http://", "https://", 1)
	return s
}

func (in *installation) coordinator() local.Server {
	return secure(in.rig.Coordinator("coordinator", in.api, in.coordinatorWeb, in.etcd,
		append(in.tls("coordinator"), "--access-policy", in.rig.File("policy.yaml"))...))
}

func (in *installation) agent(i int) local.Server {
	return secure(in.rig.Agent(gateway(i), in.api, in.agentWebs[i], slices.Concat(in.gossip[i:], in.gossip[:i]),
		append(in.tls("agent"), "--gossip-key-file", in.secret("gossip", "gossip.key"))...))
}

func (in *installation) load() local.Server {
	args := []string{"load", "--spread", "6,3,1"}
	for _, front := range in.fronts {
		args = append(args, "--gateways", "http://"+front)
	}
	for _, t := range tenants {
		args = append(args, "--tenant", t)
	}
	return in.rig.Lab("load", "", args...)
}

func (in *installation) scraper() local.Server {
	return local.Server{Spec: child.Spec{Name: "prometheus", Path: in.Prometheus, Args: []string{
		"--config.file", in.rig.File("prometheus.yaml"), "--storage.tsdb.path", in.rig.File("prometheus"),
		"--web.listen-address", in.prometheus, "--log.level", "warn"}}, URL: "http://" + in.prometheus + "/-/ready"}
}

// apply applies the configuration as an admin.
func (in *installation) apply(ctx context.Context) error {
	c := exec.CommandContext(ctx, in.Titrate, append([]string{"apply", "-f", in.rig.File("configuration.yaml"),
		"--server", in.api}, in.tls("admin")...)...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("titrate apply: %w\n%s", err, out)
	}
	return nil
}

// run starts a server, watches over it, and waits until it serves; one without a URL serves nothing.
func (in *installation) run(ctx context.Context, s local.Server) error {
	p, err := in.rig.Launch(s.Spec)
	if err != nil {
		return err
	}
	in.mu.Lock()
	in.running[s.Name] = p
	in.mu.Unlock()
	go func() {
		<-p.Exited()
		in.mu.Lock()
		surprise := in.running[s.Name] == p
		in.mu.Unlock()
		if surprise {
			in.fail(p.Obituary())
		}
	}()
	if s.URL == "" {
		return nil
	}
	return p.Ready(ctx, func(ctx context.Context) error {
		_, err := local.Get(ctx, in.web, s.URL)
		return err
	})
}

// kill ends a process with SIGKILL.
func (in *installation) kill(name string) {
	in.mu.Lock()
	p := in.running[name]
	delete(in.running, name)
	in.mu.Unlock()
	p.Kill()
	<-p.Exited()
}

// stop ends everything, etcd last. What does not end in time is killed, and named in the error.
func (in *installation) stop() error {
	in.mu.Lock()
	etcd := in.running["etcd"]
	delete(in.running, "etcd")
	others := slices.Collect(maps.Values(in.running))
	clear(in.running)
	in.mu.Unlock()
	err := errors.Join(child.Stop(stopWithin, others...), child.Stop(stopWithin, etcd))
	in.rig.Close()
	in.web.CloseIdleConnections()
	return err
}
