package lastgood

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

const (
	changesName   = "last-good.changes"
	changesDamage = "last-good.changes.damaged"
	changesMagic  = "TITRATEC"
	changesHead   = len(changesMagic) + sha256.Size
	recordHead    = 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// begin makes an empty file of changes to the snapshot with the checksum.
func begin(dir string, sum []byte) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, changesName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(append([]byte(changesMagic), sum...)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, syncDir(dir)
}

// records returns the bytes that are appended to the file.
func records(changes []*controlv1.Configuration, leases *controlv1.Leases) (b []byte, err error) {
	for _, c := range changes {
		m := &controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Configuration{Configuration: c}}
		if b, err = appendRecord(b, m); err != nil {
			return nil, err
		}
	}
	if leases == nil {
		return b, nil
	}
	return appendRecord(b, &controlv1.ConnectResponse{Message: &controlv1.ConnectResponse_Leases{Leases: leases}})
}

func appendRecord(b []byte, m *controlv1.ConnectResponse) ([]byte, error) {
	at := len(b)
	b, err := proto.MarshalOptions{}.MarshalAppend(append(b, make([]byte, recordHead)...), m)
	if err != nil {
		return nil, err
	}
	message := b[at+recordHead:]
	binary.LittleEndian.PutUint32(b[at:], uint32(len(message)))
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(message, castagnoli))
	return b, nil
}

// loadChanges returns the snapshot with the changes in dir that belong to it. With an error,
// which says what is damaged, it has those before the damage.
func loadChanges(dir string, sum []byte, s *Snapshot) (*Snapshot, error) {
	b, err := os.ReadFile(filepath.Join(dir, changesName))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if len(b) < changesHead || !bytes.Equal(b[len(changesMagic):changesHead], sum) {
		return s, nil // of another snapshot, or a crash has just begun it
	}
	return applyRecords(s, b)
}

// applyRecords applies a file of changes to a snapshot.
func applyRecords(s *Snapshot, b []byte) (*Snapshot, error) {
	if string(b[:len(changesMagic)]) != changesMagic {
		return s, fmt.Errorf("changes begin with %q, want %q", b[:len(changesMagic)], changesMagic)
	}
	resources := make(map[string]*quotav1.Resource, len(s.Configuration.GetResources()))
	for _, r := range s.Configuration.GetResources() {
		resources[resource.Name(r)] = r
	}
	out := &Snapshot{Configuration: s.Configuration, Leases: s.Leases}
	var bad error
	for at := changesHead; bad == nil && len(b)-at >= recordHead; {
		n, check := binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:])
		at += recordHead
		if int64(n) > int64(len(b)-at) {
			break // a crash has written a part of it
		}
		bad = out.applyRecord(b[at:at+int(n)], check, resources)
		at += int(n)
	}
	c := &controlv1.Configuration{Revision: out.Configuration.GetRevision(), Full: true, Last: true,
		Seed: out.Configuration.GetSeed(), Epoch: out.Configuration.GetEpoch(),
		Ahead: out.Configuration.GetAhead()}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		c.Resources = append(c.Resources, resources[name])
	}
	out.Configuration = c
	return out, bad
}

// applyRecord applies one record; resources are the configuration's resources by name.
func (s *Snapshot) applyRecord(message []byte, check uint32, resources map[string]*quotav1.Resource) error {
	if crc32.Checksum(message, castagnoli) != check {
		return errors.New("the checksum of a change does not match")
	}
	m := &controlv1.ConnectResponse{}
	if err := proto.Unmarshal(message, m); err != nil {
		return fmt.Errorf("change: %w", err)
	}
	if l := m.GetLeases(); l != nil {
		s.Leases = l
	}
	c := m.GetConfiguration()
	if c == nil {
		return nil
	}
	for _, r := range c.GetResources() {
		resources[resource.Name(r)] = r
	}
	for _, name := range c.GetDeleted() {
		delete(resources, name)
	}
	s.Configuration = c
	return nil
}
