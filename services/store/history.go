package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Note says who makes a change, and why. The history keeps it.
type Note struct {
	Author  string // who the caller is
	Message string // why, in the caller's words
	Action  string // what makes the change: apply, delete, rollback to 1795362000123
	Set     string // that the change is of, see Change.Set
	// IfRevision is the revision that the configuration must have, 0 = any.
	IfRevision int64
	// Request is the caller's ID of the request, "" = none. A request whose ID one of the latest changes has is
	// answered as that change was, and changes nothing. Fingerprint identifies its contents: with another one it is
	// refused with ErrRequest.
	Request, Fingerprint string
	// Minor marks a change by a caller who is no administrator. A full history puts minor changes together before it
	// drops older changes.
	Minor bool
}

// expects refuses a change that was meant for another configuration.
func (n *Note) expects(h head) error {
	if n.IfRevision == 0 || n.IfRevision == h.Revision {
		return nil
	}
	return fmt.Errorf("%w: it is at revision %d, the change expects %d; look again, then repeat it", ErrRevision,
		h.Revision, n.IfRevision)
}

// Retention bounds the history.
type Retention struct {
	// Revisions is the number that is kept, the newest. 0 = all, negative = no history.
	Revisions int
	// Bytes bounds the space in etcd of the changes, compressed. 0 = unbounded. The oldest revisions go first. A
	// revision whose changes alone take more is kept without them.
	Bytes int64
}

// Entry is a revision in the history.
type Entry struct {
	Revision int64 `json:"revision"`
	// Previous is the revision that was changed, −1 if what was changed is not known.
	Previous int64     `json:"previous"`
	Time     time.Time `json:"time"`
	Author   string    `json:"author,omitempty"`
	Message  string    `json:"message,omitempty"`
	Action   string    `json:"action,omitempty"`
	Set      string    `json:"set,omitempty"`
	Created  int       `json:"created,omitempty"`
	Updated  int       `json:"updated,omitempty"`
	Deleted  int       `json:"deleted,omitempty"`
	// Bytes is the size of the changes in etcd, Parts the number of keys. 0 = they are not kept: they are larger than
	// Retention.Bytes.
	Bytes int64 `json:"bytes,omitempty"`
	Parts int   `json:"parts,omitempty"`
	// Request and Fingerprint are copied from the Note.
	Request string `json:"request,omitempty"`
	// Minor is copied from the Note. Merged is the number of changes in the entry, 0 = one.
	Minor       bool   `json:"minor,omitempty"`
	Merged      int    `json:"merged,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`

	id string // of its keys
}

// account is the head's sums over the history, so that a change need not count it.
type account struct {
	Last  int64 `json:"last"` // revision of the last entry: nothing has changed since
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
	Minor int64 `json:"minor,omitempty"` // bytes of minor entries
}

func (a *account) exceeds(r Retention) bool {
	return r.Revisions > 0 && a.Count > r.Revisions || r.Bytes > 0 && a.Bytes > r.Bytes || a.minorExceeds(r)
}

// minorExceeds reports whether minor changes take more than their half.
func (a *account) minorExceeds(r Retention) bool { return r.Bytes > 0 && a.Minor > r.Bytes/2 }

// add enters an entry, or takes it off (sign −1).
func (a *account) add(e *Entry, sign int64) {
	a.Count += int(sign)
	a.Bytes += sign * e.Bytes
	if e.Minor {
		a.Minor += sign * e.Bytes
	}
}

func (s *Store) entryPrefix() string             { return s.prefix + "changelog/" }
func (s *Store) entryKey(id string) string       { return s.entryPrefix() + id }
func (s *Store) partsPrefix() string             { return s.prefix + "diffs/" }
func (s *Store) partsOf(id string) string        { return s.partsPrefix() + id + "/" }
func (s *Store) partKey(id string, n int) string { return fmt.Sprintf("%s%06d", s.partsOf(id), n) }

// entryID begins with the revision, so that keys are in the order of the revisions.
func entryID(revision int64, unique uint32) string {
	return fmt.Sprintf("%016x-%08x", revision, unique)
}

func (s *Store) parseEntry(kv *mvccpb.KeyValue) (Entry, error) {
	e := Entry{id: strings.TrimPrefix(string(kv.Key), s.entryPrefix())}
	if err := json.Unmarshal(kv.Value, &e); err != nil {
		return e, fmt.Errorf("%s: %w: %w", kv.Key, ErrCorrupt, err)
	}
	return e, nil
}

