//go:build !linux

package linkserver

import "net"

// authenticate trusts the mode of the socket where the system has no
// SO_PEERCRED; the process is not known (0).
func authenticate(*net.UnixConn) (pid int, err error) { return 0, nil }
