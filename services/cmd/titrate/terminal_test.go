package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal: the end that a user sits at, and a program's.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals here: ", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return user, program
}

// A library that asks the terminal for its colours as the program starts makes every command wait for the answer, for
// five seconds where none comes. This program starts as titrate does: the same packages are initialized.
func TestNothingIsAskedOfTheTerminalAtStart(t *testing.T) {
	user, program := terminal(t)
	start := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	start.Env = append(withoutCI(os.Environ()), "TERM=xterm-256color")
	start.Stdin, start.Stdout, start.Stderr = program, program, program
	start.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := start.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	var out bytes.Buffer
	if _, err := io.Copy(&out, user); err != nil && !errors.Is(err, syscall.EIO) { // EIO: the other end is closed
		t.Error(err)
	}
	if err := start.Wait(); err != nil {
		t.Errorf("%v\n%q", err, out.String())
	}
	if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "PASS") {
		t.Errorf("%q", out.String())
	}
}

// withoutCI leaves out the variables by which libraries know that no user is there to be asked.
func withoutCI(env []string) (kept []string) {
	for _, v := range env {
		if !strings.HasPrefix(v, "CI=") {
			kept = append(kept, v)
		}
	}
	return kept
}
