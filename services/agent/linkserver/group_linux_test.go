package linkserver

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/titrate/titrate/proto/link"
)

// dialAs connects from a thread that runs as another user, with a group and a further one.
func dialAs(t *testing.T, path string, uid, gid, further uint32) (conn net.Conn, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		groups := []uint32{further}
		for _, call := range [][4]uintptr{
			{syscall.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&groups[0])), 0},
			{syscall.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)},
			{syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
		} {
			if _, _, e := syscall.RawSyscall(call[0], call[1], call[2], call[3]); e != 0 {
				err = e
				return
			}
		}
		conn, err = net.Dial("unix", path)
	}()
	<-done
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// served returns whether the server answers a Hello.
func served(t *testing.T, conn net.Conn) bool {
	t.Helper()
	// A refused connection may be closed before the Hello is written.
	_ = link.NewWriter(conn).Write(&link.Hello{Version: link.Version, Replica: "e", Generation: 1, PID: 1, Weight: 1})
	_, err := link.NewReader(conn).Next()
	return err == nil
}

// grouped is a server whose socket others could reach, if its mode allowed it.
func grouped(t *testing.T, group string) *Server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can run threads of other users")
	}
	dir, err := os.MkdirTemp("", "titrate-link") // t.TempDir's parent is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, _ := startAt(t, Options{Path: filepath.Join(dir, "a.sock"), Group: group})
	return s
}

// A group's processes may connect, whatever else they are; no others may.
func TestSocketGroup(t *testing.T) {
	const user, group, other = 65532, 4321, 4322
	s := grouped(t, "4321")
	if info, err := os.Stat(s.o.Path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket's mode: %v, %v", info, err)
	}
	for what, gids := range map[string][2]uint32{"by its group": {group, other}, "by a further one": {other, group}} {
		conn, err := dialAs(t, s.o.Path, user, gids[0], gids[1])
		if err != nil || !served(t, conn) {
			t.Errorf("a member %s is not served: %v", what, err)
		}
	}
	if _, err := dialAs(t, s.o.Path, user, other, other); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a stranger connects: %v", err)
	}
}

// Without a group other users are refused, also if somebody opens the socket to all.
func TestOtherUsersAreRefused(t *testing.T) {
	const user = 65532
	s := grouped(t, "")
	if _, err := dialAs(t, s.o.Path, user, user, user); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a stranger connects: %v", err)
	}
	if err := os.Chmod(s.o.Path, 0o666); err != nil {
		t.Fatal(err)
	}
	conn, err := dialAs(t, s.o.Path, user, user, user)
	if err != nil || served(t, conn) {
		t.Errorf("a stranger is served after chmod 666: %v", err)
	}
}

// A group that is not there is named, and no socket is left.
func TestUnknownSocketGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	_, err := Listen(Options{Path: path, Group: "no-such-group", Log: slog.New(slog.DiscardHandler)}, nil)
	if err == nil || !strings.Contains(err.Error(), "--socket-group no-such-group") ||
		!strings.Contains(err.Error(), "/etc/group") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is there: %v", err)
	}
}
