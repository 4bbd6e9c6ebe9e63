// Package audit appends lines about changes to a file. It counts and reports each line that it cannot write.
//
// # Invariants
//
//   - The file has whole lines only. What a full disk has left of a line is taken away again, or, where that
//     cannot be, ended before the next line.
//   - A line goes to the file that has the name now: after a rename, as by logrotate, a new file is made.
//   - A line that could not be written is counted, and the log and Trouble say why, until one can be written.
package audit

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// File takes lines, one at each Write. Safe for concurrent use.
type File struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	f       *os.File // nil = it could not be opened again
	torn    bool     // the file ends within a line
	lost    uint64
	trouble error // of the last line
}

// Open opens the file, and makes it if it is not there.
func Open(path string, log *slog.Logger) (*File, error) {
	a := &File{path: path, log: log}
	return a, a.reopen()
}

// reopen opens the file that has the name now.
func (a *File) reopen() error {
	if a.f != nil {
		_ = a.f.Close()
	}
	a.torn = false
	var err error
	if a.f, err = os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		a.f = nil
		return err
	}
	a.torn = a.endsWithinLine()
	return nil
}

// endsWithinLine reports whether the last line of the file has no end: a process died when it wrote it.
func (a *File) endsWithinLine() bool {
	info, err := a.f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = a.f.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Write appends a line. It implements io.Writer.
func (a *File) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.append(line)
	switch before := a.trouble; {
	case err != nil:
		a.lost++
		if before == nil {
			a.log.Error("audit lines are lost: they cannot be written", "file", a.path, "error", err)
		}
	case before != nil:
		a.log.Info("audit lines are written again", "file", a.path, "lost", a.lost)
	}
	a.trouble = err
	if err != nil {
		return 0, err
	}
	return len(line), nil
}

func (a *File) append(line []byte) error {
	if !a.current() {
		if err := a.reopen(); err != nil {
			return err
		}
	}
	if a.torn {
		line = append([]byte{'\n'}, line...)
	}
	written, err := a.f.Write(line)
	if err == nil {
		a.torn = false
		return nil
	}
	if written > 0 {
		a.takeBack(written)
	}
	return err
}

// current reports whether the open file still has the name.
func (a *File) current() bool {
	if a.f == nil {
		return false
	}
	named, err := os.Stat(a.path)
	if err != nil {
		return false
	}
	opened, err := a.f.Stat()
	return err == nil && os.SameFile(named, opened)
}

// takeBack cuts off what was written of a line that did not fit.
func (a *File) takeBack(written int) {
	info, err := a.f.Stat()
	if err == nil {
		err = a.f.Truncate(info.Size() - int64(written))
	}
	a.torn = a.torn || err != nil
}

// Lost returns the number of lines that could not be written.
func (a *File) Lost() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost
}

// Trouble says why the last line could not be written, nil if it was.
func (a *File) Trouble() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trouble == nil {
		return nil
	}
	return fmt.Errorf("audit lines are lost (%d so far): %w", a.lost, a.trouble)
}
