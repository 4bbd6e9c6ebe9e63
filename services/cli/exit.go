package cli

import (
	"errors"
	"fmt"

	"github.com/titrate/titrate/services/dev"
)

// Exit statuses of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitVoid   = 3 // of dev: the run proves nothing
)

// exitError carries the exit status of a command. Without err nothing more is to
// be said: the command has said it.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as wrong usage.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{status: exitUsage, err: err}
}

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

// ExitStatus returns the exit status that an error of a command means.
func ExitStatus(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.status
	}
	return exitFailed
}

// exitOf is the exit status of a run of dev, whose verdict has been printed.
func exitOf(outcome dev.Outcome) error {
	switch outcome {
	case dev.Passed:
		return nil
	case dev.Void:
		return &exitError{status: exitVoid}
	}
	return &exitError{status: exitFailed}
}