// History returns the entries of revisions below the given one (0 = all), the newest first, at most limit. Errors:
// ErrCorrupt, ErrUnavailable.
func (s *Store) History(ctx context.Context, below int64, limit int) ([]Entry, error) {
	end := clientv3.GetPrefixRangeEnd(s.entryPrefix())
	if below > 0 {
		end = s.entryKey(fmt.Sprintf("%016x", below))
	}
	got, err := s.get(ctx, s.entryPrefix(), clientv3.WithRange(end), clientv3.WithLimit(int64(limit)),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(got.Kvs))
	for i, kv := range got.Kvs {
		if out[i], err = s.parseEntry(kv); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Entry returns a revision of the history. Errors: ErrNotFound, ErrCorrupt, ErrUnavailable.
func (s *Store) Entry(ctx context.Context, revision int64) (Entry, error) {
	found, err := s.History(ctx, revision+1, 1)
	if err != nil {
		return Entry{}, err
	}
	if len(found) == 0 || found[0].Revision != revision {
		return Entry{}, notInHistory(revision)
	}
	return found[0], nil
}

func notInHistory(revision int64) error {
	return fmt.Errorf("revision %d: %w in the history: it is older than the kept part, put together with later "+
		"changes, or no revision; titrate history lists them", revision, ErrNotFound)
}

// Undo returns the changes that make the configuration what it was after a revision of the history, in the order of the
// names. It also returns the revision of the configuration that they are for. Errors: ErrNotFound, ErrNoHistory,
// ErrHeld, ErrCorrupt, ErrUnavailable.
func (s *Store) Undo(ctx context.Context, revision int64) (changes []Change, on int64, err error) {
	h, err := s.headAfterStage(ctx)
	if err == nil {
		err = h.held()
	}
	if err != nil {
		return nil, 0, err
	}
	was, err := s.back(ctx, h, revision)
	if err != nil {
		return nil, 0, err
	}
	return undoing(was), h.Revision, nil
}

// back returns what each resource that was changed since was after a revision of the history, nil where it did not
// exist. Revision 0 is before all changes.
func (s *Store) back(ctx context.Context, h head, revision int64) (map[string]*quotav1.Resource, error) {
	was := map[string]*quotav1.Resource{}
	at := h.content()
	if revision == h.Revision {
		revision = at // a revision that was raised has the content of the one before
	}
	for at > revision {
		entries, err := s.History(ctx, at+1, pageKeys)
		if err != nil {
			return nil, err
		}
		before := at
		if at, err = s.unwind(ctx, entries, at, revision, was); err != nil {
			return nil, err
		}
		if at == before {
			return nil, notInHistory(revision)
		}
	}
	if at != revision {
		return nil, notInHistory(revision)
	}
	return was, nil
}

// unwind goes back from the revision at through the entries, as far as the revision to. It notes what each resource was
// and returns the revision that it has reached.
func (s *Store) unwind(ctx context.Context, entries []Entry, at, to int64, was map[string]*quotav1.Resource) (int64,
	error) {
	for _, e := range entries {
		if at <= to {
			break
		}
		switch {
		case e.Revision != at:
			return at, fmt.Errorf("%w: the change to revision %d was not recorded, by "+
				"titrate recover, so that nothing before it can be reached", ErrNoHistory, at)
		case e.Parts == 0:
			return at, fmt.Errorf("%w: the changes of revision %d were too large to be kept (--history-bytes), so "+
				"that nothing before it can be reached", ErrNoHistory, at)
		case e.Previous < 0:
			return at, fmt.Errorf("%w: what revision %d replaced could not be read, so that nothing before it can be "+
				"reached", ErrNoHistory, at)
		}
		err := s.Changes(ctx, e, func(c *quotav1.ResourceChange) bool {
			was[c.GetName()] = c.GetBefore()
			return true
		})
		if err != nil {
			return at, err
		}
		at = e.Previous
	}
	return at, nil
}

// undoing are the changes that restore what resources were.
func undoing(was map[string]*quotav1.Resource) []Change {
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(was)) {
		m := resource.Unwrap(was[name])
		if m == nil {
			changes = append(changes, Change{Op: Delete, Name: name, AllowMissing: true})
			continue
		}
		owner := m.GetSet()
		changes = append(changes, Change{Resource: resource.Spec(m), Declared: true, Set: &owner, TakeOver: true})
	}
	return changes
}

// Changes calls visit for each resource that a revision changed, until it returns false. Errors: ErrNoHistory if they
// are not kept, ErrNotFound if they are no longer kept, ErrCorrupt, ErrUnavailable.
func (s *Store) Changes(ctx context.Context, e Entry, visit func(*quotav1.ResourceChange) bool) error {
	if e.Parts == 0 {
		return fmt.Errorf("%w: the changes of revision %d were too large to be kept (--history-bytes)", ErrNoHistory,
			e.Revision)
	}
	r := &partReader{ctx: ctx, store: s, entry: &e}
	err := decodeChanges(r, visit)
	switch {
	case r.err != nil:
		return r.err
	case err != nil:
		return fmt.Errorf("revision %d: %w: %w", e.Revision, ErrCorrupt, err)
	}
	return nil
}

// partReader reads the parts of an entry's changes one by one.
type partReader struct {
	ctx   context.Context
	store *Store
	entry *Entry
	next  int
	rest  []byte
	err   error // why it has ended before the last part
}

// Read implements io.Reader.
func (r *partReader) Read(to []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.next == r.entry.Parts {
			return 0, io.EOF
		}
		if r.rest, r.err = r.part(); r.err != nil {
			return 0, r.err
		}
		r.next++
	}
	n := copy(to, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// part reads the next part.
func (r *partReader) part() ([]byte, error) {
	got, err := r.store.get(r.ctx, r.store.partKey(r.entry.id, r.next))
	if err != nil {
		return nil, err
	}
	if len(got.Kvs) == 1 {
		return got.Kvs[0].Value, nil
	}
	if _, err := r.store.Entry(r.ctx, r.entry.Revision); errors.Is(err, ErrNotFound) {
		return nil, err
	}
	return nil, fmt.Errorf("revision %d: %w: %d of %d parts of its changes are there", r.entry.Revision, ErrCorrupt,
		r.next, r.entry.Parts)
}
