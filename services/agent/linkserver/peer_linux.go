package linkserver

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// authenticate returns the process at the other end, which must run as root or
// as the agent's own user.
func authenticate(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("linkserver: peer credentials: %w", err)
	}
	var cred *syscall.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, inner = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = inner
	}
	if err != nil {
		return 0, fmt.Errorf("linkserver: peer credentials: %w", err)
	}
	return int(cred.Pid), checkUser(cred.Uid, uint32(os.Getuid()))
}
