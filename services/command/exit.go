package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit statuses of every command.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitVoid   = 3 // of dev: the run proves nothing
)

// Exit carries the exit status of a command. Without err nothing more is to be said: the command has said it.
type Exit struct {
	Status int
	err    error
}

func (e *Exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.err.Error()
}

func (e *Exit) Unwrap() error { return e.err }

// Usage marks an error as wrong usage.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &Exit{Status: ExitUsage, err: err}
}

func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// ExitStatus returns the exit status that an error of a command means.
func ExitStatus(err error) int {
	var e *Exit
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.Status
	}
	return ExitFailed
}

// NoArgs refuses arguments as wrong usage.
func NoArgs(cmd *cobra.Command, args []string) error { return Usage(cobra.NoArgs(cmd, args)) }
