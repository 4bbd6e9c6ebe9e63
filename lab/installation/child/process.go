package child

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Process is a child.
type Process struct {
	Spec
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait; set before exited is closed
}

// Exited is closed when the process is dead and reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill sends SIGKILL to the process and to all that it started.
func (p *Process) Kill() { kill(p.cmd.Process) }

func (p *Process) reap(g *Group) {
	p.err = p.cmd.Wait()
	g.forget(p)
	close(p.exited)
}

// stop returns an error when the process had to be killed.
func (p *Process) stop(grace time.Duration) error {
	terminate(p.cmd.Process)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
		p.Kill()
		<-p.exited
		return fmt.Errorf("%s did not stop within %v and was killed", p.Name, grace)
	}
}

// readyPause is the time between two probes.
const readyPause = 25 * time.Millisecond

// Ready probes the process until the probe succeeds, the process dies or ctx
// ends; the error then has the probe's last complaint and the end of the log.
func (p *Process) Ready(ctx context.Context, probe func(context.Context) error) error {
	ticker := time.NewTicker(readyPause)
	defer ticker.Stop()
	var err error
	for {
		last := probe(ctx)
		if last == nil {
			return nil
		}
		if err == nil || ctx.Err() == nil { // a probe that was cut short is no evidence
			err = last
		}
		select {
		case <-p.exited:
			return p.Obituary()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w): %w%s", p.Name, context.Cause(ctx), err, p.logged())
		case <-ticker.C:
		}
	}
}

// Obituary returns an error that says how the process ended, with the end of its log. Call it only after
// Exited.
func (p *Process) Obituary() error {
	how := "with status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended by itself: %s%s", p.Name, how, p.logged())
}

// Bounds of the part of a log that an error quotes.
const (
	tailLines = 12
	tailBytes = 16 << 10
)

func (p *Process) logged() string {
	tail := Tail(p.Log, tailLines)
	if tail == "" {
		return "\n  (nothing in " + p.Log + ")"
	}
	return "\n  last lines of " + p.Log + ":\n    " + strings.ReplaceAll(tail, "\n", "\n    ")
}

// Tail is the last lines of a file; "" when there are none or it cannot be read.
func Tail(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, _ := io.ReadAll(io.LimitReader(f, tailBytes))
	all := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
