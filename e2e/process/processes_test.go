package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/installation/child"
)

// patience is the time that a test waits for states that a sound system reaches at once.
const patience = 20 * time.Second

// poll is the time between two looks.
const poll = 10 * time.Millisecond

// eventually polls until done says "", and fails with what it said last.
func eventually(t *testing.T, what string, within time.Duration, done func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		why := done()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, within, why)
		}
		time.Sleep(poll)
	}
}

// exited waits for a process and returns its exit status, -1 after a signal.
func exited(t *testing.T, p *child.Process, within time.Duration) int {
	t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(within):
		t.Fatalf("%s has not ended within %v; its log:\n%s", p.Name, within, child.Tail(p.Log, 30))
	}
	how, _, _ := strings.Cut(p.Obituary().Error(), "\n")
	found := regexp.MustCompile(`status (\d+)$`).FindStringSubmatch(how)
	if found == nil {
		return -1
	}
	status, _ := strconv.Atoi(found[1])
	return status
}

// run runs a titrate command to its end.
func (b binaries) run(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return program(t, b.titrate, stdin, args...)
}

// laboratory runs a titrate-lab command to its end.
func (b binaries) laboratory(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return program(t, b.lab, "", args...)
}

func program(t *testing.T, path, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &complaint
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %s: %v", path, strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), complaint.String()
}

// sandbox is a temporary directory that marks every process that has it as its TMPDIR, so that they can be found
// after their parent has ended.
type sandbox struct {
	t     *testing.T
	dir   string
	group *child.Group
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "titrate-e2e-") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, dir: dir, group: child.NewGroup()}
	t.Cleanup(func() {
		s.group.Close()
		os.RemoveAll(dir)
	})
	return s
}

// launch starts a process whose log is outside the marked directory, so that an empty directory means that no
// file was left there.
func (s *sandbox) launch(spec child.Spec) *child.Process {
	s.t.Helper()
	spec.Env = append(spec.Env, "TMPDIR="+s.dir)
	p, err := s.group.Start(spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// processes returns the live processes that were started in the sandbox, also by its processes.
func (s *sandbox) processes() map[int]string {
	s.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.t.Fatal(err)
	}
	found := map[int]string{}
	for _, path := range all {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environ, []byte("TMPDIR="+s.dir+"\x00")) {
			continue // gone, or somebody else's
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		found[pid] = string(bytes.ReplaceAll(bytes.TrimRight(command, "\x00"), []byte{0}, []byte(" ")))
	}
	return found
}

// processesGone fails the test if a process of the sandbox still runs.
func (s *sandbox) processesGone() {
	s.t.Helper()
	eventually(s.t, "no process left", patience, func() string {
		left := s.processes()
		return unless(len(left) == 0, fmt.Sprint(left))
	})
}

// empty fails the test if a process, a socket or any other file is left.
func (s *sandbox) empty() {
	s.t.Helper()
	s.processesGone()
	left, err := os.ReadDir(s.dir)
	if err != nil || len(left) > 0 {
		s.t.Errorf("left behind in the temporary directory: %v, %v", left, err)
	}
}
