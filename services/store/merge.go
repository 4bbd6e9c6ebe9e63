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
	"github.com/titrate/titrate/services/wording"
)

const (
	// mergeMost bounds the entries of the history that become one. A larger value reads more at once, less often.
	mergeMost = 64
	// mergeRuns bounds the runs of entries that one change merges.
	mergeRuns = 8
	// mergeBytes bounds the changes that a merge reads, before compression.
	mergeBytes = 64 << 20
)

// update has the writes of a change to the history, and the conditions for them.
type update struct {
	ops  []clientv3.Op
	when []clientv3.Cmp
}

// merge makes room in a full history. It puts the oldest minor entries that follow each other together into one, which
// says what each resource was before the first and is after the last. The revisions between them can no longer be
// returned to; all others can, however often callers without the administrator's role make changes. A minor change also
// merges entries that remember request IDs before it takes the place of an older entry.
func (s *Store) merge(ctx context.Context, a *account, minor bool) (u update, err error) {
	stored := a.Count - 1
	for _, among := range []int{stored - s.fresh(), stored} {
		start := s.entryPrefix()
		for runs := 0; a.exceeds(s.retention) && runs < mergeRuns; runs++ {
			var run []Entry
			if run, start, err = s.oldestMinor(ctx, start, among); err != nil || len(run) < 2 {
				break
			}
			if err = s.mergeRun(ctx, a, run, &u); err != nil {
				return u, err
			}
		}
		if err != nil || !minor || len(u.ops) > 0 {
			break
		}
	}
	return u, err
}

// mergeRun puts a run of entries together, unless their changes cannot be read or would fill more than the half of the
// history that minor changes may take.
func (s *Store) mergeRun(ctx context.Context, a *account, run []Entry, u *update) error {
	r, run, err := s.merged(ctx, run)
	switch {
	case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotFound):
		return nil // excess drops these entries together with the older ones
	case err != nil:
		return err
	case len(run) < 2 || r.id == "" || s.retention.Bytes > 0 && r.Bytes > s.retention.Bytes/2:
		return nil
	}
	value, err := json.Marshal(r.Entry)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadChange, err)
	}
	if err := s.stageParts(ctx, r); err != nil {
		return err
	}
	a.add(&r.Entry, 1)
	for i := range run {
		a.add(&run[i], -1)
	}
	first, last := run[0].id, run[len(run)-1].id
	u.when = append(u.when, s.partsThere(r)...)
	u.ops = append(u.ops, // '0' follows '/': the end is behind all parts of the last entry
		clientv3.OpDelete(s.entryKey(first), clientv3.WithRange(s.entryKey(last)+"\x00")),
		clientv3.OpDelete(s.partsOf(first), clientv3.WithRange(s.partsPrefix()+last+"0")),
		clientv3.OpPut(s.entryKey(r.id), string(value)))
	return nil
}

// fresh returns the number of the newest entries that are merged last, because they remember request IDs.
func (s *Store) fresh() int {
	if s.retention.Revisions > 0 {
		return min(RequestsKept, s.retention.Revisions/2)
	}
	return RequestsKept
}

// mergeable reports whether an entry may be merged with its neighbours.
func (e *Entry) mergeable() bool { return e.Minor && e.Parts > 0 && e.Previous >= 0 }

// oldestMinor returns at most mergeMost of the oldest minor entries, from the key start on, that follow each other, and
// the key behind them. It looks among the given number of the oldest entries of the whole history.
func (s *Store) oldestMinor(ctx context.Context, start string, among int) (run []Entry, next string, err error) {
	end := clientv3.GetPrefixRangeEnd(s.entryPrefix())
	if start != s.entryPrefix() {
		passed, err := s.get(ctx, s.entryPrefix(), clientv3.WithRange(start), clientv3.WithCountOnly())
		if err != nil {
			return nil, start, err
		}
		among -= int(passed.Count)
	}
	for among > 0 {
		got, err := s.get(ctx, start, clientv3.WithRange(end), clientv3.WithLimit(int64(min(among, pageKeys))))
		if err != nil || len(got.Kvs) == 0 {
			return run, start, err
		}
		for _, kv := range got.Kvs {
			e, err := s.parseEntry(kv)
			longer := extended(run, e, err == nil && e.mergeable())
			if len(run) > 1 && len(longer) <= len(run) {
				return run, start, nil
			}
			run, among, start = longer, among-1, string(kv.Key)+"\x00"
			if len(run) == mergeMost {
				return run, start, nil
			}
		}
	}
	return run, start, nil
}

// extended returns the run with an entry that follows it, else a new run of the entry, or none if it fits in none.
func extended(run []Entry, e Entry, fits bool) []Entry {
	switch {
	case !fits:
		return nil
	case len(run) > 0 && e.Previous == run[len(run)-1].Revision:
		return append(run, e)
	}
	return []Entry{e}
}

// merged returns one record of the changes of the first of several entries, as many as it reads in mergeBytes, and
// these entries. The ID of the record sorts behind the ID of the last entry. The ID is empty if there is none that
// does.
func (s *Store) merged(ctx context.Context, run []Entry) (r record, done []Entry, err error) {
	all, order := map[string]*quotav1.ResourceChange{}, []string(nil)
	var authors []string
	read := 0
	for i, e := range run {
		if i > 1 && read > mergeBytes {
			run = run[:i]
			break
		}
		r.Merged += max(e.Merged, 1)
		if !slices.Contains(authors, e.Author) {
			authors = append(authors, e.Author)
		}
		err := s.Changes(ctx, e, func(c *quotav1.ResourceChange) bool {
			read += proto.Size(c)
			if was := all[c.GetName()]; was != nil {
				was.After = c.GetAfter()
			} else {
				all[c.GetName()], order = c, append(order, c.GetName())
			}
			return true
		})
		if err != nil {
			return r, nil, err
		}
	}
	first, last := run[0], run[len(run)-1]
	r.Revision, r.Previous, r.Time, r.Minor, r.id = last.Revision, first.Previous, last.Time, true, idAfter(last.id)
	r.Author = wording.Few(authors, mostListed)
	r.Author = strings.ToValidUTF8(r.Author[:min(len(r.Author), maxAuthors)], "")
	r.Action = wording.Count(r.Merged, "change") + ", put together"
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
	return r, run, r.pack(func(yield func(*quotav1.ResourceChange) bool) {
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
