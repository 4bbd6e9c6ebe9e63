package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// record is an entry of the history with its changes as they are stored: quotav1.ResourceChange, each after its length,
// compressed, cut into parts.
type record struct {
	Entry
	parts []string
}

// record makes the entry of a change from h to next. before has what was stored of the names that the change set has.
func newRecord(n Note, h, next head, now time.Time, before view, set changeSet) (record, error) {
	r := record{Entry: Entry{
		Revision: next.Revision, Previous: h.content(), Time: now.UTC(), Author: n.Author, Message: n.Message,
		Action: n.Action, Set: n.Set, Deleted: len(set.Deleted), id: entryID(next.Revision, rand.Uint32()),
		Request: n.Request, Fingerprint: n.Fingerprint, Minor: n.Minor,
	}}
	change := func(name string, after *quotav1.Resource) *quotav1.ResourceChange {
		old := before[name]
		switch {
		case old != nil && unread(old):
			r.Previous = -1
		case old != nil && after != nil:
			r.Updated++
		case after != nil:
			r.Created++
		}
		c := &quotav1.ResourceChange{Name: name, After: after}
		if old != nil && !unread(old) {
			c.Before = resource.Of(old)
		}
		return c
	}
	err := r.pack(func(yield func(*quotav1.ResourceChange) bool) {
		for _, m := range set.Resources {
			if !yield(change(resource.Name(m), m)) {
				return
			}
		}
		for _, name := range set.Deleted {
			if !yield(change(name, nil)) {
				return
			}
		}
	})
	return r, err
}

// pack makes the parts of a record from its changes.
func (r *record) pack(changes iter.Seq[*quotav1.ResourceChange]) error {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return err
	}
	for c := range changes {
		if _, err = protodelim.MarshalTo(z, c); err != nil {
			break
		}
	}
	if err = errors.Join(err, z.Close()); err != nil {
		return fmt.Errorf("%w: %w", ErrBadChange, err)
	}
	r.Bytes = int64(packed.Len())
	for part := range slices.Chunk(packed.Bytes(), chunkBytes) {
		r.parts = append(r.parts, string(part))
	}
	r.Parts = len(r.parts)
	return nil
}

// unread reports whether a resource stands for a stored value that cannot be read, see decodeKnown.
func unread(m resource.Message) bool {
	empty := resource.KindOf(m).New()
	resource.SetName(empty, m.GetName())
	return proto.Equal(resource.Spec(m), empty)
}

// decodeChanges calls visit for the changes in what was packed, until it returns false.
func decodeChanges(packed io.Reader, visit func(*quotav1.ResourceChange) bool) error {
	z, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	in := bufio.NewReader(z)
	for {
		c := &quotav1.ResourceChange{}
		err := protodelim.UnmarshalFrom(in, c)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !visit(c) {
			return nil
		}
	}
}

// retain enters a record into the account of the next head. It returns what stores the entry, without its parts, and
// deletes or merges what the retention no longer keeps.
func (s *Store) retain(ctx context.Context, h head, next *head, r *record) (u update, err error) {
	if s.retention.Revisions < 0 {
		next.History, r.parts = nil, nil
		if h.History != nil {
			u.ops = s.dropEntries(clientv3.GetPrefixRangeEnd(s.entryPrefix()),
				clientv3.GetPrefixRangeEnd(s.partsPrefix()))
		}
		return u, nil
	}
	if s.retention.Bytes > 0 && !r.Minor && r.Bytes > s.retention.Bytes {
		r.parts, r.Parts, r.Bytes = nil, 0, 0
	}
	a, err := s.account(ctx, h)
	if err != nil {
		return u, err
	}
	a.Last = r.Revision
	a.add(&r.Entry, 1)
	u, err = s.merge(ctx, &a, r.Minor)
	if err != nil {
		return u, err
	}
	if r.Minor && a.minorExceeds(s.retention) {
		return u, fmt.Errorf("%w: the changes of editors may take %d bytes of the history, compressed, and would "+
			"take %d; ask an administrator to make this one, or for more --history-bytes", ErrTooLarge,
			s.retention.Bytes/2, a.Minor)
	}
	oldest := ""
	if len(u.ops) == 0 { // else there is room for this change
		if oldest, err = s.excess(ctx, &a); err != nil {
			return u, err
		}
	}
	next.History = &a
	value, err := json.Marshal(r.Entry)
	if err != nil {
		return u, fmt.Errorf("%w: %w", ErrBadChange, err)
	}
	u.ops = append(u.ops, clientv3.OpPut(s.entryKey(r.id), string(value)))
	if oldest != "" { // '0' follows '/': the ends lie behind all keys of the entry
		u.ops = append(u.ops, s.dropEntries(s.entryKey(oldest)+"0", s.partsPrefix()+oldest+"0")...)
	}
	return u, nil
}

