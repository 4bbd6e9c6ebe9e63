package telemetry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Admin is the HTTP server of a process: /metrics, /healthz, /readyz and what [Admin.Handle] adds. With a certificate
// it speaks HTTPS; it never asks for a client certificate, since probes and scrapers have none.
type Admin struct {
	mux     *http.ServeMux
	metrics *Metrics
	log     *slog.Logger
	secure  *tls.Config

	mu     sync.Mutex
	checks []check
	alarms []check
}

// check is one condition of readiness, or an alarm.
type check struct {
	name string
	run  func() error
}

// NewAdmin makes the server around metrics, with TLS if security has a certificate. It
// says what is wrong with the files of security.
func NewAdmin(metrics *Metrics, security Security, log *slog.Logger) (*Admin, error) {
	own := security
	own.CA = ""
	secure, err := own.ServerTLS()
	if err != nil {
		return nil, err
	}
	a := &Admin{mux: http.NewServeMux(), metrics: metrics, log: log, secure: secure}
	if err := a.Files("tls", security); err != nil {
		return nil, err
	}
	a.mux.Handle("GET /metrics", metrics.Handler())
	a.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	a.mux.HandleFunc("GET /readyz", a.ready)
	return a, nil
}

// Handle adds a handler, with a pattern of net/http such as "GET /status".
func (a *Admin) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, h) }

// Check adds a condition to /readyz: run gives nil while it holds, otherwise
// what is wrong. It is called on each probe and must not block.
func (a *Admin) Check(name string, run func() error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks = append(a.checks, check{name, run})
}

// Alarm adds what /readyz says without failing: run gives nil, or what an operator
// must know although the process serves. It is called on each probe and must not block.
func (a *Admin) Alarm(name string, run func() error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alarms = append(a.alarms, check{name, run})
}

// Files makes the process say what is wrong with TLS files, see [Security.Trouble], and when their certificates expire.
// It does so as an alarm of the name, and as metrics with the attribute files.
func (a *Admin) Files(name string, s Security) error {
	if !s.Given() {
		return nil
	}
	a.Alarm(name, func() error { return cmp.Or(s.Trouble(), s.Soon()) })
	return a.metrics.files(name, s)
}

// Ready is nil while every check passes.
func (a *Admin) Ready() error {
	a.mu.Lock()
	checks := slices.Clone(a.checks)
	a.mu.Unlock()
	return run(checks)
}

func run(checks []check) error {
	var failed []error
	for _, c := range checks {
		if err := c.run(); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(failed...)
}

func (a *Admin) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
	a.mu.Lock()
	alarms := slices.Clone(a.alarms)
	a.mu.Unlock()
	if err := run(alarms); err != nil {
		fmt.Fprintf(w, "alarm: %s\n", strings.ReplaceAll(err.Error(), "\n", "\nalarm: "))
	}
}

// ServeHTTP answers one request: an Admin can be mounted or tested without a port.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Serve answers on listener until ctx ends, then closes it, giving requests under way a second.
func (a *Admin) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           a,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		TLSConfig:         a.secure,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	if err := ServeHTTP(ctx, server, listener, time.Second); err != nil {
		return fmt.Errorf("admin server on %s: %w", listener.Addr(), err)
	}
	return nil
}

// ServeHTTP lets a server answer on listener, with TLS if it has a TLSConfig, until ctx ends.
// Then requests under way have the grace to end. It returns nil after such an end.
func ServeHTTP(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration) error {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if server.Shutdown(ending) != nil {
			server.Close()
		}
	})
	defer func() {
		if !stop() {
			<-ended // Serve returns when the end begins
		}
	}()
	var err error
	if server.TLSConfig != nil {
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
