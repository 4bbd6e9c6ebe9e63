//go:build !linux

package child

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

func begin(cmd *exec.Cmd, born func(pid int) error) error {
	if born != nil {
		return errors.New("a process cannot be stopped before its first instruction on this system")
	}
	return cmd.Start()
}

// Without Linux's death signal, children of a parent that is itself killed by
// SIGKILL live on.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
