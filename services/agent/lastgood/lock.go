package lastgood

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// lockName is the file by whose lock a process has the directory. Its text names the process.
const lockName = "lock"

// Lock is one process's claim to a directory. The system releases it when the process ends.
type Lock struct{ file *fileutil.LockedFile }

// LockDir claims the directory, which must exist, for this process, an agent of a name. It fails if another process has
// the directory: two agents would replace each other's snapshot, and each would start with what the other applied.
func LockDir(dir, agent string) (*Lock, error) {
	path := filepath.Join(dir, lockName)
	file, err := fileutil.TryLockFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("%s is in use by %s: give each agent a directory of its own", dir, holder(path))
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	err = errors.Join(file.Truncate(0), writeAt(file.File, fmt.Sprintf("agent %s, process %d\n", agent, os.Getpid())))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return &Lock{file}, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// holder names the process that has a lock, as far as it is known.
func holder(path string) string {
	if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text))
	}
	return "another process"
}

// Close gives the directory back. A nil lock has none.
func (l *Lock) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
