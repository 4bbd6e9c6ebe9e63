package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/titrate/titrate/e2e/ratelimit"
	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
)

// counters is the number of clients that a service has room for: no load has more.
const counters = 200_000

// startRateLimit starts envoyproxy/ratelimit with its Redis, one for all gateways.
func startRateLimit(ctx context.Context, r *Rig, limits []Limit, _ int) (*Service, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	s, err := ratelimit.Start(ctx, r.Launch, ratelimit.Options{Binary: r.o.RateLimit, Dir: r.File("ratelimit"),
		Files: map[string]string{"bench.yaml": limitFile(limits)}})
	if err != nil {
		return nil, err
	}
	return &Service{ports: []int{s.Port}, charged: []CPU{{s.Service, s.Redis}},
		all: []*child.Process{s.Service, s.Redis}}, nil
}

// limitFile is the configuration of ratelimit.
func limitFile(limits []Limit) string {
	var b strings.Builder
	b.WriteString("domain: bench\ndescriptors:\n")
	for _, l := range limits {
		fmt.Fprintf(&b, "  - key: tenant\n    value: %s\n    descriptors:\n      - key: client\n        rate_limit: "+
			"{unit: second, requests_per_unit: %d}\n", l.Tenant, l.Rate)
	}
	return b.String()
}

// startAgents starts an agent for each gateway. The agent serves ratelimit's API from its file, without a
// coordinator.
func startAgents(ctx context.Context, r *Rig, limits []Limit, gateways int) (*Service, error) {
	dir := r.File("rls")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(limitFile(limits)), 0o600); err != nil {
		return nil, err
	}
	s := &Service{}
	var gossip []string
	for i := range gateways {
		p, err := installation.Ports(3)
		if err != nil {
			return nil, err
		}
		gossip = append([]string{installation.Address(p[0])}, gossip...)
		name, web := fmt.Sprintf("rls-%d", i+1), installation.Address(p[1])
		agent := r.Rig.Titrate("agent "+name, "http://"+web+"/readyz", "agent", "--name", name,
			"--socket", r.Socket(name), "--gossip", gossip[0], "--join", strings.Join(gossip, ","), "--admin", web,
			"--rls", installation.Address(p[2]), "--rls-config", dir, "--rls-keys", fmt.Sprint(counters))
		if err := agent.Start(ctx); err != nil {
			return nil, err
		}
		s.ports, s.charged, s.all = append(s.ports, p[2]), append(s.charged, CPU{agent.Process()}),
			append(s.all, agent.Process())
	}
	return s, nil
}

// startLimitador starts one server around Limitador's library, for all gateways.
func startLimitador(ctx context.Context, r *Rig, limits []Limit, _ int) (*Service, error) {
	p, err := installation.Ports(1)
	if err != nil {
		return nil, err
	}
	args := []string{installation.Address(p[0]), fmt.Sprint(counters)}
	server, err := r.Launch(child.Spec{Name: "limitador", Path: r.o.Limitador, Args: append(args, pairs(limits)...)})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	if err := ratelimit.Listening(ctx, server, p[0]); err != nil {
		return nil, err
	}
	return &Service{ports: p, charged: []CPU{{server}}, all: []*child.Process{server}}, nil
}

// pairs are the limits as arguments: tenant=requests per second.
func pairs(limits []Limit) []string {
	all := make([]string, len(limits))
	for i, l := range limits {
		all[i] = fmt.Sprintf("%s=%d", l.Tenant, l.Rate)
	}
	return all
}
