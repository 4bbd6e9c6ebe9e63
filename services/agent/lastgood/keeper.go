package lastgood

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

// leastChanges is the size of the file of changes up to which no new snapshot is written,
// however small the snapshot is. Default 1 MiB. Larger takes more disk and a slower start.
const leastChanges = 1 << 20

// Keeper keeps the snapshot in a directory current. Not safe for concurrent use.
type Keeper struct {
	dir   string
	sum   []byte   // of the snapshot that changes are added to; nil: none was saved yet
	size  int64    // its bytes
	file  *os.File // of changes; nil: none since
	bytes int64    // in it
}

// NewKeeper keeps a snapshot in dir, which must exist.
func NewKeeper(dir string) *Keeper { return &Keeper{dir: dir} }

// Full reports that the next thing to keep is a whole snapshot: there is none of this
// process, or the changes since take more room.
func (k *Keeper) Full() bool { return k.sum == nil || k.bytes > max(k.size, leastChanges) }

// Save puts a whole snapshot in the place of what was kept.
func (k *Keeper) Save(s Snapshot) error {
	k.Close()
	k.sum = nil
	b, err := encode(s)
	if err != nil {
		return fmt.Errorf("lastgood: encode: %w", err)
	}
	if err := replace(k.dir, b); err != nil {
		return fmt.Errorf("lastgood: save in %s: %w", k.dir, err)
	}
	// The changes of the snapshot before do not count any more, whether they are gone or not.
	_ = os.Remove(filepath.Join(k.dir, changesName))
	k.sum, k.size, k.bytes = sum(b), int64(len(b)), 0
	return nil
}

// Add adds changes of the configuration, in their order, and leases (nil: as before) to the
// snapshot. After an error the next thing to keep is a whole snapshot.
func (k *Keeper) Add(changes []*controlv1.Configuration, leases *controlv1.Leases) error {
	b, err := records(changes, leases)
	if err == nil {
		err = k.write(b)
	}
	if err != nil {
		k.sum = nil
		return fmt.Errorf("lastgood: add to the snapshot in %s: %w", k.dir, err)
	}
	return nil
}

func (k *Keeper) write(b []byte) (err error) {
	if k.sum == nil {
		return errors.New("there is none to add to")
	}
	if k.file == nil {
		if k.file, err = begin(k.dir, k.sum); err != nil {
			return err
		}
	}
	n, err := k.file.Write(b)
	k.bytes += int64(n)
	if err != nil {
		return err
	}
	return k.file.Sync()
}

// Close closes the file of changes.
func (k *Keeper) Close() {
	if k.file != nil {
		_ = k.file.Close() // it was synced
		k.file = nil
	}
}
