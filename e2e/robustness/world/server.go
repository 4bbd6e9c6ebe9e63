package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/robustness/clock"
	"github.com/titrate/titrate/e2e/robustness/wire"
	"github.com/titrate/titrate/lab/installation"
)

// Server is a process at a host. It can be ended, frozen and started again, and its clock can be stepped.
type Server struct {
	*installation.Server
	Host *wire.Host

	rig     *rig.Rig
	world   *World
	metrics string // URL of its metrics, "" if they count no goroutines

	mu    sync.Mutex
	clock *clock.Clock  // of the process; nil if clocks cannot be stepped here
	step  time.Duration // of the clock, also of the next process
}

func (w *World) server(h *wire.Host, r *rig.Rig, of *installation.Server) *Server {
	s := &Server{Server: of, Host: h, rig: r, world: w}
	of.Born = s.Born
	w.mu.Lock()
	w.servers = append(w.servers, s)
	w.mu.Unlock()
	return s
}

// Born gives a process that begins a clock that can be stepped.
func (s *Server) Born(pid int) error {
	if s.world.clocks != nil {
		return nil
	}
	c, err := clock.Bend(pid)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = c
	return c.Step(s.step)
}

// Step sets how far the clock of the server is from the true time, also of
// processes that it will be. It does nothing where clocks cannot be stepped.
func (s *Server) Step(by time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = by
	if s.clock == nil || s.Process() == nil {
		return nil
	}
	return s.clock.Step(by)
}

// stopGrace is the time that a process has to end after SIGTERM.
const stopGrace = 10 * time.Second

// Freeze stops the process (SIGSTOP), Thaw lets it go on.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw is described at Freeze.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(what syscall.Signal) error {
	p := s.Process()
	if p == nil {
		return fmt.Errorf("%s does not run", s.Name)
	}
	if err := syscall.Kill(-p.PID(), what); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%s of %s: %w", what, s.Name, err)
	}
	return nil
}

// Goroutines returns the number of goroutines of the process; 0 for a process that is not Titrate's.
func (s *Server) Goroutines(ctx context.Context) (float64, error) {
	if s.metrics == "" {
		return 0, nil
	}
	page, err := s.rig.Get(ctx, s.metrics)
	if err != nil {
		return 0, err
	}
	for _, separator := range []string{" ", ": "} {
		found := installation.Numbers(page, separator)
		for _, name := range []string{"go_goroutines", "titrate_goroutines"} {
			if n, is := found[name]; is {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("%s does not count its goroutines", s.metrics)
}
