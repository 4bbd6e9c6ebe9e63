package wire

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// TestMain runs the tests in a separate network namespace, as root of a user namespace if this user is not
// root.
func TestMain(m *testing.M) {
	if os.Getenv("WIRE_TEST_INSIDE") != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), "WIRE_TEST_INSIDE=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = Own()
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			fmt.Println("no network namespace here, nothing tested:", err)
			os.Exit(0)
		}
		os.Exit(max(1, cmd.ProcessState.ExitCode()))
	}
}

// echo answers on a port of the host until the test ends.
func echo(t *testing.T, h *Host) string {
	t.Helper()
	at := make(chan net.Listener)
	go func() {
		runtime.LockOSThread()
		if err := h.Enter(); err != nil {
			t.Error(err)
		}
		l, err := net.Listen("tcp4", h.Address.String()+":7")
		if err != nil {
			t.Error(err)
		}
		at <- l
	}()
	l := <-at
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

func TestLinks(t *testing.T) {
	s, own, err := New("own")
	if err != nil {
		t.Fatal(err)
	}
	if s.Disturbs() != nil {
		t.Skip(s.Disturbs())
	}
	other, err := s.Host("other", 2)
	if err != nil {
		t.Fatal(err)
	}
	address := echo(t, other)
	c, err := net.Dial("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(within time.Duration) error {
		_ = c.SetDeadline(time.Now().Add(within))
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	if err := ask(10 * time.Second); err != nil {
		t.Fatal("a sound link:", err)
	}
	undo := s.Disturb(func(from, to *Host, p Packet) (Fault, bool) {
		return Fault{Cut: true}, from == own && to == other && p.To == 7
	})
	if err := ask(100 * time.Millisecond); err == nil {
		t.Error("an answer over a link that is cut")
	}
	undo()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // TCP sends it again
		t.Error("the link is whole again:", err)
	}
	const late = 150 * time.Millisecond
	defer s.Disturb(func(from, _ *Host, _ Packet) (Fault, bool) { return Fault{Delay: late}, from == other })()
	began := time.Now()
	if err := ask(10 * time.Second); err != nil || time.Since(began) < late {
		t.Errorf("a delayed answer after %v: %v", time.Since(began), err)
	}
	if err := s.Remove(other); err != nil {
		t.Error(err)
	}
}

func TestOwnIsAskedForOnce(t *testing.T) {
	if a := Own(); a.Cloneflags&syscall.CLONE_NEWNET == 0 || a.Pdeathsig != syscall.SIGKILL {
		t.Errorf("attributes %+v", a)
	}
}
