package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// mergeMost bounds the entries of the history that one change puts together. A larger value reads
// more at once, less often.
const mergeMost = 64

// update has the writes of a change to the history, and the conditions for them.
type update struct {
	ops  []clientv3.Op
	when []clientv3.Cmp
}

// merge makes room in a full history: it puts the oldest minor entries that follow each other
// together into one, which says what each resource was before the first and is after the last. The
// revisions between them can no longer be returned to; all others can, however often callers without
// the administrator's role make changes. It returns nothing if there are no such entries, or if their
// changes would fill the half of the history.
func (s *Store) merge(ctx context.Context, a *account) (update, error) {
	run, err := s.oldestMinor(ctx, a.Count-1-s.fresh())
	if err != nil || len(run) < 2 {
		return update{}, err
	}
	first, last := run[0], run[len(run)-1]
	r, err := s.merged(ctx, run)
	switch {
	case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotFound):
		return update{}, nil // they are dropped with what is older, as if they could not be merged
	case err != nil:
		return update{}, err
	case s.retention.Bytes > 0 && r.Bytes > s.retention.Bytes/2 || r.id == "":
		return update{}, nil
	}
	value, err := json.Marshal(r.Entry)
	if err != nil {
		return update{}, fmt.Errorf("%w: %w", ErrBadChange, err)
	}
	if err := s.stageParts(ctx, r); err != nil {
		return update{}, err
	}
	a.Count, a.Bytes = a.Count-len(run)+1, a.Bytes+r.Bytes
	for _, e := range run {
		a.Bytes -= e.Bytes
	}
	return update{ops: []clientv3.Op{ // '0' follows '/': the end lies behind all parts of the last entry
		clientv3.OpDelete(s.entryKey(first.id), clientv3.WithRange(s.entryKey(last.id)+"\x00")),
		clientv3.OpDelete(s.partsOf(first.id), clientv3.WithRange(s.partsPrefix()+last.id+"0")),
		clientv3.OpPut(s.entryKey(r.id), string(value)),
	}, when: s.partsThere(r)}, nil
}

// fresh returns the number of newest entries that are not merged, because they remember request IDs:
// RequestsKept, or half of a short history.
func (s *Store) fresh() int {
	if s.retention.Revisions > 0 {
		return min(RequestsKept, s.retention.Revisions/2)
	}
	return RequestsKept
}

// oldestMinor returns the first mergeMost of the oldest minor entries that follow each other, two at
// least, among the given number of the oldest entries.
func (s *Store) oldestMinor(ctx context.Context, among int) (run []Entry, err error) {
	start, end := s.entryPrefix(), clientv3.GetPrefixRangeEnd(s.entryPrefix())
	for among > 0 {
		got, err := s.get(ctx, start, clientv3.WithRange(end), clientv3.WithLimit(int64(min(among, pageKeys))))
		if err != nil || len(got.Kvs) == 0 {
			return run, err
		}
		for _, kv := range got.Kvs {
			among, start = among-1, string(kv.Key)+"\x00"
			e, err := s.parseEntry(kv)
			fits := err == nil && e.Minor && e.Parts > 0 && e.Previous >= 0
			follows := len(run) > 0 && e.Previous == run[len(run)-1].Revision
			switch {
			case fits && follows:
				if run = append(run, e); len(run) == mergeMost {
					return run, nil
				}
			case len(run) > 1:
				return run, nil
			case fits:
				run = []Entry{e}
			default:
				run = nil
			}
		}
	}
	return run, nil
}

// merged is one record of the changes of several entries. Its ID follows that of the last; it is
// empty if there is no such ID.
func (s *Store) merged(ctx context.Context, run []Entry) (record, error) {
	first, last := run[0], run[len(run)-1]
	all, order := map[string]*quotav1.ResourceChange{}, []string(nil)
	r := record{Entry: Entry{Revision: last.Revision, Previous: first.Previous, Time: last.Time, Minor: true,
		id: idAfter(last.id)}}
	var authors []string
	for _, e := range run {
		r.Merged += max(e.Merged, 1)
		if !slices.Contains(authors, e.Author) {
			authors = append(authors, e.Author)
		}
		err := s.Changes(ctx, e, func(c *quotav1.ResourceChange) bool {
			if was := all[c.GetName()]; was != nil {
				was.After = c.GetAfter()
			} else {
				all[c.GetName()], order = c, append(order, c.GetName())
			}
			return true
		})
		if err != nil {
			return r, err
		}
	}
	r.Author = listed(authors)
	r.Author = strings.ToValidUTF8(r.Author[:min(len(r.Author), maxAuthors)], "")
	r.Action = fmt.Sprintf("%d changes, put together", r.Merged)
	order = slices.DeleteFunc(order, func(name string) bool { return undone(all[name]) })
	for _, name := range order {
		switch c := all[name]; {
		case c.GetAfter() == nil:
			r.Deleted++
		case c.GetBefore() == nil:
			r.Created++
		default:
			r.Updated++
		}
	}
	return r, r.pack(func(yield func(*quotav1.ResourceChange) bool) {
		for _, name := range order {
			if !yield(all[name]) {
				return
			}
		}
	})
}

// maxAuthors bounds the authors' names of merged entries, bytes.
const maxAuthors = 1024

// undone reports whether a resource is after changes what it was before.
func undone(c *quotav1.ResourceChange) bool {
	before, after := resource.Unwrap(c.GetBefore()), resource.Unwrap(c.GetAfter())
	if before == nil || after == nil {
		return before == nil && after == nil
	}
	return before.GetSet() == after.GetSet() && proto.Equal(resource.Spec(before), resource.Spec(after))
}

// idAfter is an entry's ID of the same revision that sorts behind id, "" if there is none.
func idAfter(id string) string {
	revision, unique, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(unique, 16, 32)
	if err != nil || n == 1<<32-1 {
		return ""
	}
	return fmt.Sprintf("%s-%08x", revision, n+1)
}
