// Package lastgood keeps what an agent last applied on disk, so that its gateways
// are served before the coordinator is reached, even if it has ended.
//
// # Model
//
// One file, last-good.bin, holds a whole configuration and the leases of that time, as they came on the control stream:
//
//	offset  size  what
//	0       8     "TITRATE1": magic and format
//	8       32    SHA-256 of all that follows
//	40      8     length n of the configuration, little-endian
//	48      n     titrate.control.v1alpha1.Configuration, full
//	48+n    …     titrate.control.v1alpha1.Leases; none when empty
//
// What has changed since then is added to a second file, last-good.changes, so that a change
// costs what it is large and not what the configuration is large:
//
//	offset  size  what
//	0       8     "TITRATEC": magic and format
//	8       32    the SHA-256 in the first file; the changes of another one do not count
//	40      …     records: length and CRC-32C of the message, 4 bytes each, little-endian, and
//	              titrate.control.v1alpha1.ConnectResponse, a Configuration or Leases
//
// When the second file has become larger than the first one, a new first one is written and the second restarts
// empty. A byte that changes is written twice on average.
//
// # Invariants
//
//   - A crash at any point leaves the older file or the newer one, whole: it is
//     written under another name, synced, renamed, and the directory synced. A record of which a crash
//     has written a part does not count, nor do those after it.
//   - A damaged file is never used and never lost: it is moved aside.
//   - The files are readable by their owner alone.
//   - One process at a time has the directory ([LockDir]).
package lastgood

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"google.golang.org/protobuf/proto"
)

const (
	name   = "last-good.bin"
	damage = "last-good.damaged"
	magic  = "TITRATE1"
	head   = len(magic) + sha256.Size
)

// Snapshot has the last configuration and leases.
type Snapshot struct {
	Configuration *controlv1.Configuration // full
	Leases        *controlv1.Leases        // nil = none yet
}

// DamagedError says why a snapshot could not be used, and where it was moved.
type DamagedError struct {
	Path   string // of the damaged file, now
	Reason error
}

// Error says what is wrong and what happens now.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("last good snapshot refused: %v; moved to %s, starting without it until the coordinator is "+
		"reached", e.Reason, e.Path)
}

// Unwrap is the reason.
func (e *DamagedError) Unwrap() error { return e.Reason }

// Writable returns an error if dir cannot hold a snapshot, before the first Save.
func Writable(dir string) error {
	f, err := os.CreateTemp(dir, name+".*")
	if err != nil {
		return fmt.Errorf("lastgood: cannot write to %s: %w", dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func replace(dir string, b []byte) error {
	f, err := os.CreateTemp(dir, name+".*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the names in a directory last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Load returns the snapshot in dir, nil if there is none. What is damaged is moved aside and gives a *DamagedError. If
// that is the file with changes, the snapshot without them, or with those before the damage, is returned as well.
func Load(dir string) (*Snapshot, error) {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lastgood: %w", err)
	}
	s, err := decode(b)
	if err != nil {
		return nil, moveAside(dir, name, damage, err)
	}
	changed, err := loadChanges(dir, sum(b), s)
	if err != nil {
		return changed, moveAside(dir, changesName, changesDamage, err)
	}
	return changed, nil
}

// moveAside moves a file that cannot be used aside and says so.
func moveAside(dir, name, damage string, reason error) error {
	path, aside := filepath.Join(dir, name), filepath.Join(dir, damage)
	if err := os.Rename(path, aside); err != nil {
		return fmt.Errorf("lastgood: %s cannot be used (%w), nor be moved aside: %w", path, reason, err)
	}
	return &DamagedError{Path: aside, Reason: reason}
}

// Reject moves a snapshot aside that reads well but cannot be used for reason.
func Reject(dir string, reason error) error { return moveAside(dir, name, damage, reason) }

func encode(s Snapshot) ([]byte, error) {
	size := proto.Size(s.Configuration)
	b := make([]byte, head, head+8+size+proto.Size(s.Leases))
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	b, err := proto.MarshalOptions{}.MarshalAppend(b, s.Configuration)
	if err == nil {
		b, err = proto.MarshalOptions{}.MarshalAppend(b, s.Leases)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b[head:])
	copy(b, magic)
	copy(b[len(magic):], sum[:])
	return b, nil
}

// sum is the checksum in a file.
func sum(b []byte) []byte { return b[len(magic):head] }

func decode(b []byte) (*Snapshot, error) {
	if len(b) < head+8 {
		return nil, fmt.Errorf("%d bytes, want at least %d", len(b), head+8)
	}
	if string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("begins with %q, want %q", b[:len(magic)], magic)
	}
	body := b[head:]
	if have := sha256.Sum256(body); !bytes.Equal(sum(b), have[:]) {
		return nil, errors.New("checksum does not match")
	}
	n := binary.LittleEndian.Uint64(body)
	body = body[8:]
	if n > uint64(len(body)) {
		return nil, fmt.Errorf("configuration of %d bytes in %d", n, len(body))
	}
	s := &Snapshot{Configuration: &controlv1.Configuration{}}
	if err := proto.Unmarshal(body[:n], s.Configuration); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if rest := body[n:]; len(rest) > 0 {
		s.Leases = &controlv1.Leases{}
		if err := proto.Unmarshal(rest, s.Leases); err != nil {
			return nil, fmt.Errorf("leases: %w", err)
		}
	}
	return s, nil
}
