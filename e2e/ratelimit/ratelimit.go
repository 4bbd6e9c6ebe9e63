// Package ratelimit starts envoyproxy/ratelimit and its Redis, for comparison: in benchmarks, and in tests of
// our service with the same API.
package ratelimit

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/titrate/titrate/lab/installation"
	"github.com/titrate/titrate/lab/installation/child"
)

// Options of a service.
type Options struct {
	Binary string            // of envoyproxy/ratelimit, see tools/sh/ratelimit.sh
	Dir    string            // for its files and logs
	Files  map[string]string // its configuration: YAML by file name
	Env    []string          // more settings, such as SHADOW_MODE=true
}

// Service is a running service.
type Service struct {
	// Port takes gRPC.
	Port           int
	Redis, Service *child.Process
}

// Start starts a Redis that keeps nothing on disk, and the service, each by launch, such as
// child.Group's Start.
func Start(ctx context.Context, launch func(child.Spec) (*child.Process, error), o Options) (*Service, error) {
	if err := o.write(); err != nil {
		return nil, err
	}
	process, redis, err := StartRedis(ctx, launch, o.Dir)
	if err != nil {
		return nil, err
	}
	p, err := installation.Ports(3)
	if err != nil {
		return nil, err
	}
	s := &Service{Port: p[0], Redis: process}
	if s.Service, err = launch(child.Spec{Name: "ratelimit", Path: o.Binary,
		Log: filepath.Join(o.Dir, "ratelimit.log"), Env: append([]string{
			"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
			fmt.Sprintf("GRPC_PORT=%d", p[0]), fmt.Sprintf("PORT=%d", p[1]), fmt.Sprintf("DEBUG_PORT=%d", p[2]),
			"USE_STATSD=false", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + installation.Address(redis),
			"RUNTIME_ROOT=" + o.Dir, "RUNTIME_SUBDIRECTORY=" + subdirectory, "RUNTIME_WATCH_ROOT=false",
		}, o.Env...)}); err != nil {
		return nil, err
	}
	return s, s.Service.Ready(ctx, func(ctx context.Context) error {
		_, err := installation.Get(ctx, http.DefaultClient, "http://"+installation.Address(p[1])+"/healthcheck")
		return err
	})
}

// StartRedis starts a Redis that keeps nothing on disk, with its log in a directory, and returns its port.
func StartRedis(ctx context.Context, launch func(child.Spec) (*child.Process, error),
	dir string) (redis *child.Process, port int, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, 0, fmt.Errorf("%w: Debian package redis-server", err)
	}
	p, err := installation.Ports(1)
	if err != nil {
		return nil, 0, err
	}
	redis, err = launch(child.Spec{Name: "redis", Path: path, Log: filepath.Join(dir, "redis.log"),
		Args: []string{"--port", fmt.Sprint(p[0]), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
			"--dir", dir}})
	if err != nil {
		return nil, 0, err
	}
	return redis, p[0], Listening(ctx, redis, p[0])
}

// subdirectory is the directory of the service's configuration below its root, in config.
const subdirectory = "limits"

func (o Options) write() error {
	dir := filepath.Join(o.Dir, subdirectory, "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range o.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Listening waits until a port of loopback takes connections, or the process that is to has ended.
func Listening(ctx context.Context, p *child.Process, port int) error {
	return p.Ready(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", installation.Address(port))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
