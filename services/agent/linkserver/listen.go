package linkserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// longestPath is the kernel's room for a path in a Unix socket's address, in bytes, less the zero at its end.
const longestPath = 107

// listen opens the socket, in the place of a dead agent's socket. Its mode is
// 0600, or 0660 for the group, if there is one.
func listen(path, group string) (*net.UnixListener, error) {
	if n := len(path); n == 0 || n > longestPath {
		return nil, fmt.Errorf("linkserver: the socket's path %q has %d bytes, 1 to %d are possible: give a shorter "+
			"--socket, such as /run/titrate/agent.sock", path, n, longestPath)
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	before := syscall.Umask(0o177) // no moment in which others could connect
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(before)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("linkserver: no directory %s for the socket: make it, or give another --socket",
			filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("linkserver: listen on %s: %w", path, err)
	}
	if err := admit(path, group); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// admit lets processes of the group connect to the socket. The group is a name or a number; "" is none.
func admit(path, group string) error {
	if group == "" {
		return nil
	}
	gid, err := strconv.ParseUint(group, 10, 31)
	if err != nil {
		known, err := user.LookupGroup(group)
		if err != nil {
			return fmt.Errorf("linkserver: --socket-group %s is no group here (%w): give one of /etc/group, "+
				"or a number", group, err)
		}
		if gid, err = strconv.ParseUint(known.Gid, 10, 31); err != nil {
			return fmt.Errorf("linkserver: --socket-group %s: its number is %q: %w", group, known.Gid, err)
		}
	}
	if err := os.Chown(path, -1, int(gid)); err != nil {
		return fmt.Errorf("linkserver: --socket-group %s: %w: the agent's user must be a member of the group, or root",
			group, err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return fmt.Errorf("linkserver: --socket-group %s: %w", group, err)
	}
	return nil
}

// clearStale removes a socket that nobody listens on. Anything else in its place is an error that says what it is.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("linkserver: look at %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("linkserver: %s is there and is not a socket (%s): give another --socket, or remove it",
			path, info.Mode())
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("linkserver: another agent listens on %s: stop it, or give this one another --socket", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("linkserver: cannot find out whether %s is in use: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("linkserver: remove the stale socket %s: %w", path, err)
	}
	return nil
}
