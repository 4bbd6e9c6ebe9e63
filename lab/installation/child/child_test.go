package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the parent that is killed.
func TestMain(m *testing.M) {
	if log := os.Getenv("CHILD_TEST_PARENT"); log != "" {
		parent(log)
		return
	}
	os.Exit(m.Run())
}

// parent starts a child, prints its process ID and waits to be killed.
func parent(log string) {
	p, err := NewGroup().Start(Spec{Name: "sleeper", Path: "/bin/sleep", Args: []string{"600"}, Log: log})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.PID())
	select {}
}

func start(t *testing.T, script string) (*Group, *Process) {
	t.Helper()
	g := NewGroup()
	t.Cleanup(g.Close)
	p, err := g.Start(Spec{Name: "fake", Path: "/bin/sh", Args: []string{"-c", script},
		Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	return g, p
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestStopIsPoliteThenNot(t *testing.T) {
	_, polite := start(t, "exec sleep 600")
	if err := Stop(time.Minute, polite, nil); err != nil {
		t.Error(err)
	}
	_, deaf := start(t, "trap '' TERM; echo deaf; while :; do sleep 600; done")
	if err := deaf.Ready(context.Background(), func(context.Context) error {
		if Tail(deaf.Log, 1) != "deaf" {
			return errors.New("not deaf yet")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := Stop(50*time.Millisecond, deaf); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("a deaf child: %v", err)
	}
	if alive(polite.PID()) || alive(deaf.PID()) {
		t.Error("still alive")
	}
}

func TestCloseLeavesNobody(t *testing.T) {
	g, p := start(t, "sleep 600 & echo $!; wait")
	var grandchild int
	if err := p.Ready(context.Background(), func(context.Context) (err error) {
		grandchild, err = strconv.Atoi(strings.TrimSpace(Tail(p.Log, 1)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	g.Close()
	select {
	case <-p.Exited():
	default:
		t.Error("Close returned before the child was reaped")
	}
	if !gone(grandchild) {
		t.Error("the grandchild outlived its group")
	}
	if _, err := g.Start(Spec{Name: "late", Path: "/bin/true", Log: p.Log}); err == nil {
		t.Error("a closed group started a process")
	}
}

func procState(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	return fields[0]
}

func TestReadyTellsWhyNot(t *testing.T) {
	never := func(context.Context) error { return errors.New("connection refused") }
	_, dead := start(t, "echo port 1234 is taken >&2; exit 3")
	if err := dead.Ready(context.Background(), never); err == nil ||
		!strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "port 1234 is taken") {
		t.Errorf("a child that died: %v", err)
	}
	_, slow := start(t, "exec sleep 600")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := slow.Ready(ctx, never); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a slow child: %v", err)
	}
}

func TestStartSaysWhatCannotBeStarted(t *testing.T) {
	g := NewGroup()
	defer g.Close()
	_, err := g.Start(Spec{Name: "envoy", Path: "/nowhere/envoy", Log: filepath.Join(t.TempDir(), "log")})
	if err == nil || !strings.Contains(err.Error(), "envoy") {
		t.Errorf("err = %v", err)
	}
}

// A parent killed by SIGKILL leaves nothing, also if its threads have ended.
func TestDeathOfTheParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CHILD_TEST_PARENT="+filepath.Join(t.TempDir(), "log"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !alive(pid) {
		t.Fatalf("child %q: %v", line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if !gone(pid) {
		t.Error("the child outlived its parent")
	}
}

// gone waits for a killed process to be dead (or a zombie that init has not
// reaped): the kernel needs a moment.
func gone(pid int) bool {
	for range 1000 {
		if s := procState(pid); s == "" || s == "Z" || s == "X" {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	os.WriteFile(path, []byte(strings.Repeat("x\n", 20000)+"a\nb\n"), 0o600)
	if got := Tail(path, 2); got != "a\nb" {
		t.Errorf("Tail = %q", got)
	}
	if got := Tail(path+"none", 2); got != "" {
		t.Errorf("Tail of nothing = %q", got)
	}
}
