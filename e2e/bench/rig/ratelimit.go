package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/titrate/titrate/services/dev/child"
	"github.com/titrate/titrate/services/dev/local"
)

// RateLimit is envoyproxy/ratelimit with its Redis.
type RateLimit struct {
	// Port takes gRPC.
	Port           int
	redis, service *child.Process
}

// RateLimit starts a Redis that keeps nothing on disk, and the service with a
// limit per client of each tenant.
func (r *Rig) RateLimit(ctx context.Context, limits []Limit) (*RateLimit, error) {
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w: Debian package redis-server", err)
	}
	p, err := local.Ports(4)
	if err != nil {
		return nil, err
	}
	root := r.File("ratelimit")
	if err := writeLimits(root, limits); err != nil {
		return nil, err
	}
	l := &RateLimit{Port: p[1]}
	if l.redis, err = r.Start(ctx, child.Spec{Name: "redis", Path: redis,
		Args: []string{"--port", fmt.Sprint(p[0]), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir",
			r.Dir}}, ""); err != nil {
		return nil, err
	}
	err = l.redis.Ready(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", local.Address(p[0]))
		if err == nil {
			conn.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	l.service, err = r.Start(ctx, child.Spec{Name: "ratelimit", Path: r.o.RateLimit, Env: []string{
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		fmt.Sprintf("GRPC_PORT=%d", p[1]), fmt.Sprintf("PORT=%d", p[2]), fmt.Sprintf("DEBUG_PORT=%d", p[3]),
		"USE_STATSD=false", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + local.Address(p[0]),
		"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=bench", "RUNTIME_WATCH_ROOT=false",
	}}, "http://"+local.Address(p[2])+"/healthcheck")
	return l, err
}

// writeLimits writes the service's configuration where it looks for it.
func writeLimits(root string, limits []Limit) error {
	var b strings.Builder
	b.WriteString("domain: bench\ndescriptors:\n")
	for _, l := range limits {
		fmt.Fprintf(&b, "  - key: tenant\n    value: %s\n    descriptors:\n      - key: client\n        rate_limit: "+
			"{unit: second, requests_per_unit: %d}\n", l.Tenant, l.Rate)
	}
	dir := filepath.Join(root, "bench", "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(b.String()), 0o600)
}

// Processes are the service and its store; Envoy comes on top.
func (l *RateLimit) Processes() CPU { return CPU{l.service, l.redis} }

// Stop ends both.
func (l *RateLimit) Stop() error { return child.Stop(stopGrace, l.service, l.redis) }
