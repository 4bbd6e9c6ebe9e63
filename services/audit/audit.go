// Package audit appends lines about changes to a file. It counts and reports each line that it cannot write.
//
// # Invariants
//
//   - The file has whole lines only. What a full disk has left of a line is taken away again, or, where that
//     cannot be, ended before the next line.
//   - A line goes to the file that has the name now: after a rename, as by logrotate, a new file is made.
//   - A line that could not be written is counted, and the log and Trouble say why, until one can be written.
//   - Lost and Trouble never wait for a write, and Trouble says so when one takes long.
//   - The file is opened for writing only: a FIFO without a reader is an error, not a place where lines vanish.
package audit

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// slow bounds the time of a write: a longer one is trouble.
const slow = 5 * time.Second

// File takes lines, one at each Write. Safe for concurrent use.
type File struct {
	path string
	log  *slog.Logger

	lost    atomic.Uint64
	trouble atomic.Pointer[error]     // of the last line; nil = none
	began   atomic.Pointer[time.Time] // when the write under way did; nil = none

	mu   sync.Mutex // of a write
	f    *os.File   // nil = it could not be opened again
	torn bool       // the file ends within a line
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
	// Without O_NONBLOCK the open waits for a reader of a FIFO.
	a.f, err = os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|unix.O_NONBLOCK, 0o600)
	if err != nil {
		a.f = nil
		if errors.Is(err, unix.ENXIO) {
			err = fmt.Errorf("%w: nobody reads this FIFO", err)
		}
		return err
	}
	a.torn = a.endsWithinLine()
	return nil
}

// endsWithinLine reports whether the last line of the file has no end: a process died when it wrote it. Of a
// file that may not be read this is not known.
func (a *File) endsWithinLine() bool {
	info, err := a.f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	read, err := os.Open(a.path)
	if err != nil {
		return false
	}
	defer func() { _ = read.Close() }()
	last := make([]byte, 1)
	_, err = read.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Write appends a line. It implements io.Writer.
func (a *File) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.began.Store(&now)
	err := a.append(line)
	a.began.Store(nil)
	before := a.trouble.Load()
	if err != nil {
		a.lost.Add(1)
		a.trouble.Store(&err)
		if before == nil {
			a.log.Error("audit lines are lost: they cannot be written", "file", a.path, "error", err)
		}
		return 0, err
	}
	a.trouble.Store(nil)
	if before != nil {
		a.log.Info("audit lines are written again", "file", a.path, "lost", a.Lost())
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
func (a *File) Lost() uint64 { return a.lost.Load() }

// Trouble says why the last line could not be written, or that the write under way takes long; nil if neither is so.
func (a *File) Trouble() error { return a.troubleAt(time.Now()) }

func (a *File) troubleAt(now time.Time) error {
	if began := a.began.Load(); began != nil && now.Sub(*began) > slow {
		return fmt.Errorf("an audit line has waited for the file %s for over %v, and the change with it", a.path, slow)
	}
	if why := a.trouble.Load(); why != nil {
		return fmt.Errorf("audit lines are lost (%d so far): %w", a.Lost(), *why)
	}
	return nil
}
