package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// maxFile bounds a file of callers, bytes: 100,000 tokens have room.
const maxFile = 32 << 20

// reread is a file that is read at each use, and parsed when its bytes have changed. The time and the size of a
// file are not compared: a file can change and keep both. While the file cannot be read, the value that was
// parsed last stays in force. Safe for concurrent use.
type reread[T any] struct {
	what, path string // what it is, for people, and where
	parse      func(text []byte) (T, error)
	log        *slog.Logger

	mu      sync.Mutex
	value   T
	text    []byte // that was parsed last, also in vain; nil = none yet
	wrong   error  // of the text
	trouble error  // why the file as it is now is not in force
}

// open reads the file for the first time. Then it must be right.
func open[T any](what, path string, log *slog.Logger, parse func(text []byte) (T, error)) (*reread[T], error) {
	r := &reread[T]{what: what, path: path, parse: parse, log: log}
	err := r.again()
	return r, err
}

// current returns what is in force.
func (r *reread[T]) current() T {
	value, _ := r.look()
	return value
}

// look returns what is in force, and why the file as it is now is not.
func (r *reread[T]) look() (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.trouble
	switch r.trouble = r.again(); {
	case r.trouble != nil && (before == nil || before.Error() != r.trouble.Error()):
		r.log.Error(r.what+" cannot be read; what was read before stays in force", "error", r.trouble)
	case r.trouble == nil && before != nil:
		r.log.Info(r.what+" can be read again", "file", r.path)
	}
	return r.value, r.trouble
}

// again parses the file if its bytes have changed.
func (r *reread[T]) again() error {
	text, err := readFile(r.path)
	if err != nil {
		return err
	}
	if r.text != nil && bytes.Equal(text, r.text) {
		return r.wrong
	}
	first := r.text == nil
	r.text = text
	value, err := r.parse(text)
	if r.wrong = in(r.path, err); err != nil {
		return r.wrong
	}
	r.value = value
	if !first {
		r.log.Info(r.what+" was read again", "file", r.path)
	}
	return nil
}

// stale is nil while the file as it is now is in force.
func (r *reread[T]) stale() error {
	if _, err := r.look(); err != nil {
		return fmt.Errorf("%s: %w; what was read before stays in force", r.what, err)
	}
	return nil
}

// readFile reads a file of callers, never nil.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New("it has more than 32 MiB")
	}
	return text, in(path, err)
}

// in names the file of an error; nil stays nil.
func in(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// fromFile parses a file.
func fromFile[T any](path string, parse func(text []byte) (T, error)) (T, error) {
	text, err := readFile(path)
	if err != nil {
		var none T
		return none, err
	}
	value, err := parse(text)
	return value, in(path, err)
}
