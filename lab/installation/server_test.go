package installation

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/installation/child"
)

// sleeper is a server whose process only sleeps, and the obituaries that the rig reports.
func sleeper(t *testing.T) (s *Server, died chan error) {
	t.Helper()
	r, err := NewRig(Programs{Module: "libtitrate.so"}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	died = make(chan error, 8)
	r.Died = func(obituary error) { died <- obituary }
	s = r.Server(child.Spec{Name: "sleeper", Path: "/bin/sleep", Args: []string{"600"}}, "")
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, died
}

func TestOnlyUnexpectedEndsAreReported(t *testing.T) {
	s, died := sleeper(t)
	parent := s.Process()
	if err := s.Start(t.Context()); err != nil { // as in a hot restart
		t.Fatal(err)
	}
	for _, end := range []func(){
		func() { parent.Kill(); <-parent.Exited() },
		func() {
			if err := s.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		},
		s.Kill,
		s.Kill, // again: nothing to do
		func() {
			if err := s.Start(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		},
	} {
		end()
	}
	if s.Process() != nil {
		t.Error("there is a process after Stop")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.Process().PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-died; !strings.Contains(err.Error(), "sleeper ended by itself: signal: killed") {
		t.Error(err)
	}
	select {
	case err := <-died:
		t.Errorf("also reported: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestAwaitNeedsAProcess(t *testing.T) {
	s, _ := sleeper(t)
	s.Kill()
	if err := s.Await(t.Context(), nil); err == nil || err.Error() != "sleeper does not run" {
		t.Error(err)
	}
}

func TestNumbers(t *testing.T) {
	found := Numbers("dynamicmodulescustom.titrate_keys: 7\nhttp.x: 1\nno number: here\n", ": ")
	if len(found) != 2 || found["titrate_keys"] != 7 || found["http.x"] != 1 {
		t.Error(found)
	}
}
