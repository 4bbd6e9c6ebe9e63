package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// begin starts a command. With born it is traced for as long as that takes: the
// kernel stops it when its program has been loaded.
func begin(cmd *exec.Cmd, born func(pid int) error) error {
	if born == nil {
		return cmd.Start()
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, 0, nil)
	switch {
	case err != nil:
	case !status.Stopped():
		err = fmt.Errorf("it did not stop before its first instruction: status %#x", int(status))
	default:
		err = born(pid)
	}
	if err == nil {
		err = syscall.PtraceDetach(pid)
	}
	if err != nil {
		kill(cmd.Process)
		return errors.Join(err, reaped(cmd))
	}
	return nil
}

// reaped waits for a process that was killed.
func reaped(cmd *exec.Cmd) error {
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// A signal to a dead process is no error: the process was to end.
func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
