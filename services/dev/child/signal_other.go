//go:build !linux

package child

import (
	"os"
	"syscall"
)

// Without Linux's death signal, children of a parent that is itself killed by
// SIGKILL live on.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
