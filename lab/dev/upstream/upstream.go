// Package upstream is an HTTP server with a real capacity, which the demo's gateways protect.
//
// # Model
//
// k workers serve one request each, for a fixed service time s: the capacity
// is k/s requests per second. Requests beyond k wait in a first-come queue of
// bounded length; when it is full the answer is 503 at once. So an overloaded
// upstream first becomes slow, by at most queue·s/k, and then fails.
//
// Each answer has the arrival time of the request (ArrivalHeader), which counts as the time of its admission.
// An optional trace has one NDJSON line per request.
//
// # Invariants
//
//   - at most k requests are in service and at most the queue's length wait;
//   - a request that its client gave up while waiting takes no worker;
//   - answered + refused + abandoned = arrived.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// ArrivalHeader of an answer is the Unix time of the request's arrival, ns.
const ArrivalHeader = "x-upstream-arrival"

// HealthPath answers 200 without taking a worker.
const HealthPath = "/healthz"

// Config of a server.
type Config struct {
	// Workers is k ≥ 1.
	Workers int
	// ServiceTime is s > 0. Workers/ServiceTime is the capacity.
	ServiceTime time.Duration
	// Queue is the number of requests that may wait, ≥ 0. Longer = slower and
	// later failing under overload.
	Queue int
	// Trace, if set, gets one NDJSON line per request.
	Trace io.Writer
}

// Validate returns the first mistake of the configuration, or nil.
func (c *Config) Validate() error {
	switch {
	case c.Workers < 1:
		return fmt.Errorf("upstream: %d workers, needs at least 1", c.Workers)
	case c.ServiceTime <= 0:
		return fmt.Errorf("upstream: service time %v, must be above 0", c.ServiceTime)
	case c.Queue < 0:
		return fmt.Errorf("upstream: queue of %d, must be 0 or more", c.Queue)
	}
	return nil
}

// Capacity in requests per second.
func (c *Config) Capacity() float64 { return float64(c.Workers) / c.ServiceTime.Seconds() }

// Server is an http.Handler with a capacity.
type Server struct {
	config  Config
	workers chan struct{} // a token per busy worker; its senders queue in order
	waiting atomic.Int64
	trace   *tracer
}

// New makes a server of a valid configuration.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Server{config: c, workers: make(chan struct{}, c.Workers), trace: newTracer(c.Trace)}, nil
}

// ServeHTTP serves one request, in turn.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == HealthPath {
		w.WriteHeader(http.StatusOK)
		return
	}
	arrived := time.Now()
	w.Header().Set(ArrivalHeader, strconv.FormatInt(arrived.UnixNano(), 10))
	status, waited := s.serve(r.Context())
	switch status {
	case http.StatusOK:
		fmt.Fprintln(w, "ok")
	case http.StatusServiceUnavailable:
		http.Error(w, fmt.Sprintf("overloaded: %d in service and %d waiting", s.config.Workers, s.config.Queue), status)
	}
	s.trace.write(r, arrived, waited, status)
}

// statusAbandoned is the trace's status of a request whose client went away.
const statusAbandoned = 499

func (s *Server) serve(ctx context.Context) (status int, waited time.Duration) {
	start := time.Now()
	select {
	case s.workers <- struct{}{}:
	default:
		if s.waiting.Add(1) > int64(s.config.Queue) {
			s.waiting.Add(-1)
			return http.StatusServiceUnavailable, 0
		}
		select {
		case s.workers <- struct{}{}:
			s.waiting.Add(-1)
		case <-ctx.Done():
			s.waiting.Add(-1)
			return statusAbandoned, time.Since(start)
		}
	}
	defer func() { <-s.workers }()
	waited = time.Since(start)
	time.Sleep(s.config.ServiceTime) // the work is done whether or not anyone still listens
	return http.StatusOK, waited
}

// ListenAndServe serves on the listener until ctx ends, then lets requests in
// service finish within the grace period.
func (s *Server) ListenAndServe(ctx context.Context, l net.Listener, grace time.Duration) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("upstream: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := server.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	return errors.Join(err, s.trace.flush())
}