// dropEntries deletes the entries and parts below the given keys.
func (s *Store) dropEntries(entries, parts string) []clientv3.Op {
	return []clientv3.Op{clientv3.OpDelete(s.entryPrefix(), clientv3.WithRange(entries)),
		clientv3.OpDelete(s.partsPrefix(), clientv3.WithRange(parts))}
}

// account returns the head's sums over the history. They are counted where the head does not have them.
func (s *Store) account(ctx context.Context, h head) (account, error) {
	if h.History != nil {
		return *h.History, nil
	}
	var a account
	for below := int64(0); ; {
		page, err := s.History(ctx, below, pageKeys)
		if err != nil {
			return a, err
		}
		for _, e := range page {
			a.add(&e, 1)
			below = e.Revision
		}
		if len(page) < pageKeys {
			return a, nil
		}
	}
}

// excessPage is the number of the oldest entries that one read asks for, when some have to go.
const excessPage = 16

// excess takes the oldest entries off the account until it keeps to the retention. It returns the ID of the last entry
// that goes, "" if all stay.
func (s *Store) excess(ctx context.Context, a *account) (last string, err error) {
	start, end := s.entryPrefix(), clientv3.GetPrefixRangeEnd(s.entryPrefix())
	for a.exceeds(s.retention) {
		got, err := s.get(ctx, start, clientv3.WithRange(end), clientv3.WithLimit(excessPage))
		if err != nil || len(got.Kvs) == 0 {
			return last, err
		}
		for _, kv := range got.Kvs {
			if !a.exceeds(s.retention) {
				break
			}
			e, _ := s.parseEntry(kv) // an unreadable entry has counted for nothing
			a.add(&e, -1)
			last, start = e.id, string(kv.Key)+"\x00"
		}
	}
	return last, nil
}

// putParts stores the changes of a record.
func (s *Store) putParts(r record) (ops []clientv3.Op) {
	for i, part := range r.parts {
		ops = append(ops, clientv3.OpPut(s.partKey(r.id, i), part))
	}
	return ops
}

// stageParts stores the changes of a record before the entry that puts them into the history.
func (s *Store) stageParts(ctx context.Context, r record) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for _, op := range s.putParts(r) {
		group.Go(func() error { return s.do(ctx, op) })
	}
	return group.Wait()
}

// partsThere is the condition that the parts of a record are stored: sweepParts deletes all of a record or none.
func (s *Store) partsThere(r record) []clientv3.Cmp {
	if len(r.parts) == 0 {
		return nil
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.partKey(r.id, 0)), ">", 0)}
}

// dropParts removes the changes of a record.
func (s *Store) dropParts(id string) clientv3.Op {
	return clientv3.OpDelete(s.partsOf(id), clientv3.WithPrefix())
}

// sweepRecord removes the changes of a record that has no entry.
func (s *Store) sweepRecord(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	none := clientv3.Compare(clientv3.CreateRevision(s.entryKey(id)), "=", 0)
	_, err := s.client.Txn(ctx).If(none).Then(s.dropParts(id)).Commit()
	if err != nil {
		return failed(ctx, err)
	}
	return nil
}

// sweepParts removes changes of which no entry was written, as of a writer that crashed.
func (s *Store) sweepParts(ctx context.Context) error {
	entries, err := s.get(ctx, s.entryPrefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	keep := make(map[string]bool, len(entries.Kvs))
	for _, kv := range entries.Kvs {
		keep[strings.TrimPrefix(string(kv.Key), s.entryPrefix())] = true
	}
	parts, err := s.get(ctx, s.partsPrefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	for _, kv := range parts.Kvs {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), s.partsPrefix()), "/")
		if keep[id] || stageAge(id) <= staleStage {
			continue
		}
		keep[id] = true // it is gone, or an entry has been written meanwhile
		if err := s.sweepRecord(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
