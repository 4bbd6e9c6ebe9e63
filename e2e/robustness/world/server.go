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
	"github.com/titrate/titrate/lab/dev/child"
	"github.com/titrate/titrate/lab/dev/local"
)

// Server is a process at a host that can be ended, frozen and started again.
type Server struct {
	Name string
	Host *wire.Host

	rig     *rig.Rig
	world   *World
	ready   string // URL that answers 2xx once it serves
	metrics string // URL of its metrics, "" if they count no goroutines

	mu      sync.Mutex
	spec    child.Spec
	process *child.Process // nil while there is none
	clock   *clock.Clock   // of process; nil if clocks cannot be stepped here
	step    time.Duration  // of the clock, also of the next process
	asked   map[*child.Process]bool
}

func (w *World) server(h *wire.Host, r *rig.Rig, of local.Server) *Server {
	s := &Server{Name: of.Name, Host: h, rig: r, world: w, ready: of.URL, spec: of.Spec,
		asked: map[*child.Process]bool{}}
	w.mu.Lock()
	w.servers = append(w.servers, s)
	w.mu.Unlock()
	return s
}

// Start starts the process; if wait, it returns when it serves.
func (s *Server) Start(ctx context.Context, wait bool) error {
	ready := s.ready
	if !wait {
		ready = ""
	}
	s.mu.Lock()
	spec := s.spec
	s.mu.Unlock()
	spec.Born = s.Born
	p, err := s.rig.Start(ctx, spec, ready)
	if p != nil {
		s.adopt(p)
	}
	return err
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
	if s.clock == nil || s.process == nil {
		return nil
	}
	return s.clock.Step(by)
}

// change gives the next processes other arguments.
func (s *Server) change(args []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spec.Args = args
}

// adopt watches over a process as the server's own.
func (s *Server) adopt(p *child.Process) {
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	go func() {
		<-p.Exited()
		s.mu.Lock()
		asked := s.asked[p]
		delete(s.asked, p)
		s.mu.Unlock()
		if !asked {
			s.world.died(p.Obituary())
		}
	}()
}

// Process returns the running process, or nil.
func (s *Server) Process() *child.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// ending is the process, whose end is no surprise from now on; nil if there is none.
func (s *Server) ending() *child.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process
	if p != nil {
		s.asked[p] = true
		s.process = nil
	}
	return p
}

// Kill sends SIGKILL and waits for the end.
func (s *Server) Kill() {
	if p := s.ending(); p != nil {
		p.Kill()
		<-p.Exited()
	}
}

// stopGrace is the time that a process has to end after a signal.
const stopGrace = 10 * time.Second

// Stop sends SIGTERM and waits for the end.
func (s *Server) Stop() error { return child.Stop(stopGrace, s.ending()) }

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
		found := numbers(page, separator)
		for _, name := range []string{"go_goroutines", "titrate_goroutines"} {
			if n, is := found[name]; is {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("%s does not count its goroutines", s.metrics)
}
