package access

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// reread is what a file says. The file is read again when it changes; while it cannot be
// read, what was read before stays in force. Safe for concurrent use.
type reread[T any] struct {
	what, path string // what it is, for people, and where
	read       func(path string) (T, error)
	log        *slog.Logger

	mu      sync.Mutex
	value   T
	stamp   time.Time // of the file that was read last, also in vain
	size    int64
	trouble error // why the file as it is now is not in force
}

// open reads the file for the first time. Then it must be right.
func open[T any](what, path string, log *slog.Logger, read func(string) (T, error)) (*reread[T], error) {
	r := &reread[T]{what: what, path: path, read: read, log: log}
	err := r.again()
	return r, err
}

// current returns what is in force.
func (r *reread[T]) current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.trouble
	switch r.trouble = r.again(); {
	case r.trouble != nil && (before == nil || before.Error() != r.trouble.Error()):
		r.log.Error(r.what+" cannot be read; what was read before stays in force", "error", r.trouble)
	case r.trouble == nil && before != nil:
		r.log.Info(r.what+" can be read again", "file", r.path)
	}
	return r.value
}

// again reads the file if it has changed.
func (r *reread[T]) again() error {
	info, err := os.Stat(r.path)
	if err != nil {
		r.stamp = time.Time{} // whatever comes back is read
		return err
	}
	if info.ModTime().Equal(r.stamp) && info.Size() == r.size {
		return r.trouble
	}
	first := r.stamp.IsZero()
	r.stamp, r.size = info.ModTime(), info.Size()
	value, err := r.read(r.path)
	if err != nil {
		return err
	}
	r.value = value
	if !first {
		r.log.Info(r.what+" was read again", "file", r.path)
	}
	return nil
}

// wrong is nil while the file as it is now is in force.
func (r *reread[T]) wrong() error {
	r.current()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trouble == nil {
		return nil
	}
	return fmt.Errorf("%s: %w; what was read before stays in force", r.what, r.trouble)
}
