package installation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/titrate/titrate/lab/installation/child"
)

// patience is the longest time until a process serves. Under valgrind Envoy takes 5 s.
const patience = 60 * time.Second

// Server is a process that serves, and that can be started again after its end. Change Spec only while nothing
// starts it.
type Server struct {
	child.Spec
	// Probe is a URL that answers 2xx once the process serves. With "" nothing waits for it.
	Probe string
	rig   *Rig

	mu      sync.Mutex
	process *child.Process // nil before the first start and after Kill and Stop
}

// Launch starts the process and does not wait until it serves. A process that runs already goes on, and its end is
// expected: the parent of a hot restart.
func (s *Server) Launch() error {
	p, err := s.rig.Launch(s.Spec)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	go func() {
		<-p.Exited()
		if s.Process() == p && s.rig.Died != nil {
			s.rig.Died(p.Obituary())
		}
	}()
	return nil
}

// Start starts the process and waits until it serves. It kills a process that does not.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Launch(); err != nil {
		return err
	}
	err := s.Serving(ctx)
	if err != nil {
		s.Process().Kill()
	}
	return err
}

// Serving waits until the process serves. Its error says why it does not.
func (s *Server) Serving(ctx context.Context) error {
	if s.Probe == "" {
		return nil
	}
	return s.Await(ctx, func(ctx context.Context) error {
		_, err := s.rig.Get(ctx, s.Probe)
		return err
	})
}

// Await calls probe until it returns nil, the process ends, or a minute is over.
func (s *Server) Await(ctx context.Context, probe func(context.Context) error) error {
	p := s.Process()
	if p == nil {
		return fmt.Errorf("%s does not run", s.Spec.Name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	return p.Ready(ctx, probe)
}

// Process returns the process that was started last, also after an end that nobody asked for. It returns nil before
// the first start, and after Kill and Stop.
func (s *Server) Process() *child.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Log returns the path of the log.
func (s *Server) Log() string { return s.rig.log(s.Spec.Name) }

// end returns the process, if there is one, and expects its end from now on.
func (s *Server) end() (p *child.Process) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, s.process = s.process, nil
	return p
}

// Kill sends SIGKILL and waits for the end.
func (s *Server) Kill() {
	if p := s.end(); p != nil {
		p.Kill()
		<-p.Exited()
	}
}

// Stop sends SIGTERM and waits for the end. It kills a process that does not end in time, and returns an error.
func (s *Server) Stop() error { return s.rig.Stop(s) }

// Restart kills the process, starts it again, and waits until it serves.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	return s.Start(ctx)
}

// Stop stops servers at once, as Server.Stop does. It leaves out servers that do not run, and nil.
func (r *Rig) Stop(servers ...*Server) error {
	all := make([]*child.Process, len(servers))
	for i, s := range servers {
		all[i] = s.end()
	}
	return child.Stop(r.grace(), all...)
}
