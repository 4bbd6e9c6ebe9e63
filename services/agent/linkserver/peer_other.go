//go:build !linux

package linkserver

import (
	"net"
	"os"
)

// credentials trusts the mode of the socket where the system has no SO_PEERCRED; the process is not known (0).
func credentials(*net.UnixConn) (pid, uid int, err error) { return 0, os.Getuid(), nil }
