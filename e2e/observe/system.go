package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/titrate/titrate/lab/dev"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/secrets"
	"github.com/titrate/titrate/services/telemetry"
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

// system is everything that runs.
type system struct {
	*installation.Installation
	options
	load, scraper *installation.Server
	prometheus    string // host:port
}

// newSystem prepares a directory; fail is called when a process ends unexpectedly.
func newSystem(o options, dir string, fail context.CancelCauseFunc) (*system, error) {
	rig, err := installation.NewRig(o.Programs, dir, nil)
	if err != nil {
		return nil, err
	}
	rig.Died, rig.Grace = fail, stopWithin
	if err := makeSecrets(rig); err != nil {
		return nil, err
	}
	ports, err := installation.PlanPorts(0, gateways)
	if err != nil {
		return nil, err
	}
	in, err := rig.New(installation.Options{Ports: ports, Documents: dev.DemoDocument + "---\n" + limits,
		Upstream:    []string{"--capacity", "330", "--queue", "100"},
		Coordinator: append(tls(rig, "coordinator"), "--access-policy", rig.File("policy.yaml")),
		Agent:       append(tls(rig, "agent"), "--gossip-key-file", secret(rig, "gossip", "gossip.key")),
		Client: telemetry.Security{CA: secret(rig, "admin", "ca.crt"), Cert: secret(rig, "admin", "tls.crt"),
			Key: secret(rig, "admin", "tls.key")}})
	if err != nil {
		return nil, err
	}
	for i := range gateways {
		e := installation.Envoy{Name: gateway(i), AnyProtocol: true, Also: dev.DemoClasses}
		if _, err := in.AddGateway(e); err != nil {
			return nil, err
		}
	}
	s := &system{Installation: in, options: o}
	free, err := installation.Addresses(1)
	if err != nil {
		return nil, err
	}
	s.prometheus, s.load = free[0], s.loadServer()
	s.scraper = rig.Server(child.Spec{Name: "prometheus", Path: o.Prometheus, Args: []string{
		"--config.file", rig.File("prometheus.yaml"), "--storage.tsdb.path", rig.File("prometheus"),
		"--web.listen-address", s.prometheus, "--log.level", "warn"}}, "http://"+s.prometheus+"/-/ready")
	return s, os.WriteFile(rig.File("prometheus.yaml"), []byte(s.scrapes()), 0o600)
}

// makeSecrets writes certificates, the gossip key and the policy, and trusts the certificates.
func makeSecrets(rig *installation.Rig) error {
	names := func(secret, name string) secrets.Certificate {
		return secrets.Certificate{Secret: secret, Names: []string{name, "127.0.0.1"}}
	}
	_, _, err := secrets.Make(context.Background(), secrets.Files(rig.File("secrets")), secrets.Wanted{
		Certificates: []secrets.Certificate{names("coordinator", coordinatorName), names("agent", agentsName),
			names("admin", adminName)}, GossipKeys: []string{"gossip"}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(rig.File("policy.yaml"), []byte(policy), 0o600); err != nil {
		return err
	}
	ca, err := os.ReadFile(secret(rig, "admin", "ca.crt"))
	if err != nil {
		return err
	}
	rig.Client, err = kubernetes.Trusting(ca)
	return err
}

// secret is a file of one of the secrets.
func secret(rig *installation.Rig, of, file string) string {
	return filepath.Join(rig.File("secrets"), of, file)
}

// tls are the flags of a process with the certificate.
func tls(rig *installation.Rig, of string) []string {
	return []string{"--tls-ca", secret(rig, of, "ca.crt"), "--tls-cert", secret(rig, of, "tls.crt"), "--tls-key",
		secret(rig, of, "tls.key")}
}

// start starts all processes, in the order of their dependencies.
func (s *system) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("not within %v", startWithin))
	defer cancel()
	if err := s.Start(ctx); err != nil {
		return err
	}
	if err := s.load.Start(ctx); err != nil {
		return err
	}
	return s.scraper.Start(ctx)
}

func gateway(i int) string { return fmt.Sprintf("gw-%d", i+1) }

func (s *system) loadServer() *installation.Server {
	args := []string{"load", "--spread", "6,3,1"}
	for _, g := range s.Gateways {
		args = append(args, "--gateways", "http://"+g.Address())
	}
	for _, t := range tenants {
		args = append(args, "--tenant", t)
	}
	return s.Lab("load", "", args...)
}

// stop ends everything, etcd last. What does not end in time is killed, and named in the error.
func (s *system) stop() error {
	err := errors.Join(s.Rig.Stop(s.load, s.scraper), s.Stop())
	s.Close()
	return err
}
