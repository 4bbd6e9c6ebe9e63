package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Query selects resources of one kind, in the order of their names.
type Query struct {
	Kind   resource.Kind
	Parent string // tenants/x: only that tenant's quotas or limits; "" = all
	After  string // names after this one; "" = from the first
	Limit  int    // at most so many; 0 = all
}

// List returns the resources that the query selects and the name to put into
// Query.After for the rest, "" at the end. A page is of one revision, two pages
// need not be. Errors: ErrCorrupt, ErrUnavailable.
func (s *Store) List(ctx context.Context, q Query) (page []resource.Message, next string, err error) {
	start, end := s.bounds(q)
	err = s.scan(ctx, start, end, 0, func(kv *mvccpb.KeyValue) (bool, error) {
		ref, err := resource.Parse(string(kv.Key[len(s.prefix):]))
		if err != nil || ref.Kind != q.Kind {
			return true, nil
		}
		if q.Limit > 0 && len(page) == q.Limit {
			next = page[len(page)-1].GetName()
			return false, nil
		}
		m, err := s.decode(kv)
		page = append(page, m)
		return true, err
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

func (s *Store) bounds(q Query) (start, end string) {
	start = s.prefix + "tenants/"
	if q.Kind == resource.Pool {
		start = s.prefix + "pools/"
	}
	if q.Parent != "" && q.Kind.Child() {
		start = s.prefix + q.Parent + "/" + q.Kind.Collection() + "/"
	}
	end = clientv3.GetPrefixRangeEnd(start)
	if q.After != "" {
		start = max(start, s.prefix+q.After+"\x00")
	}
	return start, end
}

// scan calls visit for the keys in [start, end) in order, page by page at one
// revision (0 = now), until it returns false or an error.
func (s *Store) scan(ctx context.Context, start, end string, rev int64, visit func(*mvccpb.KeyValue) (bool, error)) error {
	for start < end {
		got, err := s.get(ctx, start, clientv3.WithRange(end), clientv3.WithRev(rev), clientv3.WithLimit(pageKeys))
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			if on, err := visit(kv); err != nil || !on {
				return err
			}
		}
		if !got.More {
			return nil
		}
		rev = got.Header.Revision
		start = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
	return nil
}

// Snapshot is the whole configuration at one revision.
type Snapshot struct {
	// Revision is the configuration's: 0 when nothing was ever written.
	Revision int64
	// Resources are in the order of their names: pools, then each tenant with its
	// limits and quotas.
	Resources []*quotav1.Resource

	// seen is etcd's own revision at the reading, at least Revision.
	seen int64
}

// Snapshot reads the whole configuration at one revision. Errors: ErrCorrupt
// (naming the resource), ErrUnavailable.
func (s *Store) Snapshot(ctx context.Context) (Snapshot, error) {
	for {
		snap, err := s.snapshot(ctx)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return snap, err
		}
	}
}

func (s *Store) snapshot(ctx context.Context) (Snapshot, error) {
	head, err := s.get(ctx, s.headKey())
	if err != nil {
		return Snapshot{}, err
	}
	snap := Snapshot{Revision: modRevision(head), seen: head.Header.Revision}
	err = s.scan(ctx, s.first(), s.last(), snap.seen, func(kv *mvccpb.KeyValue) (bool, error) {
		if !s.ours(kv) {
			return true, nil
		}
		m, err := s.decode(kv)
		if err != nil {
			return false, err
		}
		snap.Resources = append(snap.Resources, resource.Of(m))
		return true, nil
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot at revision %d: %w", snap.seen, err)
	}
	return snap, nil
}

// ours tells whether a key is one of the four kinds that this version knows.
func (s *Store) ours(kv *mvccpb.KeyValue) bool {
	_, err := resource.Parse(strings.TrimPrefix(string(kv.Key), s.prefix))
	return err == nil
}

// modRevision returns the mod revision of the only key asked for, 0 if absent.
func modRevision(got *clientv3.GetResponse) int64 {
	if len(got.Kvs) == 0 {
		return 0
	}
	return got.Kvs[0].ModRevision
}
