package linkserver

import (
	"fmt"
	"net"
	"syscall"
)

// credentials returns the process at the other end and its user.
func credentials(conn *net.UnixConn) (pid, uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, fmt.Errorf("linkserver: peer credentials: %w", err)
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
		return 0, 0, fmt.Errorf("linkserver: peer credentials: %w", err)
	}
	return int(cred.Pid), int(cred.Uid), nil
}
