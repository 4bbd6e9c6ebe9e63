package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Spec is a process to be started.
type Spec struct {
	Name string // for messages
	Path string // of the program
	Args []string
	Env  []string // added to this process's own
	Log  string   // file that its output is appended to
	// Input is its standard input; nil is none.
	Input *os.File
	// Born, if set, is called with the process's number while it stands still before
	// its first instruction (Linux only). Its error ends the process.
	Born func(pid int) error
}

// Group is a set of processes that end together.
type Group struct {
	forks    chan func()
	prepared error // of the thread that forks; set before the first fork
	mu       sync.Mutex
	alive    []*Process
	shut     bool
}

// NewGroup makes an empty group. Close ends it.
func NewGroup() *Group { return NewGroupOn(nil) }

// NewGroupOn returns a group that starts its processes from a thread on which prepare has run. The processes
// inherit the thread's state, such as a namespace that it has entered. If prepare fails, so does every Start.
func NewGroupOn(prepare func() error) *Group {
	g := &Group{forks: make(chan func())}
	go func() {
		// Never unlocked: the thread ends with this goroutine, after Close.
		runtime.LockOSThread()
		if prepare != nil {
			g.prepared = prepare()
		}
		for f := range g.forks {
			f()
		}
	}()
	return g
}

// Start starts a process.
func (g *Group) Start(s Spec) (*Process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, fmt.Errorf("start %s: the group is closed", s.Name)
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.Input != nil {
		cmd.Stdin = s.Input
	}
	cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	g.forks <- func() {
		if g.prepared != nil {
			started <- g.prepared
			return
		}
		started <- begin(cmd, s.Born)
	}
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	p := &Process{Spec: s, cmd: cmd, exited: make(chan struct{})}
	g.alive = append(g.alive, p)
	go p.reap(g)
	return p, nil
}

func (g *Group) forget(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alive = slices.DeleteFunc(g.alive, func(q *Process) bool { return q == p })
}

// Stop ends the given processes together: SIGTERM, and SIGKILL after the grace
// period. Those already dead, and nil, are skipped.
func Stop(grace time.Duration, processes ...*Process) error {
	var all sync.WaitGroup
	errs := make([]error, len(processes))
	for i, p := range processes {
		if p != nil {
			all.Go(func() { errs[i] = p.stop(grace) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// Close kills every process that is still alive and waits for its end.
func (g *Group) Close() {
	g.mu.Lock()
	alive := slices.Clone(g.alive)
	if !g.shut {
		g.shut = true
		close(g.forks)
	}
	g.mu.Unlock()
	for _, p := range alive {
		p.Kill()
	}
	for _, p := range alive {
		<-p.exited
	}
}
